//! Encodes listings and contents of resources as MCP (R-2 to R-4). One answer goes into one buffer,
//! which the output limit bounds.

use super::{Bounded, members};
use crate::bindings::exports::toolyard::plugin::resources::{Body, Contents, Entry, Page, Template};
use crate::component::describe::check_icons;
use crate::limits::failure::Failure;
use bytes::Bytes;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ops::Range;
use toolyard_task::provider::ProviderAnswer;
use toolyard_task::wire::members::Member;
use toolyard_task::wire::visible::clip;
use toolyard_task::wire::{MAX_URI_BYTES, RawJson, is_uri};

/// The maximum number of entries in a page, templates of a component, and parts of a resource.
const MAX_ENTRIES: usize = 1_000;
/// The maximum length of a resource's name, in bytes.
const MAX_NAME_BYTES: usize = 1 << 10;
/// The maximum length of a cursor that a guest provides, in bytes.
const MAX_CURSOR_BYTES: usize = 4 << 10;
/// The maximum length of a media type, in bytes.
const MAX_MIME_BYTES: usize = 256;

/// Encodes a page of resources.
pub(crate) fn page(page: Page, limit: u64) -> Result<ProviderAnswer, Failure> {
    let Page { entries, next } = page;
    at_most(entries.len(), "entries")?;
    if next.as_ref().is_some_and(|next| next.len() > MAX_CURSOR_BYTES) {
        return malformed(format!("its next cursor is longer than {MAX_CURSOR_BYTES} bytes"));
    }
    let mut list = Listed::new(limit);
    for (index, Entry { uri, name, more }) in entries.into_iter().enumerate() {
        let place = format!("the entry {index} (`{}`)", clip(&uri, 200));
        if !is_uri(&uri) {
            return malformed(format!("{place}: its `uri` is not an absolute URI (RFC 3986)"));
        }
        list.push(&place, ("uri", &uri), &name, more)?;
    }
    Ok(ProviderAnswer::Resources { entries: list.finish(), next })
}

/// Encodes the templates.
pub(crate) fn templates(templates: Vec<Template>, limit: u64) -> Result<ProviderAnswer, Failure> {
    at_most(templates.len(), "templates")?;
    let mut list = Listed::new(limit);
    let mut names = Vec::with_capacity(templates.len());
    for (index, Template { uri_template, name, more }) in templates.into_iter().enumerate() {
        let place = format!("the template {index} (`{}`)", clip(&uri_template, 200));
        if !is_template(&uri_template) {
            return malformed(format!("{place}: it is not a URI template (RFC 6570)"));
        }
        list.push(&place, ("uriTemplate", &uri_template), &name, more)?;
        names.push(uri_template);
    }
    Ok(ProviderAnswer::Templates(names.into_iter().zip(list.finish()).collect()))
}

/// Encodes a `ReadResourceResult`.
pub(crate) fn contents(parts: Option<Vec<Contents>>, limit: u64) -> Result<ProviderAnswer, Failure> {
    let Some(parts) = parts else {
        return Ok(ProviderAnswer::Contents(None));
    };
    at_most(parts.len(), "parts")?;
    let mut out = Bounded::new(0, limit);
    out.raw("{\"contents\":[")?;
    for (index, Contents { uri, mime_type, body, meta }) in parts.into_iter().enumerate() {
        let place = format!("the part {index} (`{}`)", clip(&uri, 200));
        if !is_uri(&uri) {
            return malformed(format!("{place}: its `uri` is not an absolute URI (RFC 3986)"));
        }
        out.raw(if index > 0 { ",{\"uri\":" } else { "{\"uri\":" })?;
        out.string(&uri)?;
        if let Some(mime_type) = mime_type {
            let fits = (1..=MAX_MIME_BYTES).contains(&mime_type.len())
                && mime_type.bytes().all(|byte| matches!(byte, b' '..=b'~'));
            if !fits {
                return malformed(format!(
                    "{place}: its media type is not made of 1 to {MAX_MIME_BYTES} ASCII characters"
                ));
            }
            out.raw(",\"mimeType\":")?;
            out.string(&mime_type)?;
        }
        match body {
            Body::Text(text) => {
                out.raw(",\"text\":")?;
                out.string(&text)?;
            }
            Body::Blob(bytes) => {
                out.raw(",\"blob\":\"")?;
                out.base64(&bytes)?;
                out.raw("\"")?;
            }
        }
        if let Some(meta) = meta {
            out.raw(",\"_meta\":")?;
            out.raw(json_object(&place, "meta", meta)?.as_str())?;
        }
        out.raw("}")?;
    }
    out.raw("]}")?;
    Ok(ProviderAnswer::Contents(Some(RawJson::trusted(out.bytes))))
}

fn malformed<T>(what: String) -> Result<T, Failure> {
    Err(Failure::Malformed(what))
}

fn at_most(number: usize, what: &str) -> Result<(), Failure> {
    if number > MAX_ENTRIES {
        malformed(format!("it has {number} {what}; {MAX_ENTRIES} are the most"))
    } else {
        Ok(())
    }
}

fn json_object(place: &str, what: &str, text: String) -> Result<RawJson, Failure> {
    let json = RawJson::parse(text);
    let json = json.map_err(|error| Failure::Malformed(format!("{place}: its `{what}` is {error}")))?;
    if json.is_object() { Ok(json) } else { malformed(format!("{place}: its `{what}` is not a JSON object")) }
}

/// The objects of a listing, one after another in one buffer.
struct Listed {
    out: Bounded,
    places: Vec<Range<usize>>,
}

impl Listed {
    fn new(limit: u64) -> Self {
        Self { out: Bounded::new(0, limit), places: Vec::new() }
    }

    fn push(&mut self, place: &str, uri: (&str, &str), name: &str, more: String) -> Result<(), Failure> {
        if name.is_empty() || name.len() > MAX_NAME_BYTES {
            return malformed(format!("{place}: its `name` does not have 1 to {MAX_NAME_BYTES} bytes"));
        }
        let more = json_object(place, "more", more)?;
        let members = members(&more, "more")?;
        check(&members, uri.0).map_err(|what| Failure::Malformed(format!("{place}: its `more` {what}")))?;
        let (begin, out) = (self.out.bytes.len(), &mut self.out);
        out.raw("{\"")?;
        out.raw(uri.0)?;
        out.raw("\":")?;
        out.string(uri.1)?;
        out.raw(",\"name\":")?;
        out.string(name)?;
        for member in &members {
            out.raw(",")?;
            out.member(member)?;
        }
        out.raw("}")?;
        self.places.push(begin..self.out.bytes.len());
        Ok(())
    }

    fn finish(self) -> Vec<RawJson> {
        let bytes = Bytes::from(self.out.bytes);
        self.places.into_iter().map(|place| RawJson::trusted(bytes.slice(place))).collect()
    }
}

/// Checks the types of the members that MCP defines. A strict client rejects a whole listing that
/// has one malformed entry.
fn check(members: &[Member<'_>], uri: &str) -> Result<(), String> {
    for member in members {
        let (name, value) = (member.text().unwrap_or_default(), member.value.get());
        if name == uri || name == "name" {
            return Err(format!("has a `{name}`, which stands beside it"));
        }
        let fits = match name.as_str() {
            "title" | "description" | "mimeType" => value.starts_with('"'),
            "size" => serde_json::from_str::<u64>(value).is_ok(),
            "_meta" => value.starts_with('{'),
            "icons" => check_icons(&RawJson::trusted(value.to_owned())).is_ok(),
            "annotations" => annotations(value)?,
            _ => true,
        };
        if !fits {
            return Err(format!("has a `{name}` of the wrong type"));
        }
    }
    Ok(())
}

/// Checks annotations (R-2).
fn annotations(text: &str) -> Result<bool, String> {
    let Ok(given) = serde_json::from_str::<BTreeMap<String, Value>>(text) else { return Ok(false) };
    for (name, value) in &given {
        let (fits, expected) = match name.as_str() {
            "audience" => {
                let is_role = |role: &Value| matches!(role.as_str(), Some("user" | "assistant"));
                let fits = value.as_array().is_some_and(|roles| roles.iter().all(is_role));
                (fits, "an array of `user` and `assistant`")
            }
            "priority" => {
                let fits = value.as_f64().is_some_and(|number| (0.0..=1.0).contains(&number));
                (fits, "a number from 0 to 1")
            }
            "lastModified" => {
                let is_moment = |text: &str| text.contains('T') && text.parse::<jiff::Timestamp>().is_ok();
                (value.as_str().is_some_and(is_moment), "a moment such as 2026-11-21T12:00:00Z")
            }
            _ => continue,
        };
        if !fits {
            return Err(format!("has an `annotations.{name}` that is not {expected}"));
        }
    }
    Ok(true)
}

/// Whether a text is a valid URI template: closed braces around expressions of allowed characters,
/// and between them only characters that a URI may have.
fn is_template(text: &str) -> bool {
    if text.is_empty() || text.len() > MAX_URI_BYTES {
        return false;
    }
    let mut in_expression = None;
    for (at, byte) in text.bytes().enumerate() {
        match (byte, in_expression) {
            (b'{', None) => in_expression = Some(at),
            (b'}', Some(begin)) if at > begin + 1 => in_expression = None,
            (b'{' | b'}', _) => return false,
            (byte, Some(_)) => {
                if !byte.is_ascii_alphanumeric() && !b"_.%,:*+#/;?&=!@|-".contains(&byte) {
                    return false;
                }
            }
            (byte, None) => {
                let excluded = b"\"'<>\\^`|".contains(&byte);
                if byte.is_ascii() && (!byte.is_ascii_graphic() || excluded) {
                    return false;
                }
            }
        }
    }
    in_expression.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 1 << 20;

    fn entry(uri: &str, more: &str) -> Entry {
        Entry { uri: uri.into(), name: "n".into(), more: more.into() }
    }

    fn listed(entries: Vec<Entry>) -> Result<Vec<String>, String> {
        match page(Page { entries, next: Some("c".into()) }, LIMIT) {
            Ok(ProviderAnswer::Resources { entries, next }) => {
                assert_eq!(next.as_deref(), Some("c"));
                Ok(entries.iter().map(|entry| entry.as_str().to_owned()).collect())
            }
            Ok(other) => panic!("{other:?}"),
            Err(Failure::Malformed(what)) => Err(what),
            Err(other) => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn r_2_entries_are_their_uri_their_name_and_more() {
        let more = r#"{"title":"T","description":"","mimeType":"text/plain","size":0,
            "annotations":{"audience":["user","assistant"],"priority":0.5,"lastModified":"2025-01-12T15:00:58Z"},
            "icons":[{"src":"https://a.example/i.png"}],"_meta":{},"x":null}"#;
        let entries = listed(vec![entry("a:b", "{}"), entry("a:\u{63}", more)]).expect("fine");
        assert_eq!(entries[0], r#"{"uri":"a:b","name":"n"}"#);
        let second: Value = serde_json::from_str(&entries[1]).expect("JSON");
        let mut whole: Value = serde_json::from_str(more).expect("JSON");
        whole["uri"] = "a:c".into();
        whole["name"] = "n".into();
        assert_eq!(second, whole, "nothing lost, nothing added");
    }

    #[test]
    fn r_2_a_wrong_entry_is_named_and_fails_the_page() {
        for (more, says) in [
            ("", "not valid JSON"),
            ("[]", "not a JSON object"),
            (r#"{"uri":"a:x"}"#, "has a `uri`"),
            (r#"{"n\u0061me":"x"}"#, "has a `name`"),
            (r#"{"x":1,"x":2}"#, "the name \"x\" twice"),
            (r#"{"title":5}"#, "`title` of the wrong type"),
            (r#"{"description":null}"#, "`description` of the wrong type"),
            (r#"{"mimeType":{}}"#, "`mimeType` of the wrong type"),
            (r#"{"size":1.5}"#, "`size` of the wrong type"),
            (r#"{"size":-1}"#, "`size` of the wrong type"),
            (r#"{"size":"1"}"#, "`size` of the wrong type"),
            (r#"{"icons":{}}"#, "`icons` of the wrong type"),
            (r#"{"icons":[{"src":1}]}"#, "`icons` of the wrong type"),
            (r#"{"_meta":[]}"#, "`_meta` of the wrong type"),
            (r#"{"annotations":[]}"#, "`annotations` of the wrong type"),
            (r#"{"annotations":{"audience":"user"}}"#, "annotations.audience"),
            (r#"{"annotations":{"audience":["host"]}}"#, "annotations.audience"),
            (r#"{"annotations":{"priority":1.1}}"#, "annotations.priority"),
            (r#"{"annotations":{"lastModified":"yesterday"}}"#, "annotations.lastModified"),
            (r#"{"annotations":{"lastModified":5}}"#, "annotations.lastModified"),
        ] {
            let what = listed(vec![entry("a:first", "{}"), entry("a:second", more)]).expect_err(says);
            assert!(what.starts_with("the entry 1 (`a:second`): ") && what.contains(says), "{what}");
        }
        for uri in ["", "no scheme", "/a/b", "a:\n", "a: b", "a:é"] {
            let what = listed(vec![entry(uri, "{}")]).expect_err(uri);
            assert!(what.contains("not an absolute URI"), "{what}");
        }
        let nameless = Entry { name: String::new(), ..entry("a:b", "{}") };
        assert!(listed(vec![nameless]).expect_err("nameless").contains("`name`"));
    }

    #[test]
    fn pages_are_bounded_in_entries_bytes_and_cursor() {
        assert_eq!(listed(vec![entry("a:b", "{}"); 1_000]).expect("the most").len(), 1_000);
        assert!(listed(vec![entry("a:b", "{}"); 1_001]).expect_err("more").contains("1001 entries"));
        let large = format!("{{\"x\":\"{}\"}}", "x".repeat(1 << 19));
        assert_eq!(listed(vec![entry("a:b", &large); 3]).expect_err("large"), "Output");
        let next = Some("c".repeat(MAX_CURSOR_BYTES + 1));
        assert!(matches!(page(Page { entries: vec![], next }, LIMIT), Err(Failure::Malformed(_))));
    }

    #[test]
    fn r_3_templates_have_closed_expressions() {
        for text in
            ["test://t/{id}/data", "notes:///{name}", "{+base}/x{?q,lang*}", "a:b", "a:{var:3}", "a:ü"]
        {
            assert!(is_template(text), "{text}");
        }
        for text in ["", "a:{", "a:}", "a:{}", "a:{a{b}}", "a:{a b}", "a: b", "a:\n", "a:\"b\""] {
            assert!(!is_template(text), "{text:?}");
        }
        let template =
            |text: &str| Template { uri_template: text.into(), name: "n".into(), more: "{}".into() };
        match templates(vec![template("a:{x}")], LIMIT).expect("fine") {
            ProviderAnswer::Templates(list) => {
                assert_eq!(list[0].0, "a:{x}");
                assert_eq!(list[0].1.as_str(), r#"{"uriTemplate":"a:{x}","name":"n"}"#);
            }
            other => panic!("{other:?}"),
        }
        assert!(matches!(templates(vec![template("a:{")], LIMIT), Err(Failure::Malformed(_))));
    }

    #[test]
    fn r_4_text_and_bytes() {
        let part = |uri: &str, body| Contents { uri: uri.into(), mime_type: None, body, meta: None };
        let read = |parts| match contents(Some(parts), LIMIT) {
            Ok(ProviderAnswer::Contents(Some(json))) => Ok(json.as_str().to_owned()),
            Ok(other) => panic!("{other:?}"),
            Err(failure) => Err(failure),
        };
        let typed = Contents {
            mime_type: Some("text/plain; charset=utf-8".into()),
            meta: Some("{}".into()),
            ..part("a:b", Body::Text("\"".into()))
        };
        assert_eq!(
            read(vec![typed.clone(), part("a:c", Body::Blob(vec![1, 2, 3, 4]))]).expect("fine"),
            r#"{"contents":[{"uri":"a:b","mimeType":"text/plain; charset=utf-8","text":"\"","_meta":{}},{"uri":"a:c","blob":"AQIDBA=="}]}"#
        );
        assert_eq!(contents(None, LIMIT).expect("none"), ProviderAnswer::Contents(None));
        for (wrong, says) in [
            (part("b", Body::Text(String::new())), "absolute URI"),
            (Contents { mime_type: Some("a\n".into()), ..typed.clone() }, "media type"),
            (Contents { meta: Some("1".into()), ..typed.clone() }, "not a JSON object"),
        ] {
            match read(vec![wrong]) {
                Err(Failure::Malformed(what)) => assert!(what.contains(says), "{what}"),
                other => panic!("{other:?}"),
            }
        }
        let large = part("a:b", Body::Blob(vec![0; 1 << 20]));
        assert_eq!(read(vec![large]), Err(Failure::Output));
    }
}
