//! `[sockets]`: which places raw sockets may connect to.

use super::read::{Entry, Section};
use crate::error::ManifestError;
use crate::http::rules::{self, Host};
use ipnet::IpNet;
use std::fmt;
use std::net::SocketAddr;

const MOST: usize = 256;

/// A transport protocol of `[sockets]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl Protocol {
    /// The key of the manifest.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

/// The other side of a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peer {
    /// A name of the DNS.
    Name(String),
    /// A network, or one address.
    Net(IpNet),
}

/// One entry of `[sockets]`: one port of these places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocketRule {
    /// The peer.
    pub peer: Peer,
    /// Its port.
    pub port: u16,
    /// Whether the addresses of the name, or in the network, may be private.
    pub private: bool,
}

impl SocketRule {
    /// Reads `name:port`, `address:port` or `network/length:port`.
    ///
    /// # Errors
    /// What is wrong, in a sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (place, port) = rules::split_port(text)?;
        let port = port.ok_or_else(|| format!("`{text}` names no port"))?;
        let peer = match place.split_once('/') {
            Some(_) => {
                let net = place.strip_prefix('[').and_then(|net| net.strip_suffix(']')).unwrap_or(place);
                Peer::Net(
                    net.parse().map_err(|_| format!("`{place}` is not a network such as `10.0.0.0/8`"))?,
                )
            }
            None => match Host::parse(place)? {
                Host::Name(name) => Peer::Name(name),
                Host::Address(address) => Peer::Net(address.into()),
            },
        };
        Ok(Self { peer, port, private: false })
    }
}

impl fmt::Display for SocketRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.peer {
            Peer::Name(name) => write!(f, "{name}:{}", self.port),
            Peer::Net(net) if net.prefix_len() == net.max_prefix_len() => {
                SocketAddr::new(net.addr(), self.port).fmt(f)
            }
            Peer::Net(IpNet::V4(net)) => write!(f, "{net}:{}", self.port),
            Peer::Net(IpNet::V6(net)) => write!(f, "[{net}]:{}", self.port),
        }
    }
}

/// What `[sockets]` grants.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct SocketGrant {
    /// The peers over TCP.
    pub tcp: Vec<SocketRule>,
    /// The peers over UDP.
    pub udp: Vec<SocketRule>,
}

impl SocketGrant {
    /// Whether it grants nothing.
    pub fn is_empty(&self) -> bool {
        self.tcp.is_empty() && self.udp.is_empty()
    }

    /// The peers over this protocol.
    pub fn of(&self, protocol: Protocol) -> &[SocketRule] {
        match protocol {
            Protocol::Tcp => &self.tcp,
            Protocol::Udp => &self.udp,
        }
    }

    /// Whether a rule names this host.
    #[must_use]
    pub fn names(&self, wanted: &str) -> bool {
        self.tcp.iter().chain(&self.udp).any(|rule| matches!(&rule.peer, Peer::Name(name) if name == wanted))
    }
}

/// Reads the section.
pub(super) fn sockets(section: &Section<'_>) -> Result<SocketGrant, ManifestError> {
    let mut grant = SocketGrant::default();
    for entry in section.entries() {
        let rules = |entry: &Entry<'_>| entry.items(MOST)?.iter().map(rule).collect::<Result<Vec<_>, _>>();
        match entry.key() {
            "tcp" => grant.tcp = rules(&entry)?,
            "udp" => grant.udp = rules(&entry)?,
            _ => return Err(entry.unknown(&["tcp", "udp"])),
        }
    }
    Ok(grant)
}

fn rule(entry: &Entry<'_>) -> Result<SocketRule, ManifestError> {
    if !entry.is_table() {
        return parsed(entry);
    }
    let section = entry.section()?;
    let to = section.entries().find(|member| member.key() == "to");
    let mut rule = parsed(&to.ok_or_else(|| entry.error("has no `to`".to_owned()))?)?;
    for member in section.entries() {
        match member.key() {
            "to" => {}
            "private" => rule.private = member.boolean()?,
            _ => return Err(member.unknown(&["to", "private"])),
        }
    }
    if rule.private && matches!(rule.peer, Peer::Net(net) if net.prefix_len() == net.max_prefix_len()) {
        return Err(
            entry.error("`private` is for names and networks; an address that is named is meant".to_owned())
        );
    }
    Ok(rule)
}

fn parsed(entry: &Entry<'_>) -> Result<SocketRule, ManifestError> {
    SocketRule::parse(entry.text()?).map_err(|what| entry.error(what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_and_shown() {
        for text in ["db.example.com:5432", "10.0.0.5:6379", "10.0.0.0/8:1", "[::1]:2", "[fd00::/8]:3"] {
            assert_eq!(SocketRule::parse(text).expect(text).to_string(), text);
        }
        for (text, says) in [
            ("db.example.com", "no port"),
            ("10.0.0.0/33:1", "not a network"),
            ("db.example.com:x", "from 1 to 65535"),
            ("*.example.com:1", "not the name"),
            ("a/b:1", "not a network"),
        ] {
            let what = SocketRule::parse(text).expect_err(text);
            assert!(what.contains(says), "{text}: {what}");
        }
    }
}
