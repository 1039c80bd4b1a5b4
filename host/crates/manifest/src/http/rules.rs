//! The hosts that a manifest grants: the form `[scheme://]host[:port]` and its meaning.
//!
//! Names are compared as lower-case ASCII without a trailing dot. The code that connects decides
//! which addresses a name may resolve to.

use crate::granted_by::GrantedBy;
use crate::values;
use http::{Method, Uri};
use serde::Deserialize;
use serde::de::Deserializer;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The scheme of a URI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// `http`.
    Http,
    /// `https`.
    Https,
}

impl Scheme {
    /// The scheme as written in a URI.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// The default port of the scheme.
    pub const fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }

    /// The scheme with this name, in any letter case.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Http, Self::Https].into_iter().find(|scheme| scheme.as_str().eq_ignore_ascii_case(name))
    }
}

impl<'de> Deserialize<'de> for Scheme {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        values::text(deserializer, "\"http\" or \"https\"", Self::named)
    }
}

/// A host that a rule names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Host {
    /// A DNS name, in lower case and without a trailing dot.
    Name(String),
    /// An address. An IPv4 address is never in IPv6 form.
    Address(IpAddr),
}

impl Host {
    /// Parses a host as written in a URI, with an IPv6 address in brackets.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some(inner) = text.strip_prefix('[') {
            let inner = inner.strip_suffix(']').and_then(|inner| inner.parse::<Ipv6Addr>().ok());
            let inner = inner.ok_or_else(|| format!("`{text}` is not an IPv6 address in brackets"))?;
            return Ok(Self::Address(IpAddr::V6(inner).to_canonical()));
        }
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Ok(Self::Address(address.into()));
        }
        name(text).map(Self::Name)
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V4(address)) => address.fmt(f),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

/// Normalises a DNS name to the form in which names are compared.
pub fn name(text: &str) -> Result<String, String> {
    if !text.is_ascii() {
        return Err(format!("`{text}` is not ASCII; write the name in its DNS form, with `xn--`"));
    }
    let plain = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    if plain.len() > 253 || !plain.split('.').all(is_label) {
        return Err(format!("`{text}` is not the name of a host"));
    }
    // Resolvers interpret `127.1`, `0x7f000001` and similar names as addresses.
    let last = plain.rsplit('.').next().unwrap_or_default();
    if last.bytes().all(|byte| byte.is_ascii_digit()) || last.starts_with("0x") {
        return Err(format!("`{text}` is a number and no name; write an address as `127.0.0.1` or `[::1]`"));
    }
    Ok(plain)
}

/// The hosts that a rule covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hosts {
    /// `*`: every public host.
    Any,
    /// `*.example.com`: every name below it, but not the name itself.
    Below(String),
    /// A single host.
    One(Host),
}

impl Hosts {
    fn parse(text: &str) -> Result<Self, String> {
        match text.strip_prefix('*') {
            Some("") => Ok(Self::Any),
            Some(rest) => match rest.strip_prefix('.') {
                Some(apex) => name(apex).map(Self::Below),
                None => Err(format!("`{text}`: a star stands for whole labels, as in `*.example.com`")),
            },
            None => Host::parse(text).map(Self::One),
        }
    }

    fn has(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::Any, _) => true,
            (Self::Below(apex), Host::Name(name)) => {
                name.strip_suffix(apex.as_str()).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
            }
            (Self::Below(_), Host::Address(_)) => false,
            (Self::One(one), host) => one == host,
        }
    }
}

impl fmt::Display for Hosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Below(apex) => write!(f, "*.{apex}"),
            Self::One(host) => host.fmt(f),
        }
    }
}

/// A parsed `[scheme://]host[:port]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The scheme; `None` means both.
    pub scheme: Option<Scheme>,
    /// The hosts.
    pub hosts: Hosts,
    /// The port; `None` means the scheme's port.
    pub port: Option<u16>,
}

impl Written {
    /// # Errors
    /// A sentence that describes the fault.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (scheme, rest) = match text.split_once("://") {
            None => (None, text),
            Some((scheme, rest)) => match Scheme::named(scheme) {
                Some(scheme) => (Some(scheme), rest),
                None => return Err(format!("`{scheme}` is neither `http` nor `https`")),
            },
        };
        if rest.contains(['/', '?', '#', '@']) {
            return Err(format!("`{text}` is more than a host; paths and users cannot be granted"));
        }
        let (host, port) = split_port(rest)?;
        Ok(Self { scheme, hosts: Hosts::parse(host)?, port })
    }
}

impl<'de> Deserialize<'de> for Written {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        values::parsed(deserializer, Self::parse)
    }
}

/// Splits `host:port`.
pub(crate) fn split_port(text: &str) -> Result<(&str, Option<u16>), String> {
    // The colons of an IPv6 address are within its brackets.
    let after = text.rfind(']').map_or(0, |at| at + 1);
    let Some(at) = text[after..].find(':') else { return Ok((text, None)) };
    let (host, port) = text.split_at(after + at);
    let port = &port[1..];
    let number = port.bytes().all(|byte| byte.is_ascii_digit()).then(|| port.parse::<u16>().ok()).flatten();
    match number.filter(|port| *port != 0) {
        Some(port) => Ok((host, Some(port))),
        None if port.contains(':') => Err(format!("`{text}`: write an IPv6 address in brackets, as `[::1]`")),
        None => Err(format!("`{text}`: a port is a number from 1 to 65535")),
    }
}

/// An entry of `[http] allow`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The hosts, as written in the manifest.
    pub written: Written,
    /// The allowed methods; empty means all.
    pub methods: Vec<Method>,
    /// Whether the name may resolve to private addresses.
    pub private: bool,
    /// Whether the operator grants it or the user is asked.
    pub by: GrantedBy,
}

/// The destination of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The scheme.
    pub scheme: Scheme,
    /// The host.
    pub host: Host,
    /// The port.
    pub port: u16,
}

impl Target {
    /// # Errors
    /// The fault of the URI.
    pub fn of(uri: &Uri) -> Result<Self, String> {
        let scheme =
            uri.scheme_str().and_then(Scheme::named).ok_or("its scheme is neither http nor https")?;
        let authority = uri.authority().ok_or("it names no host")?.as_str();
        if authority.contains('@') {
            return Err("a URI with a user in it is not sent".to_owned());
        }
        let (host, port) = split_port(authority)?;
        Ok(Self { scheme, host: Host::parse(host)?, port: port.unwrap_or(scheme.port()) })
    }

    /// The value of the `Host` header, which is also the text of a manifest entry that covers the
    /// target.
    pub fn authority(&self) -> String {
        if self.port == self.scheme.port() {
            self.host.to_string()
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme.as_str(), self.authority())
    }
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scheme, hosts, port } = self;
        if let Some(scheme) = scheme {
            write!(f, "{}://", scheme.as_str())?;
        }
        hosts.fmt(f)?;
        match port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

/// The manifest's text of the rule, with its methods and conditions.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.written.fmt(f)?;
        for (index, method) in self.methods.iter().enumerate() {
            write!(f, "{}{method}", if index == 0 { " " } else { "," })?;
        }
        f.write_str(if self.private { ", private addresses too" } else { "" })?;
        f.write_str(if self.by == GrantedBy::Person { ", if the person agrees" } else { "" })
    }
}

impl Rule {
    /// Whether it covers this target, regardless of the method.
    pub fn is_about(&self, target: &Target) -> bool {
        let Written { scheme, hosts, port } = &self.written;
        hosts.has(&target.host)
            && scheme.is_none_or(|scheme| scheme == target.scheme)
            && port.unwrap_or(target.scheme.port()) == target.port
    }

    /// Whether it allows this method.
    pub fn has_method(&self, method: &Method) -> bool {
        self.methods.is_empty() || self.methods.contains(method)
    }
}

#[cfg(test)]
mod tests;
