//! Results: their type, and the server that gives them (26J-4, 26J-5, 26C-5). A result is stored as it
//! was given, and gets the additions of this generation when it leaves.

use super::META_SERVER_INFO;
use crate::members::each;
use crate::raw::RawJson;
use crate::response::RELATED_TASK;
use memchr::memmem::Finder;
use std::sync::LazyLock;

/// How long a result is valid, and for whom (26C-5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cache {
    /// For this many milliseconds.
    pub ttl_ms: u64,
    /// Whether users may share it.
    pub public: bool,
}

/// `result`, an object, otherwise unchanged, as a complete result of `server`, the encoded
/// `Implementation` of this host. Its own members of these two names are replaced.
#[must_use]
pub fn complete(result: &RawJson, server: &RawJson) -> RawJson {
    Edit { cache: None, server: Some(server), not: &[META_SERVER_INFO] }.apply(result)
}

/// The same for results that clients may keep (26C-5).
#[must_use]
pub fn complete_cached(result: &RawJson, server: &RawJson, cache: &Cache) -> RawJson {
    Edit { cache: Some(cache), server: Some(server), not: &[META_SERVER_INFO] }.apply(result)
}

/// A result inside of a task (26T-14): complete, and without the mark that ties it
/// to its task in the other generation.
#[must_use]
pub fn inner_complete(result: &RawJson) -> RawJson {
    Edit { cache: None, server: None, not: &[RELATED_TASK] }.apply(result)
}

/// [`META_SERVER_INFO`] as a name is written.
const SERVER_INFO: &str = "\"io.modelcontextprotocol/serverInfo\"";

static OURS: LazyLock<[Finder<'static>; 3]> =
    LazyLock::new(|| ["\"resultType\"", "\"_meta\"", "\\u"].map(Finder::new));
static OURS_CACHED: LazyLock<[Finder<'static>; 2]> =
    LazyLock::new(|| ["\"ttlMs\"", "\"cacheScope\""].map(Finder::new));

/// The members to put into a result.
struct Edit<'a> {
    cache: Option<&'a Cache>,
    server: Option<&'a RawJson>,
    /// The members of `_meta` that the result itself cannot set.
    not: &'static [&'static str],
}

impl Edit<'_> {
    fn apply(&self, result: &RawJson) -> RawJson {
        let text = result.as_str();
        let mut out = String::with_capacity(text.len() + 192 + self.server.map_or(0, |s| s.as_bytes().len()));
        out.push_str("{\"resultType\":\"complete\"");
        if let Some(cache) = self.cache {
            let scope = if cache.public { "public" } else { "private" };
            out.push_str(&format!(",\"ttlMs\":{},\"cacheScope\":\"{scope}\"", cache.ttl_ms));
        }
        if self.may_touch(text) {
            self.rewrite(text, &mut out);
        } else {
            let inside = text.get(1..text.len().saturating_sub(1)).unwrap_or_default();
            if !inside.bytes().all(|byte| byte.is_ascii_whitespace()) {
                out.push(',');
                out.push_str(inside);
            }
            self.push_meta(None, &mut out);
        }
        out.push('}');
        RawJson::trusted(out)
    }

    /// Whether the text may have members that the host sets, with or without escapes. If not, which is
    /// the usual case, it need not be read.
    fn may_touch(&self, text: &str) -> bool {
        let has = |finder: &Finder<'_>| finder.find(text.as_bytes()).is_some();
        OURS.iter().any(has) || (self.cache.is_some() && OURS_CACHED.iter().any(has))
    }

    /// All other members; of several `_meta`, the last.
    fn rewrite(&self, text: &str, out: &mut String) {
        let mut meta = None;
        let read = each(text, |member| {
            if member.is("_meta") {
                meta = member.object();
            } else if !self.is_ours(&member) {
                push(out, member.name, member.value.get());
            }
        });
        debug_assert!(read.is_ok(), "a result is an object");
        self.push_meta(meta, out);
    }

    fn is_ours(&self, member: &crate::members::Member<'_>) -> bool {
        member.is("resultType") || (self.cache.is_some() && (member.is("ttlMs") || member.is("cacheScope")))
    }

    fn push_meta(&self, given: Option<&str>, out: &mut String) {
        if given.is_none() && self.server.is_none() {
            return;
        }
        out.push_str(",\"_meta\":{");
        if let Some(server) = self.server {
            push(out, SERVER_INFO, server.as_str());
        }
        if let Some(given) = given {
            let _ = each(given, |member| {
                if !self.not.iter().any(|name| member.is(name)) {
                    push(out, member.name, member.value.get());
                }
            });
        }
        out.push('}');
    }
}

/// Adds a member to the object that is still open at the end of `out`.
fn push(out: &mut String, name: &str, value: &str) {
    if !out.ends_with('{') {
        out.push(',');
    }
    out.push_str(name);
    out.push(':');
    out.push_str(value);
}

#[cfg(test)]
mod tests;
