//! JSON text as a flat list of nodes in document order, for schema checks.
//!
//! A node takes 20 bytes, so a text of *n* bytes takes at most about ten times *n*. A tree of
//! `serde_json::Value` can take eighty times as much, which a hostile client would exploit.

use crate::budget::{Budget, Halt};
use std::borrow::Cow;
use toolyard_protocol::raw::MAX_DEPTH;

/// The size of a document's node, in bytes. Multiplied by [`nodes_of`], it is the memory for
/// reading the document.
pub const NODE_BYTES: u64 = size_of::<Node>() as u64;

/// The kind of a JSON value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Null,
    Boolean,
    Number,
    String,
    Array,
    Object,
}

#[derive(Debug, Clone, Copy)]
struct Node {
    kind: Kind,
    /// Whether a string has escapes.
    escaped: bool,
    /// The byte range of the value: a string without its quotes, other values with all brackets.
    start: u32,
    end: u32,
    /// The first node after this value and its contents.
    next: u32,
    /// The number of its members or items.
    count: u32,
}

/// A position in a document.
pub(super) type At = u32;

/// A parsed value.
pub(super) struct Document<'a> {
    text: &'a str,
    nodes: Vec<Node>,
}

/// A number. An integer of at most 38 digits is exact.
#[derive(Debug, Clone, Copy)]
pub(super) enum Number {
    Integer(i128),
    Float(f64),
}

/// The text cannot be checked as JSON; the reason completes "it …".
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unreadable(pub &'static str);

/// An upper bound for the number of nodes in this text's document. It is counted, not estimated
/// from the length, because a long string has one node.
#[must_use]
pub fn nodes_of(text: &str) -> u64 {
    let separators = text.bytes().filter(|byte| matches!(byte, b',' | b':' | b'[' | b'{')).count();
    separators as u64 + 1
}

impl<'a> Document<'a> {
    /// Reads a text of less than 4 GiB. Spends one step of the budget for each node.
    pub fn read(text: &'a str, budget: &mut Budget<'_>) -> Result<Result<Self, Unreadable>, Halt> {
        if u32::try_from(text.len()).is_err() {
            return Ok(Err(Unreadable("is larger than 4 GiB")));
        }
        // Enough for the arguments of most calls.
        let nodes = Vec::with_capacity(text.len().min(16));
        let mut reader = Reader { text, at: 0, nodes, budget };
        match reader.whole() {
            Ok(()) => Ok(Ok(Self { text, nodes: reader.nodes })),
            Err(Stop::Unreadable(why)) => Ok(Err(Unreadable(why))),
            Err(Stop::Halt(halt)) => Err(halt),
        }
    }

    pub fn kind(&self, at: At) -> Kind {
        self.node(at).kind
    }

    /// The number of members of an object or items of an array; zero for other values.
    pub fn count(&self, at: At) -> u32 {
        self.node(at).count
    }

    /// The text of the value, as written by the sender.
    pub fn source(&self, at: At) -> &'a str {
        let node = self.node(at);
        let quote = u32::from(node.kind == Kind::String);
        &self.text[(node.start - quote) as usize..(node.end + quote) as usize]
    }

    /// Whether a boolean is `true`.
    pub fn is_true(&self, at: At) -> bool {
        self.source(at) == "true"
    }

    /// The string with its escapes decoded.
    pub fn string(&self, at: At) -> Cow<'a, str> {
        let node = self.node(at);
        let inside = &self.text[node.start as usize..node.end as usize];
        if !node.escaped {
            return Cow::Borrowed(inside);
        }
        // The reader has checked the escapes.
        serde_json::from_str(self.source(at)).map_or(Cow::Borrowed(inside), Cow::Owned)
    }

    pub fn number(&self, at: At) -> Number {
        number(self.source(at))
    }

    /// The items of an array.
    pub fn items(&self, at: At) -> impl Iterator<Item = At> {
        let end = self.node(at).next;
        let mut next = at + 1;
        std::iter::from_fn(move || {
            (next < end).then(|| {
                let item = next;
                next = self.node(item).next;
                item
            })
        })
    }

    /// The members of an object: the positions of each name and its value.
    pub fn members(&self, at: At) -> impl Iterator<Item = (At, At)> {
        let end = self.node(at).next;
        let mut next = at + 1;
        std::iter::from_fn(move || {
            (next < end).then(|| {
                let (name, value) = (next, next + 1);
                next = self.node(value).next;
                (name, value)
            })
        })
    }

    /// The number of nodes of the value.
    pub fn size(&self, at: At) -> u32 {
        self.node(at).next - at
    }

    fn node(&self, at: At) -> Node {
        self.nodes[at as usize]
    }
}

/// Reads the text of a JSON number.
pub(super) fn number(text: &str) -> Number {
    if let Some(integer) = short_integer(text) {
        return Number::Integer(integer.into());
    }
    // -0, and integers with too many digits, become the closest float.
    match text.parse::<i128>() {
        Ok(integer) => Number::Integer(integer),
        Err(_) => Number::Float(text.parse().unwrap_or(f64::NAN)),
    }
}

/// The value of an integer of at most 18 characters, as most numbers are.
fn short_integer(text: &str) -> Option<i64> {
    if text.len() > 18 { None } else { text.parse().ok() }
}

enum Stop {
    Unreadable(&'static str),
    Halt(Halt),
}

impl From<Halt> for Stop {
    fn from(halt: Halt) -> Self {
        Self::Halt(halt)
    }
}

struct Reader<'a, 'b, 'c> {
    text: &'a str,
    at: usize,
    nodes: Vec<Node>,
    budget: &'b mut Budget<'c>,
}

impl Reader<'_, '_, '_> {
    /// Most inputs have already been validated as JSON, but this code does not rely on that.
    fn whole(&mut self) -> Result<(), Stop> {
        self.space();
        self.value(0)?;
        self.space();
        if self.at < self.text.len() { Err(Stop::Unreadable("goes on behind its end")) } else { Ok(()) }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn value(&mut self, depth: usize) -> Result<(), Stop> {
        // Each nesting level of the text is a level of this recursion.
        if depth > MAX_DEPTH {
            return Err(Stop::Unreadable("nests deeper than 128 levels"));
        }
        match self.peek() {
            Some(b'{') => self.container(Kind::Object, b'}', depth),
            Some(b'[') => self.container(Kind::Array, b']', depth),
            Some(b'"') => self.string(),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true", Kind::Boolean),
            Some(b'f') => self.word("false", Kind::Boolean),
            Some(b'n') => self.word("null", Kind::Null),
            _ => Err(Stop::Unreadable("is not valid JSON")),
        }
    }

    fn open(&mut self, kind: Kind) -> Result<usize, Stop> {
        self.budget.spend(1)?;
        let start = self.at as u32;
        self.nodes.push(Node { kind, escaped: false, start, end: start, next: 0, count: 0 });
        Ok(self.nodes.len() - 1)
    }

    fn close(&mut self, node: usize, end: usize, count: u32) {
        let next = self.nodes.len() as u32;
        let node = &mut self.nodes[node];
        (node.end, node.next, node.count) = (end as u32, next, count);
    }

    fn word(&mut self, word: &str, kind: Kind) -> Result<(), Stop> {
        if !self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            return Err(Stop::Unreadable("is not valid JSON"));
        }
        let node = self.open(kind)?;
        self.at += word.len();
        self.close(node, self.at, 0);
        Ok(())
    }

    fn number(&mut self) -> Result<(), Stop> {
        let node = self.open(Kind::Number)?;
        let start = self.at;
        while matches!(self.peek(), Some(b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9')) {
            self.at += 1;
        }
        let text = &self.text[start..self.at];
        // Each use of a number parses its whole text, which can be longer than any useful float.
        self.budget.spend(text.len() as u64 / 64)?;
        if let Number::Float(float) = number(text)
            && !float.is_finite()
        {
            return Err(Stop::Unreadable("has a number out of range"));
        }
        self.close(node, self.at, 0);
        Ok(())
    }

    fn string(&mut self) -> Result<(), Stop> {
        let node = self.open(Kind::String)?;
        self.at += 1;
        let start = self.at;
        self.nodes[node].start = start as u32;
        let bytes = self.text.as_bytes();
        loop {
            let rest = &bytes[self.at..];
            let Some(found) = rest.iter().position(|byte| matches!(byte, b'"' | b'\\')) else {
                return Err(Stop::Unreadable("is not valid JSON"));
            };
            self.at += found;
            if bytes[self.at] == b'"' {
                break;
            }
            self.nodes[node].escaped = true;
            self.escape()?;
        }
        self.budget.spend((self.at - start) as u64 / 256)?;
        self.close(node, self.at, 0);
        self.at += 1;
        Ok(())
    }

    /// Skips one escape. A surrogate must be part of a pair.
    fn escape(&mut self) -> Result<(), Stop> {
        let bytes = self.text.as_bytes();
        let unit = |at: usize| {
            let digits = bytes.get(at + 2..at + 6).filter(|_| bytes[at..].starts_with(b"\\u"))?;
            u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
        };
        match bytes.get(self.at + 1) {
            Some(b'u') => match unit(self.at) {
                Some(0xD800..=0xDBFF) => match unit(self.at + 6) {
                    Some(0xDC00..=0xDFFF) => self.at += 12,
                    _ => return Err(Stop::Unreadable("has half of a surrogate pair")),
                },
                Some(0xDC00..=0xDFFF) => return Err(Stop::Unreadable("has half of a surrogate pair")),
                Some(_) => self.at += 6,
                None => return Err(Stop::Unreadable("is not valid JSON")),
            },
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            _ => return Err(Stop::Unreadable("is not valid JSON")),
        }
        Ok(())
    }

    fn container(&mut self, kind: Kind, end: u8, depth: usize) -> Result<(), Stop> {
        let node = self.open(kind)?;
        self.at += 1;
        let mut count = 0;
        loop {
            self.space();
            match self.peek() {
                Some(byte) if byte == end && count == 0 => break,
                Some(b'"') if kind == Kind::Object => {
                    self.string()?;
                    self.space();
                    if self.peek() != Some(b':') {
                        return Err(Stop::Unreadable("is not valid JSON"));
                    }
                    self.at += 1;
                    self.space();
                }
                _ if kind == Kind::Object => return Err(Stop::Unreadable("is not valid JSON")),
                _ => {}
            }
            self.value(depth + 1)?;
            count += 1;
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(byte) if byte == end => break,
                _ => return Err(Stop::Unreadable("is not valid JSON")),
            }
        }
        self.at += 1;
        self.close(node, self.at, count);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Document<'_>, Unreadable> {
        Document::read(text, &mut Budget::unlimited()).expect("the budget is enough")
    }

    #[test]
    fn values_are_found_where_they_are() {
        let text = r#" { "a" : [1, -2.5e3, "x\n\ud83d\ude00", {}], "b\u0031": null, "c": true } "#;
        let document = read(text).expect("JSON");
        assert_eq!((document.kind(0), document.count(0)), (Kind::Object, 3));
        let members: Vec<_> = document.members(0).collect();
        let names: Vec<_> = members.iter().map(|(name, _)| document.string(*name).into_owned()).collect();
        assert_eq!(names, ["a", "b1", "c"]);
        let items: Vec<_> = document.items(members[0].1).collect();
        let sources: Vec<_> = items.iter().map(|item| document.source(*item)).collect();
        assert_eq!(sources, ["1", "-2.5e3", r#""x\n\ud83d\ude00""#, "{}"]);
        assert_eq!(document.string(items[2]), "x\n😀");
        assert!(document.is_true(members[2].1) && document.kind(members[1].1) == Kind::Null);
        assert_eq!(document.size(0), document.nodes.len() as u32);
        assert!(nodes_of(text) >= document.nodes.len() as u64);
    }

    #[test]
    fn text_that_no_reader_of_json_takes_is_refused() {
        let deep = "[".repeat(200) + &"]".repeat(200);
        let broken = ["", "[1,]", "{\"a\"}", "[1 2]", "\"", "\"\\x\"", "\"\\u12"];
        let halves = [r#""\ud800""#, r#""\ud800\u0041""#, r#""\udc00""#];
        for (texts, why) in [
            (&broken[..], "valid"),
            (&halves, "surrogate"),
            (&["1 2"], "behind"),
            (&["1e999999"], "range"),
            (&[&*deep], "deeper"),
        ] {
            for text in texts {
                let refused = read(text).err().unwrap_or_else(|| panic!("taken: {text}"));
                assert!(refused.0.contains(why), "{text}: {}", refused.0);
            }
        }
    }

    proptest::proptest! {
        /// The reader accepts all texts that serde_json accepts, with the same strings and number
        /// of values.
        #[test]
        fn it_reads_as_serde_json_does(text in r#"[\[\]{}",:0-9\\ntu a]{0,40}"#) {
            let theirs = serde_json::from_str::<serde_json::Value>(&text);
            let ours = read(&text);
            if theirs.is_ok() {
                proptest::prop_assert!(ours.is_ok(), "{text}");
            }
            if let (Ok(serde_json::Value::String(theirs)), Ok(ours)) = (&theirs, &ours) {
                proptest::prop_assert_eq!(&ours.string(0), theirs);
            }
        }
    }
}
