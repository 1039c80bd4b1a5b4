//! `[http]`: the hosts that requests may go to, and the headers that the host adds.

pub(crate) mod rules;
pub(crate) mod template;

use crate::deserializer::{Error, Lines};
use crate::granted_by::GrantedBy;
use crate::secrets::NamedSecret;
use crate::values::{self, Count, TextOrTable};
use http::{HeaderName, Method, header};
use rules::{Host, Hosts, Rule, Scheme, Target, Written};
use serde::Deserialize;
use serde::de::Deserializer;
use std::collections::BTreeMap;
use std::str::FromStr;
use template::Template;
use toml::Spanned;

/// The maximum number of entries in one list.
const MAX_ENTRIES: usize = 256;
const MAX_HEADERS: usize = 32;

/// The grants and headers of the section.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamedHttp {
    /// `allow`: the hosts that requests may go to.
    pub rules: Vec<Rule>,
    /// `inject`: headers with secrets, by host.
    pub injections: Vec<NamedInjection>,
    /// `idempotency-key`: whether POST and PATCH requests of tasks carry a key.
    pub keyed: bool,
    /// `in-doubt`: the fate of a request that was under way when its host stopped.
    pub in_doubt: InDoubt,
}

/// The fate of a request of a task that resumes, if its host stopped while it was under way, so that nothing says
/// whether the server carried it out. Requests that are idempotent by their method or by a key are sent again in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InDoubt {
    /// The task fails.
    #[default]
    Fail,
    /// The guest gets an error, as when a connection breaks.
    Error,
    /// The host sends the request again.
    Retry,
    /// The person whose task it is decides. If that person cannot be asked, or does not answer, the task fails.
    Ask,
}

/// Headers for one host, with their secrets by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedInjection {
    /// The host, as written in the manifest.
    pub written: Written,
    /// The headers of the injection.
    pub headers: Vec<NamedHeader>,
}

/// A header, with its secrets by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedHeader {
    /// The header's name.
    pub name: HeaderName,
    /// The header's value, with the names of secrets.
    pub value: Template,
    /// The manifest's line, for errors.
    pub line: Option<usize>,
}

impl NamedHttp {
    /// The names of the secrets that are injected.
    pub fn secrets(&self) -> impl Iterator<Item = (&str, &NamedHeader)> {
        let headers = self.injections.iter().flat_map(|injection| &injection.headers);
        headers.flat_map(|header| header.value.secrets().map(move |name| (name, header)))
    }
}

/// Whether a header belongs to the connection, so that neither a guest nor a manifest may set it:
/// the ones that wasmtime forbids, `te` and `trailer`.
#[must_use]
pub fn is_forbidden(name: &HeaderName) -> bool {
    const OTHERS: [&str; 3] = ["keep-alive", "proxy-connection", "http2-settings"];
    matches!(
        *name,
        header::CONNECTION
            | header::PROXY_AUTHENTICATE
            | header::PROXY_AUTHORIZATION
            | header::TRANSFER_ENCODING
            | header::UPGRADE
            | header::HOST
            | header::TE
            | header::TRAILER
    ) || OTHERS.contains(&name.as_str())
}

/// The section as in the text.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(crate) struct HttpSection {
    #[serde(deserialize_with = "values::list::<MAX_ENTRIES, _, _, _>")]
    allow: Vec<Spanned<TextOrTable<RuleTable>>>,
    inject: BTreeMap<String, Spanned<Headers>>,
    idempotency_key: bool,
    in_doubt: InDoubt,
}

type Headers = BTreeMap<String, Spanned<Template>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleTable {
    host: Written,
    port: Option<Spanned<Count<1, { u16::MAX as u64 }>>>,
    scheme: Option<Spanned<Scheme>>,
    #[serde(default, deserialize_with = "values::list::<MAX_ENTRIES, _, _, _>")]
    methods: Option<Vec<RuleMethod>>,
    #[serde(default)]
    private: bool,
    #[serde(default)]
    grant: GrantedBy,
}

impl FromStr for RuleTable {
    type Err = String;

    fn from_str(host: &str) -> Result<Self, String> {
        let (host, grant) = (Written::parse(host)?, GrantedBy::Operator);
        Ok(Self { host, port: None, scheme: None, methods: None, private: false, grant })
    }
}

struct RuleMethod(Method);

impl<'de> Deserialize<'de> for RuleMethod {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        values::text(deserializer, "a method such as \"GET\"", |text| {
            Method::from_bytes(text.as_bytes()).ok().filter(|_| text == text.to_ascii_uppercase())
        })
        .map(Self)
    }
}

impl HttpSection {
    /// Checks the section.
    pub fn check(self, secrets: &[NamedSecret], lines: &Lines) -> Result<NamedHttp, Error> {
        let rules = self.allow.into_iter().map(rule).collect::<Result<Vec<_>, _>>()?;
        let injection = |(host, headers): (String, Spanned<Headers>)| {
            let written =
                injected_host(&host, headers.get_ref(), &rules).map_err(|what| Error::at(&headers, what))?;
            let headers = headers.into_inner().into_iter();
            let headers = headers.map(|(name, value)| named_header(&name, value, secrets, lines));
            Ok(NamedInjection { written, headers: headers.collect::<Result<_, _>>()? })
        };
        let injections = self.inject.into_iter().map(injection).collect::<Result<_, _>>()?;
        Ok(NamedHttp { rules, injections, keyed: self.idempotency_key, in_doubt: self.in_doubt })
    }
}

fn rule(entry: Spanned<TextOrTable<RuleTable>>) -> Result<Rule, Error> {
    let error = |what: &str| Err(Error::at(&entry, what));
    let TextOrTable(table) = entry.get_ref();
    let mut written = table.host.clone();
    if let Some(port) = &table.port {
        let number = u16::try_from(port.get_ref().0).ok();
        if written.port.is_some() {
            return Err(Error::at(port, "is said by `host` already"));
        }
        written.port = number;
    }
    if let Some(scheme) = &table.scheme
        && written.scheme.replace(*scheme.get_ref()).is_some()
    {
        return Err(Error::at(scheme, "is said by `host` already"));
    }
    if table.private && written.hosts == Hosts::Any {
        return error("`private` would open every network of this machine; name hosts");
    }
    let methods = table.methods.as_deref();
    if methods.is_some_and(<[_]>::is_empty) {
        return error("`methods` is empty, which would grant nothing");
    }
    let methods = methods.unwrap_or_default().iter().map(|RuleMethod(method)| method.clone()).collect();
    Ok(Rule { written, methods, private: table.private, by: table.grant })
}

/// # Errors
/// A sentence about the host.
fn injected_host(host: &str, headers: &Headers, rules: &[Rule]) -> Result<Written, String> {
    let written = Written::parse(host)?;
    let Hosts::One(host) = &written.hosts else {
        return Err("a secret goes to one host, not to any that a star stands for".to_owned());
    };
    if !is_allowed(&written, host, rules) {
        return Err("is not in `http.allow`, so nothing would ever be sent there".to_owned());
    }
    if headers.len() > MAX_HEADERS {
        return Err(format!("has too many headers; {MAX_HEADERS} are the most"));
    }
    Ok(written)
}

/// Whether the rules grant any request to which these headers would be added.
fn is_allowed(written: &Written, host: &Host, rules: &[Rule]) -> bool {
    [Scheme::Http, Scheme::Https].into_iter().any(|scheme| {
        let target = Target { scheme, host: host.clone(), port: written.port.unwrap_or(scheme.port()) };
        written.scheme.is_none_or(|said| said == scheme) && rules.iter().any(|rule| rule.is_about(&target))
    })
}

fn named_header(
    key: &str,
    value: Spanned<Template>,
    secrets: &[NamedSecret],
    lines: &Lines,
) -> Result<NamedHeader, Error> {
    let name = HeaderName::from_bytes(key.as_bytes())
        .map_err(|_| Error::at(&value, "is not the name of a header"))?;
    if is_forbidden(&name) || name == header::CONTENT_LENGTH {
        return Err(Error::at(&value, "is the connection's own header"));
    }
    let is_unknown = |secret: &&str| secrets.iter().all(|known| known.name != **secret);
    if let Some(secret) = value.get_ref().secrets().find(is_unknown) {
        let what = format!("the header `{name}` takes `{{{secret}}}`, which is not in `secrets`");
        return Err(Error::at(&value, what));
    }
    let line = Some(lines.line(&value));
    Ok(NamedHeader { name, value: value.into_inner(), line })
}
