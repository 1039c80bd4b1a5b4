//! Redirects: where a server may send the client.

use super::host_of;
use crate::document::visible;
use crate::error::Problem;
use crate::reference::is_loopback;
use crate::settings::Settings;
use http::Uri;

/// The address of a redirect, if the client may follow it.
pub fn follow(from: &Uri, location: &str, settings: &Settings) -> Result<Uri, Problem> {
    let refused = |why| {
        let target = visible(location.split(['?', '#']).next().unwrap_or_default());
        refused_redirect(&host_of(from), &target, why)
    };
    let to = resolve(from, location).ok_or_else(|| refused("this is not a valid address"))?;
    match refusal(from, &to, settings) {
        None => Ok(to),
        Some(why) => Err(refused(why)),
    }
}

/// The error for a redirect that the client does not follow.
pub fn refused_redirect(host: &str, target: &str, why: &str) -> Problem {
    Problem::Other(format!("{host} redirects to {target}: {why}"))
}

/// The reason not to go from one address to another.
fn refusal(from: &Uri, to: &Uri, settings: &Settings) -> Option<&'static str> {
    let (from_host, to_host) = (host_of(from), host_of(to));
    if to_host.contains('@') {
        return Some("the address contains a credential");
    }
    let from_here = is_loopback(&from_host);
    if is_loopback(&to_host) && !from_here {
        return Some("a server elsewhere must not use this machine");
    }
    match (from.scheme_str(), to.scheme_str()) {
        (_, Some("https")) => None,
        (Some("https"), Some("http")) if !(from_here && is_loopback(&to_host)) => {
            Some("https never becomes http")
        }
        (_, Some("http")) if settings.may_be_plain(&to_host) => None,
        (_, Some("http")) => Some("http is not encrypted, and `plain-http` does not allow it for this host"),
        _ => Some("only https can be used"),
    }
}

/// An address relative to another one.
fn resolve(base: &Uri, location: &str) -> Option<Uri> {
    let location = location.trim();
    if location.contains("://")
        && location.split(['/', '?']).next().is_some_and(|scheme| scheme.ends_with(':'))
    {
        return location.parse().ok().filter(|uri: &Uri| uri.authority().is_some());
    }
    let (scheme, authority) = (base.scheme_str()?, base.authority()?);
    let text = if location.starts_with("//") {
        format!("{scheme}:{location}")
    } else if location.starts_with('/') {
        format!("{scheme}://{authority}{location}")
    } else if location.starts_with('?') {
        format!("{scheme}://{authority}{}{location}", base.path())
    } else {
        let folder = base.path().rsplit_once('/').map_or("", |(folder, _)| folder);
        format!("{scheme}://{authority}{folder}/{location}")
    };
    text.parse().ok()
}

/// Whether two addresses have the same scheme, host and port.
pub fn is_same_origin(one: &Uri, other: &Uri) -> bool {
    let port = |uri: &Uri| uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
    let host = |uri: &Uri| uri.host().map(str::to_ascii_lowercase);
    one.scheme_str() == other.scheme_str() && host(one) == host(other) && port(one) == port(other)
}

#[cfg(test)]
mod tests;
