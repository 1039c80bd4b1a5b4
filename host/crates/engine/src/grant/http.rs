//! The grants of `[http]`: hosts, and headers with secrets. The host adds these headers to requests
//! for one named host. The guest neither sees nor chooses them.

use crate::grant::secret::Secret;
use http::{HeaderMap, HeaderName, HeaderValue};
use toolyard_manifest::{Host, Hosts, InDoubt, Rule, Scheme, Target, Template, Written};

/// The grants of `[http]`.
#[derive(Debug, Default)]
pub(crate) struct HttpGrant {
    pub rules: Vec<Rule>,
    pub injections: Vec<Injection>,
    /// Whether requests whose method is not idempotent carry a key.
    pub keyed: bool,
    /// The fate of a request that was under way when its host stopped.
    pub in_doubt: InDoubt,
}

/// The value of a header, marked as sensitive; `None` if the result is not a valid value.
pub(crate) fn filled(template: &Template, secrets: &[Secret]) -> Option<HeaderValue> {
    let secret = |name: &str| secrets.iter().find(|secret| secret.name() == name).map(Secret::reveal);
    let mut value = HeaderValue::try_from(template.filled(secret)?).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// The headers for one host.
#[derive(Debug, Clone)]
pub(crate) struct Injection {
    pub written: Written,
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

impl Injection {
    /// Whether the headers are added to a request to this target. If the manifest names no scheme,
    /// only a request that cannot be read in transit gets them.
    pub fn is_for(&self, target: &Target) -> bool {
        let Written { scheme, hosts: Hosts::One(host), port } = &self.written else { return false };
        let unseen = target.scheme == Scheme::Https || is_here(host);
        *host == target.host
            && scheme.map_or(unseen, |scheme| scheme == target.scheme)
            && port.unwrap_or(target.scheme.port()) == target.port
    }

    /// Adds the headers and replaces the guest's own of the same names.
    pub fn apply(&self, headers: &mut HeaderMap) {
        for (name, value) in &self.headers {
            headers.insert(name.clone(), value.clone());
        }
    }
}

/// Whether the name or address itself means this machine.
fn is_here(host: &Host) -> bool {
    match host {
        Host::Name(name) => name == "localhost",
        Host::Address(address) => address.is_loopback(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret() -> Secret {
        Secret::new("KEY", "k-12345678").expect("long enough")
    }

    #[test]
    fn a_template_is_filled_and_shows_nothing() {
        let template = Template::parse("Bearer {KEY}!").expect("fine");
        assert_eq!(template.secrets().collect::<Vec<_>>(), ["KEY"]);
        let value = filled(&template, &[secret()]).expect("a header");
        assert_eq!(value.as_bytes(), b"Bearer k-12345678!");
        assert!(!format!("{value:?}").contains("k-123"), "{value:?}");
        assert!(filled(&template, &[]).is_none());
        let broken = Secret::new("KEY", "a line\r\nX-Other: 1").expect("long enough");
        assert!(filled(&template, &[broken]).is_none(), "no second header");
        for wrong in ["{KEY", "KEY}", "{A}{"] {
            assert!(Template::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn it_goes_to_exactly_its_host_and_never_in_the_clear_by_itself() {
        for (key, with, without) in [
            (
                "api.example.com",
                &["https://api.example.com"][..],
                &["http://api.example.com", "https://x.api.example.com", "https://api.example.com:8443"][..],
            ),
            ("http://intranet.corp:8080", &["http://intranet.corp:8080"], &["https://intranet.corp:8080"]),
            ("127.0.0.1:9", &["http://127.0.0.1:9", "https://127.0.0.1:9"], &["http://localhost:9"]),
            ("localhost:9", &["http://localhost:9"], &["http://127.0.0.1:9"]),
            ("*.example.com", &[], &["https://a.example.com"]),
        ] {
            let injection = Injection { written: Written::parse(key).expect(key), headers: Vec::new() };
            let goes = |uri: &str| injection.is_for(&Target::of(&uri.parse().expect(uri)).expect(uri));
            with.iter().for_each(|uri| assert!(goes(uri), "{key} goes with {uri}"));
            without.iter().for_each(|uri| assert!(!goes(uri), "{key} does not go with {uri}"));
        }
        let name = HeaderName::from_static("authorization");
        let headers = vec![(name.clone(), HeaderValue::from_static("host's"))];
        let injection = Injection { written: Written::parse("a.example").expect("fine"), headers };
        let mut given = HeaderMap::new();
        given.append(name.clone(), HeaderValue::from_static("guest's"));
        given.append(name.clone(), HeaderValue::from_static("guest's too"));
        injection.apply(&mut given);
        assert_eq!(given.get_all(name).iter().collect::<Vec<_>>(), ["host's"]);
    }
}
