//! Keeps secrets out of data that leaves the host: results, errors, messages, log lines.
//!
//! The redactor finds a secret verbatim, JSON-escaped, percent-encoded, in hexadecimal, in both
//! base64 alphabets at any offset of the encoded text, and each line of a secret with several
//! lines. It catches accidents, such as an error that quotes a request. A guest that has a secret
//! and wants to leak it can encode it in an unrecognisable way. If a guest must not know a secret,
//! the host injects it (`grant/http.rs`).

use crate::bindings::toolyard::plugin::types::{Content, RpcError as GuestError, ToolResult};
use crate::grant::secret::Secret;
use aho_corasick::{AhoCorasick, MatchKind};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use serde_json::{Map, Value};
use toolyard_task::RunEnd;
use toolyard_task::provider::{ProviderAnswer, RetrievalEnd};
use toolyard_task::wire::{RawJson, RpcError};

/// Shorter lines of a secret are not searched for.
const MIN_LINE: usize = 8;
/// The minimum length of a prefix that counts as the beginning of a secret.
const MIN_BEGINNING: usize = 4;
/// Begins the place of a secret in a journal.
const KEPT: &str = "[toolyard secret ";

/// Finds the secrets of one plugin.
pub(crate) struct Redactor {
    search: AhoCorasick,
    /// The replacement for each pattern.
    marks: Vec<String>,
    secrets: Vec<Secret>,
    longest: usize,
    /// For journals: replaces each value by its name, and back.
    keeping: Replacement,
    restoring: Replacement,
}

/// Texts, and the text that takes the place of each.
struct Replacement(AhoCorasick, Vec<String>);

impl Replacement {
    fn new((from, to): (&[String], &[String])) -> Result<Self, String> {
        let search = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(from);
        Ok(Self(search.map_err(|error| error.to_string())?, to.to_vec()))
    }

    fn of(&self, bytes: &Bytes) -> Bytes {
        let Self(search, by) = self;
        if search.is_match(bytes) { search.replace_all_bytes(bytes, by).into() } else { bytes.clone() }
    }
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Redactor").field(&self.secrets).finish()
    }
}

impl Redactor {
    /// Returns `None` if there are no secrets, so that redaction costs nothing.
    ///
    /// # Errors
    /// If the secrets are too large to search for.
    pub fn new(secrets: &[Secret]) -> Result<Option<Self>, String> {
        if secrets.is_empty() {
            return Ok(None);
        }
        let (mut patterns, mut marks) = (Vec::new(), Vec::new());
        for secret in secrets {
            for pattern in forms(secret.reveal()) {
                patterns.push(pattern);
                marks.push(secret.mark());
            }
        }
        let longest = patterns.iter().map(String::len).max().unwrap_or_default();
        let search = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(patterns);
        let search = search.map_err(|error| error.to_string())?;
        // The beginning itself counts as the value without a name, so that each kept text leads back to one text.
        let values = secrets.iter().map(|secret| (secret.reveal().to_owned(), secret.name()));
        let (values, names): (Vec<_>, Vec<_>) = std::iter::once((KEPT.to_owned(), ""))
            .chain(values)
            .map(|(value, name)| (value, format!("{KEPT}{name}]")))
            .unzip();
        let keeping = Replacement::new((&values, &names))?;
        let restoring = Replacement::new((&names, &values))?;
        Ok(Some(Self { search, marks, secrets: secrets.to_vec(), longest, keeping, restoring }))
    }

    /// The bytes for a journal: with the names of secrets in place of their values. Other forms of a value stay.
    pub fn kept(&self, bytes: &Bytes) -> Bytes {
        self.keeping.of(bytes)
    }

    /// The bytes that [`kept`](Self::kept) was given, with the present values of the secrets.
    pub fn restored(&self, kept: &Bytes) -> Bytes {
        self.restoring.of(kept)
    }

    /// A header or a whole body for people: with a mark in place of each secret.
    pub fn shown(&self, bytes: &Bytes) -> Bytes {
        match std::str::from_utf8(bytes) {
            Err(_) => self.bytes(bytes.to_vec()).into(),
            Ok(text) => match RawJson::parse(bytes.clone()) {
                Ok(json) => self.json(json).as_str().to_owned().into(),
                Err(_) => self.text(text.to_owned()).into(),
            },
        }
    }

    /// The bytes for a comparison with those of an earlier run, which may have had other values of the secrets. The
    /// digits of base64 beside a value depend on it, and are left out.
    pub fn named(&self, bytes: &[u8]) -> Vec<u8> {
        let is_digit = |byte: &&u8| byte.is_ascii_alphanumeric() || b"+/-_".contains(*byte);
        let (mut named, mut at) = (Vec::with_capacity(bytes.len()), 0);
        for found in self.search.find_iter(bytes) {
            let between = bytes.get(at..found.start()).unwrap_or_default();
            let before = usize::from(between.last().is_some_and(|byte| is_digit(&byte)));
            named.extend_from_slice(&between[..between.len() - before]);
            named.extend_from_slice(self.marks[found.pattern()].as_bytes());
            let after = &bytes[found.end()..];
            let digit = after.iter().take(1).take_while(is_digit).count();
            at = found.end() + digit + after[digit..].iter().take_while(|byte| **byte == b'=').count();
        }
        named.extend_from_slice(bytes.get(at..).unwrap_or_default());
        named
    }

    /// The length of the longest pattern, in bytes.
    pub fn longest(&self) -> usize {
        self.longest
    }

    pub fn finds(&self, text: &str) -> bool {
        self.search.is_match(text)
    }

    pub fn text(&self, text: String) -> String {
        if self.finds(&text) { self.search.replace_all(&text, &self.marks) } else { text }
    }

    /// Replaces the secrets in data that is not UTF-8.
    pub fn bytes(&self, bytes: Vec<u8>) -> Vec<u8> {
        if self.search.is_match(&bytes) { self.search.replace_all_bytes(&bytes, &self.marks) } else { bytes }
    }

    /// As [`text`](Self::text), for text that may have been cut off within a secret.
    pub fn cut_text(&self, text: String) -> String {
        let text = self.text(text);
        let beginning = self.secrets.iter().find_map(|secret| {
            let value = secret.reveal();
            let lengths = (MIN_BEGINNING..value.len()).rev().filter(|length| value.is_char_boundary(*length));
            let length = lengths.filter(|length| text.ends_with(&value[..*length])).max()?;
            Some((text.len() - length, secret.mark()))
        });
        match beginning {
            Some((at, mark)) => format!("{}{mark}", &text[..at]),
            None => text,
        }
    }

    /// Where to split `line`, at `wished` or earlier, without splitting a secret. `line` must
    /// contain [`Redactor::longest`] more bytes than `wished`.
    pub fn part(&self, line: &[u8], wished: usize) -> usize {
        let parted =
            self.search.find_iter(line).find(|found| (found.start() + 1..found.end()).contains(&wished));
        match parted {
            None => wished,
            Some(found) if found.start() == 0 => found.end(),
            Some(found) => found.start(),
        }
    }

    pub fn json(&self, json: RawJson) -> RawJson {
        let text = json.as_str();
        // Unnecessary escapes can hide any text.
        if !self.finds(text) && !text.contains("\\u") && !text.contains("\\/") {
            return json;
        }
        let Ok(mut value) = json.decode::<Value>() else {
            return RawJson::trusted(self.text(text.to_owned()));
        };
        if self.scrub(&mut value) { RawJson::of(&value) } else { json }
    }

    /// Redacts a value; returns whether it contained a secret.
    fn scrub(&self, value: &mut Value) -> bool {
        match value {
            Value::Null | Value::Bool(_) => false,
            Value::Number(number) => {
                let text = number.to_string();
                let found = self.finds(&text);
                if found {
                    *value = self.text(text).into();
                }
                found
            }
            Value::String(text) => {
                let found = self.finds(text);
                if found {
                    *text = self.text(std::mem::take(text));
                }
                found
            }
            Value::Array(items) => items.iter_mut().fold(false, |found, item| self.scrub(item) | found),
            Value::Object(members) => {
                let mut found = members.values_mut().fold(false, |found, member| self.scrub(member) | found);
                if members.keys().any(|name| self.finds(name)) {
                    let renamed = std::mem::take(members).into_iter();
                    *members = renamed.map(|(name, member)| (self.text(name), member)).collect::<Map<_, _>>();
                    found = true;
                }
                found
            }
        }
    }

    /// Redacts the texts of a result, before they are truncated.
    pub fn guest_result(&self, result: &mut ToolResult) {
        for block in &mut result.content {
            if let Content::Text(block) = block {
                block.text = self.text(std::mem::take(&mut block.text));
            }
        }
    }

    /// Redacts the message of a guest's error, before it is truncated.
    pub fn guest_error(&self, error: &mut GuestError) {
        error.message = self.text(std::mem::take(&mut error.message));
    }

    fn error(&self, error: RpcError) -> RpcError {
        let RpcError { code, message, data } = error;
        RpcError { code, message: self.text(message), data: data.map(|data| self.json(data)) }
    }

    /// Redacts the outcome of a tool run.
    pub fn run_end(&self, end: RunEnd) -> RunEnd {
        match end {
            RunEnd::Result { is_error, result, message } => RunEnd::Result {
                is_error,
                result: self.json(result),
                message: message.map(|message| self.text(message)),
            },
            RunEnd::Error(error) => RunEnd::Error(self.error(error)),
            RunEnd::Stopped => RunEnd::Stopped,
        }
    }

    /// Redacts the outcome of a request to a provider.
    pub fn retrieval_end(&self, end: RetrievalEnd) -> RetrievalEnd {
        match end {
            RetrievalEnd::Done(retrieved) => RetrievalEnd::Done(self.retrieved(retrieved)),
            RetrievalEnd::Failed(error) => RetrievalEnd::Failed(self.error(error)),
            RetrievalEnd::Stopped => RetrievalEnd::Stopped,
        }
    }

    fn retrieved(&self, retrieved: ProviderAnswer) -> ProviderAnswer {
        match retrieved {
            ProviderAnswer::Resources { entries, next } => ProviderAnswer::Resources {
                entries: entries.into_iter().map(|entry| self.json(entry)).collect(),
                next: next.map(|next| self.text(next)),
            },
            ProviderAnswer::Templates(list) => ProviderAnswer::Templates(
                list.into_iter().map(|(uri, template)| (self.text(uri), self.json(template))).collect(),
            ),
            ProviderAnswer::Contents(contents) => {
                ProviderAnswer::Contents(contents.map(|contents| self.json(contents)))
            }
            ProviderAnswer::Prompt(prompt) => ProviderAnswer::Prompt(self.json(prompt)),
            ProviderAnswer::Completion(completion) => ProviderAnswer::Completion(self.json(completion)),
        }
    }
}

/// The texts that represent a value.
fn forms(value: &str) -> Vec<String> {
    let mut forms = vec![value.to_owned()];
    forms.extend(value.lines().filter(|line| line.len() >= MIN_LINE).map(str::to_owned));
    let json = Value::from(value).to_string();
    forms.push(json[1..json.len() - 1].to_owned());
    let (upper, lower) = (percent(value, false), percent(value, true));
    forms.extend([upper.replace("%20", "+"), upper, lower]);
    let hex: String = value.bytes().map(|byte| format!("{byte:02x}")).collect();
    forms.extend([hex.to_uppercase(), hex]);
    forms.extend((0..3).flat_map(|offset| base64(value, offset)));
    forms.sort_unstable();
    forms.dedup();
    forms
}

fn percent(value: &str, lower: bool) -> String {
    let byte = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ if lower => format!("%{byte:02x}"),
        _ => format!("%{byte:02X}"),
    };
    value.bytes().map(byte).collect()
}

/// The base64 encoding of the value after `offset` other bytes, without the digits that depend on
/// its neighbours.
fn base64(value: &str, offset: usize) -> [String; 2] {
    let mut bytes = vec![0; offset];
    bytes.extend_from_slice(value.as_bytes());
    let first = (offset * 8).div_ceil(6);
    let whole = bytes.len() * 8 / 6;
    let core = |encoded: String| encoded[first..whole].to_owned();
    [core(STANDARD_NO_PAD.encode(&bytes)), core(URL_SAFE_NO_PAD.encode(&bytes))]
}

#[cfg(test)]
mod tests;
