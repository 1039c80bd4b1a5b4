//! `[http]`: which hosts requests may go to, and the headers that the host adds.

pub(crate) mod rules;
pub(crate) mod template;

use super::read::{Entry, Section};
use crate::GrantedBy;
use crate::error::ManifestError;
use http::{HeaderName, Method, header};
use rules::{Host, Hosts, Rule, Scheme, Target, Written};
use template::Template;

/// The most entries of one list.
const MOST: usize = 256;
const MOST_HEADERS: usize = 32;

/// The section.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamedHttp {
    /// `allow`: where requests may go.
    pub rules: Vec<Rule>,
    /// `inject`: headers with secrets, by host.
    pub injections: Vec<NamedInjection>,
    /// `idempotency-key`: whether POST and PATCH of tasks carry one.
    pub keyed: bool,
}

/// Headers for one host, with their secrets by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedInjection {
    /// The host, as the manifest names it.
    pub written: Written,
    /// Its headers.
    pub headers: Vec<NamedHeader>,
}

/// One header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedHeader {
    /// Its name.
    pub name: HeaderName,
    /// Its value, with secrets by name.
    pub value: Template,
    /// The manifest's line, for complaints.
    pub line: Option<usize>,
}

impl NamedHttp {
    /// The names of the secrets that are injected.
    pub fn secrets(&self) -> impl Iterator<Item = (&str, &NamedHeader)> {
        let headers = self.injections.iter().flat_map(|injection| &injection.headers);
        headers.flat_map(|header| header.value.secrets().map(move |name| (name, header)))
    }
}

/// Whether a header belongs to the connection, so that neither a guest nor a manifest sets it: those
/// that wasmtime forbids, `te` and `trailer`.
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

/// Reads the section.
pub(super) fn http(section: &Section<'_>) -> Result<NamedHttp, ManifestError> {
    let mut http = NamedHttp::default();
    if let Some(allow) = section.entries().find(|entry| entry.key() == "allow") {
        http.rules = allow.items(MOST)?.iter().map(rule).collect::<Result<_, _>>()?;
    }
    for entry in section.entries() {
        match entry.key() {
            "allow" => {}
            "idempotency-key" => http.keyed = entry.boolean()?,
            "inject" => {
                let hosts = entry.section()?.entries();
                http.injections =
                    hosts.map(|entry| injection(&entry, &http.rules)).collect::<Result<_, _>>()?;
            }
            _ => return Err(entry.unknown(&["allow", "inject", "idempotency-key"])),
        }
    }
    Ok(http)
}

fn rule(entry: &Entry<'_>) -> Result<Rule, ManifestError> {
    const KEYS: &[&str] = &["host", "port", "scheme", "methods", "private", "grant"];
    if !entry.is_table() {
        let written = written(entry)?;
        return Ok(Rule { written, methods: Vec::new(), private: false, by: GrantedBy::Operator });
    }
    let section = entry.section()?;
    let host = section.entries().find(|member| member.key() == "host");
    let mut written = written(&host.ok_or_else(|| entry.error("has no `host`".to_owned()))?)?;
    let (mut methods, mut private, mut by) = (Vec::new(), false, GrantedBy::Operator);
    for member in section.entries() {
        match member.key() {
            "host" => {}
            "port" if written.port.is_some() => return Err(member.error("is said by `host` already".into())),
            "port" => written.port = u16::try_from(member.number(1, 65_535)?).ok(),
            "scheme" if written.scheme.is_some() => {
                return Err(member.error("is said by `host` already".into()));
            }
            "scheme" => {
                let scheme = Scheme::named(member.text()?);
                written.scheme = Some(scheme.ok_or_else(|| member.expected("\"http\" or \"https\""))?);
            }
            "methods" => methods = member.items(MOST)?.iter().map(method).collect::<Result<_, _>>()?,
            "private" => private = member.boolean()?,
            "grant" => by = super::granted_by(&member)?,
            _ => return Err(member.unknown(KEYS)),
        }
    }
    if private && written.hosts == Hosts::Any {
        return Err(entry.error("`private` would open every network of this machine; name hosts".to_owned()));
    }
    if section.entries().any(|member| member.key() == "methods") && methods.is_empty() {
        return Err(entry.error("`methods` is empty, which would grant nothing".to_owned()));
    }
    Ok(Rule { written, methods, private, by })
}

fn written(entry: &Entry<'_>) -> Result<Written, ManifestError> {
    Written::parse(entry.text()?).map_err(|what| entry.error(what))
}

fn method(entry: &Entry<'_>) -> Result<Method, ManifestError> {
    let text = entry.text()?;
    let method = Method::from_bytes(text.as_bytes()).ok().filter(|_| text == text.to_ascii_uppercase());
    method.ok_or_else(|| entry.expected("a method such as \"GET\""))
}

fn injection(entry: &Entry<'_>, rules: &[Rule]) -> Result<NamedInjection, ManifestError> {
    let written = Written::parse(entry.key()).map_err(|what| entry.error(what))?;
    let Hosts::One(host) = &written.hosts else {
        return Err(entry.error("a secret goes to one host, not to any that a star stands for".to_owned()));
    };
    if !is_allowed(&written, host, rules) {
        return Err(entry.error("is not in `http.allow`, so nothing would ever be sent there".to_owned()));
    }
    let headers =
        entry.section()?.entries().map(|entry| named_header(&entry)).collect::<Result<Vec<_>, _>>()?;
    if headers.len() > MOST_HEADERS {
        return Err(entry.error(format!("has too many headers; {MOST_HEADERS} are the most")));
    }
    Ok(NamedInjection { written, headers })
}

/// Whether any request that the headers would go with is granted.
fn is_allowed(written: &Written, host: &Host, rules: &[Rule]) -> bool {
    [Scheme::Http, Scheme::Https].into_iter().any(|scheme| {
        let target = Target { scheme, host: host.clone(), port: written.port.unwrap_or(scheme.port()) };
        written.scheme.is_none_or(|said| said == scheme) && rules.iter().any(|rule| rule.is_about(&target))
    })
}

fn named_header(entry: &Entry<'_>) -> Result<NamedHeader, ManifestError> {
    let name = HeaderName::from_bytes(entry.key().as_bytes())
        .map_err(|_| entry.error("is not the name of a header".to_owned()))?;
    if is_forbidden(&name) || name == header::CONTENT_LENGTH {
        return Err(entry.error("is the connection's own header".to_owned()));
    }
    let value = Template::parse(entry.text()?).map_err(|what| entry.error(what))?;
    Ok(NamedHeader { name, value, line: entry.line() })
}
