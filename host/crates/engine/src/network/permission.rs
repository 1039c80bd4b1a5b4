//! The decision about one request.

use super::address::{self, AddressKind};
use crate::network::policy::NetworkPolicy;
use http::Method;
use std::net::IpAddr;
use toolyard_manifest::{GrantedBy, Rule, Target};
use toolyard_task::AccessRequest;
use wasmtime_wasi_http::Error;

/// The rules that cover a request. Code that connects must hold a permit and check each address
/// with it.
#[derive(Debug)]
pub(super) struct RequestPermit(Vec<Rule>);

impl RequestPermit {
    /// The addresses that the host may connect to.
    ///
    /// # Errors
    /// If the name has addresses but none of them is allowed.
    pub fn reachable(
        &self,
        policy: &NetworkPolicy,
        target: &Target,
        mut found: Vec<IpAddr>,
    ) -> Result<Vec<IpAddr>, Error> {
        let first = found.first().copied();
        found.retain(|address| {
            self.0.iter().any(|rule| address::reaches(&rule.written.hosts, rule.private, *address))
        });
        let Some(refused) = first.filter(|_| found.is_empty()) else { return Ok(found) };
        let (kind, manifest) = (address::kind(refused), policy.manifest());
        let remedy = match kind {
            AddressKind::Metadata => "only an entry that names the very address reaches it".to_owned(),
            _ => format!(
                "an entry that names the address reaches it, or {{ host = \"{}\", private = true }}",
                target.authority()
            ),
        };
        let word = kind.word();
        policy.refused(format!(
            "{target} is at a {word} address, which `http.allow` of {manifest} does not cover; {remedy}"
        ));
        Err(Error::DestinationIpProhibited)
    }
}

/// Decides whether this run may send `method` to `target`. All checks before a request goes out
/// belong here. No name has been resolved yet, and the request's time has not started.
///
/// # Errors
/// [`Error::HttpRequestDenied`], with the reason in the log and in the result.
pub(super) async fn check_send(
    policy: &NetworkPolicy,
    target: &Target,
    method: &Method,
) -> Result<RequestPermit, Error> {
    let about: Vec<&Rule> = policy.grants.http.rules.iter().filter(|rule| rule.is_about(target)).collect();
    let rules: Vec<Rule> =
        about.iter().filter(|rule| rule.has_method(method)).map(|&rule| rule.clone()).collect();
    let (asked, own): (Vec<Rule>, Vec<Rule>) =
        rules.into_iter().partition(|rule| rule.by == GrantedBy::Person);
    if !own.is_empty() {
        return Ok(RequestPermit(own));
    }
    if !asked.is_empty() {
        return by_person(policy, target).await.map(|()| RequestPermit(asked));
    }
    let manifest = policy.manifest();
    policy.refused(match about.first() {
        None => format!(
            "{method} {target} is not granted; add \"{}\" to `http.allow` of {manifest} to grant it",
            target.authority()
        ),
        Some(rule) => format!(
            "{method} {target} is not granted; add \"{method}\" to the `methods` of \"{}\" in `http.allow` \
             of {manifest} to grant it",
            rule.written.hosts
        ),
    });
    Err(Error::HttpRequestDenied)
}

/// Asks the user, or uses their earlier decision.
async fn by_person(policy: &NetworkPolicy, target: &Target) -> Result<(), Error> {
    let host = target.host.to_string();
    if policy.grants.clean(host.clone()) != host {
        // The name would be shown to the user and stored.
        policy.refused(format!("{target} was not asked for: there is a secret in its name"));
        return Err(Error::HttpRequestDenied);
    }
    let wanted = AccessRequest::host(target.scheme.as_str(), &host, target.port);
    policy.context.permission(vec![wanted]).await.map_err(|refused| {
        policy.refused(refused.to_string());
        Error::HttpRequestDenied
    })
}
