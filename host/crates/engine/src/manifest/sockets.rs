//! `[sockets]`: which places raw sockets may connect to.

use super::read::{Entry, Section};
use crate::error::ManifestError;
use crate::sockets::{Peer, SocketGrant, SocketRule};

const MOST: usize = 256;

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
