//! `[sockets]`: the peers that raw sockets may connect to.

use crate::deserializer::Error;
use crate::http::rules::{self, Host};
use crate::values::{self, TextOrTable};
use ipnet::IpNet;
use serde::Deserialize;
use serde::de::Deserializer;
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use toml::Spanned;

const MAX_RULES: usize = 256;

/// A transport protocol of `[sockets]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl Protocol {
    /// The manifest's key for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

/// The remote side of a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peer {
    /// A DNS name.
    Name(String),
    /// A network or a single address.
    Net(IpNet),
}

/// An entry of `[sockets]`: one port of a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocketRule {
    /// The peer.
    pub peer: Peer,
    /// The peer's port.
    pub port: u16,
    /// Whether the addresses of the name or network may be private.
    pub private: bool,
}

impl SocketRule {
    /// Parses `name:port`, `address:port` or `network/length:port`.
    ///
    /// # Errors
    /// A sentence that describes the fault.
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

/// The grants of `[sockets]`.
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

    /// Whether a rule grants this host by name.
    #[must_use]
    pub fn names(&self, wanted: &str) -> bool {
        self.tcp.iter().chain(&self.udp).any(|rule| matches!(&rule.peer, Peer::Name(name) if name == wanted))
    }
}

/// The section as in the text.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SocketsSection {
    #[serde(deserialize_with = "values::list::<MAX_RULES, _, _, _>")]
    tcp: Vec<RuleEntry>,
    #[serde(deserialize_with = "values::list::<MAX_RULES, _, _, _>")]
    udp: Vec<RuleEntry>,
}

type RuleEntry = Spanned<TextOrTable<RuleTable>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleTable {
    #[serde(deserialize_with = "peer")]
    to: SocketRule,
    #[serde(default)]
    private: bool,
}

fn peer<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketRule, D::Error> {
    values::parsed(deserializer, SocketRule::parse)
}

impl FromStr for RuleTable {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self { to: SocketRule::parse(text)?, private: false })
    }
}

impl SocketsSection {
    /// Whether it grants nothing.
    pub fn is_empty(&self) -> bool {
        self.tcp.is_empty() && self.udp.is_empty()
    }

    /// Checks the section.
    pub fn grant(self) -> Result<SocketGrant, Error> {
        let rules = |entries: Vec<RuleEntry>| entries.into_iter().map(rule).collect::<Result<_, _>>();
        Ok(SocketGrant { tcp: rules(self.tcp)?, udp: rules(self.udp)? })
    }
}

fn rule(entry: RuleEntry) -> Result<SocketRule, Error> {
    let TextOrTable(RuleTable { to, private }) = entry.get_ref();
    if *private && matches!(to.peer, Peer::Net(net) if net.prefix_len() == net.max_prefix_len()) {
        let what = "`private` is for names and networks; an address that is named is meant";
        return Err(Error::at(&entry, what));
    }
    Ok(SocketRule { private: *private, ..to.clone() })
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
