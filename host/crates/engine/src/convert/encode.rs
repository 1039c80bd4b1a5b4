//! Encodes a guest's result as MCP. It is written once, straight into the bytes that go to the
//! client. This module holds `CallToolResult` (TL-5, TL-6) and the blocks that it shares with
//! prompts.
//!
//! JSON from the guest is checked once and then copied verbatim.

pub(crate) mod prompt;
pub(crate) mod resource;

use crate::bindings::toolyard::plugin::types::{Content, Media, TextBlock, ToolResult};
use crate::limits::failure::Failure;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::io::Write;
use toolyard_task::RunEnd;
use toolyard_task::wire::members::{Member, each};
use toolyard_task::wire::visible::clip;
use toolyard_task::wire::{RELATED_TASK, RawJson, text_result};

/// The maximum number of characters of an error in its task's status message.
const MAX_STATUS_CHARS: usize = 200;

/// Checks the structured content of a result, which must be an object.
pub(crate) fn structured(text: Option<String>) -> Result<Option<RawJson>, Failure> {
    text.map(|text| object("structured-content", text)).transpose()
}

/// Encodes the result of a tool. The caller has already taken out and checked its structured
/// content.
pub(crate) fn result(given: ToolResult, structured: Option<RawJson>, limit: u64) -> Result<RunEnd, Failure> {
    let ToolResult { content, structured_content: _, is_error, meta } = given;
    let message = is_error.then(|| first_words(&content)).flatten();
    let mut out = Bounded::new(estimate(&content), limit);
    out.raw("{\"content\":[")?;
    for (index, block) in content.into_iter().enumerate() {
        if index > 0 {
            out.raw(",")?;
        }
        write_content(&mut out, block)?;
    }
    if let (Some(structured), true) = (&structured, out.bytes.ends_with(b"[")) {
        // For clients that read only text (TL-6).
        out.raw("{\"type\":\"text\",\"text\":")?;
        out.string(structured.as_str())?;
        out.raw("}")?;
    }
    out.raw("]")?;
    if let Some(structured) = &structured {
        out.raw(",\"structuredContent\":")?;
        out.raw(structured.as_str())?;
    }
    out.raw(if is_error { ",\"isError\":true" } else { ",\"isError\":false" })?;
    if let Some(meta) = meta {
        write_meta(&mut out, &object("meta", meta)?)?;
    }
    out.raw("}")?;
    Ok(RunEnd::Result { is_error, result: RawJson::trusted(out.bytes), message })
}

/// A result that reports this error text.
pub(crate) fn error(text: &str) -> RunEnd {
    RunEnd::Result {
        is_error: true,
        result: text_result(text, true),
        message: Some(clip(text, MAX_STATUS_CHARS)),
    }
}

fn first_words(content: &[Content]) -> Option<String> {
    let texts = content.iter().filter_map(|block| match block {
        Content::Text(block) if !block.text.is_empty() => Some(clip(&block.text, MAX_STATUS_CHARS)),
        _ => None,
    });
    // Two texts are enough: what failed, and which limit was involved.
    let words: Vec<String> = texts.take(2).collect();
    (!words.is_empty()).then(|| words.join("; "))
}

/// A block of text.
pub(crate) fn text(text: String) -> Content {
    Content::Text(TextBlock { text, annotations: None, meta: None })
}

/// Estimates the length of the encoding, so that the buffer rarely has to grow.
fn estimate(content: &[Content]) -> usize {
    const FRAME: usize = 64;
    content.iter().fold(FRAME, |sum, block| {
        FRAME
            + sum
            + match block {
                Content::Text(block) => block.text.len() + block.text.len() / 16,
                Content::Image(media) | Content::Audio(media) => media.data.len() / 3 * 4,
                Content::ResourceLink(json) | Content::EmbeddedResource(json) | Content::Other(json) => {
                    json.len()
                }
            }
    })
}

fn write_content(out: &mut Bounded, block: Content) -> Result<(), Failure> {
    match block {
        Content::Text(TextBlock { text, annotations, meta }) => {
            out.raw("{\"type\":\"text\",\"text\":")?;
            out.string(&text)?;
            write_tail(out, annotations, meta)
        }
        Content::Image(media) => write_media(out, "image", media),
        Content::Audio(media) => write_media(out, "audio", media),
        Content::ResourceLink(json) => write_typed(out, "resource_link", json, &["uri", "name"]),
        Content::EmbeddedResource(json) => write_typed(out, "resource", json, &["resource"]),
        Content::Other(json) => {
            let json = object("other", json)?;
            let mut given = members(&json, "other")?.into_iter();
            if !given.any(|member| member.is("type") && member.value.get().starts_with('"')) {
                return Err(Failure::Malformed("a content block has no `type`".to_owned()));
            }
            out.raw(json.as_str())
        }
    }
}

fn write_media(out: &mut Bounded, kind: &str, media: Media) -> Result<(), Failure> {
    let Media { data, mime_type, annotations, meta } = media;
    out.raw("{\"type\":\"")?;
    out.raw(kind)?;
    out.raw("\",\"data\":\"")?;
    out.base64(&data)?;
    out.raw("\",\"mimeType\":")?;
    out.string(&mime_type)?;
    write_tail(out, annotations, meta)
}

fn write_tail(out: &mut Bounded, annotations: Option<String>, meta: Option<String>) -> Result<(), Failure> {
    if let Some(annotations) = annotations {
        out.raw(",\"annotations\":")?;
        out.raw(object("annotations", annotations)?.as_str())?;
    }
    if let Some(meta) = meta {
        out.raw(",\"_meta\":")?;
        out.raw(object("meta", meta)?.as_str())?;
    }
    out.raw("}")
}

/// Writes a block whose members the guest provides, except `type`.
fn write_typed(out: &mut Bounded, kind: &str, json: String, needed: &[&str]) -> Result<(), Failure> {
    let json = object(kind, json)?;
    let given = members(&json, kind)?;
    if let Some(name) = needed.iter().find(|name| !given.iter().any(|member| member.is(name))) {
        return Err(Failure::Malformed(format!("a `{kind}` block has no `{name}`")));
    }
    out.raw("{\"type\":\"")?;
    out.raw(kind)?;
    out.raw("\"")?;
    for member in given.iter().filter(|member| !member.is("type")) {
        out.raw(",")?;
        out.member(member)?;
    }
    out.raw("}")
}

/// Writes the result's `_meta` without the key that only the host may set (T-39).
fn write_meta(out: &mut Bounded, meta: &RawJson) -> Result<(), Failure> {
    out.raw(",\"_meta\":")?;
    let members = members(meta, "meta")?;
    out.raw("{")?;
    for (index, member) in members.iter().filter(|member| !member.is(RELATED_TASK)).enumerate() {
        if index > 0 {
            out.raw(",")?;
        }
        out.member(member)?;
    }
    out.raw("}")
}

/// Checks that `text` is a JSON object; `what` names it in errors.
fn object(what: &str, text: String) -> Result<RawJson, Failure> {
    let json = RawJson::parse(text).map_err(|error| Failure::Malformed(format!("`{what}`: {error}")))?;
    if json.is_object() {
        Ok(json)
    } else {
        Err(Failure::Malformed(format!("`{what}` is not a JSON object")))
    }
}

/// The members of an object, in their original order.
fn members<'a>(json: &'a RawJson, what: &str) -> Result<Vec<Member<'a>>, Failure> {
    let mut members = Vec::new();
    each(json.as_str(), |member| members.push(member))
        .map_err(|error| Failure::Malformed(format!("`{what}`: {error}")))?;
    Ok(members)
}

/// A buffer that refuses to grow beyond the output limit.
pub(crate) struct Bounded {
    bytes: Vec<u8>,
    limit: usize,
}

impl Bounded {
    pub fn new(capacity: usize, limit: u64) -> Self {
        Self { bytes: Vec::with_capacity(capacity), limit: usize::try_from(limit).unwrap_or(usize::MAX) }
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    pub fn raw(&mut self, text: &str) -> Result<(), Failure> {
        self.write_all(text.as_bytes()).map_err(|_| Failure::Output)
    }

    pub fn string(&mut self, text: &str) -> Result<(), Failure> {
        serde_json::to_writer(self, text).map_err(|_| Failure::Output)
    }

    fn member(&mut self, member: &Member<'_>) -> Result<(), Failure> {
        self.raw(member.name)?;
        self.raw(":")?;
        self.raw(member.value.get())
    }

    pub fn base64(&mut self, data: &[u8]) -> Result<(), Failure> {
        // A multiple of three bytes, so that only the last chunk is padded.
        const CHUNK: usize = 3 << 10;
        let mut text = [0; CHUNK / 3 * 4];
        for chunk in data.chunks(CHUNK) {
            let length = STANDARD.encode_slice(chunk, &mut text).map_err(|_| Failure::Output)?;
            self.write_all(&text[..length]).map_err(|_| Failure::Output)?;
        }
        Ok(())
    }
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.limit {
            return Err(std::io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
