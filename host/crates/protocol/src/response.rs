//! Encoding of outgoing messages: responses, requests and notifications, composed of text that is
//! encoded already.

use crate::error::RpcError;
use crate::message::Id;
use crate::raw::RawJson;
use bytes::Bytes;
use serde_json::value::RawValue;

/// The `_meta` key that ties a message to a task (T-26, T-38).
pub const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

/// A successful response.
#[must_use]
pub fn result(id: &Id, result: &RawJson) -> Bytes {
    let mut out = Vec::with_capacity(result.as_bytes().len() + 64);
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    out.extend_from_slice(RawJson::of(id).as_bytes());
    out.extend_from_slice(b",\"result\":");
    out.extend_from_slice(result.as_bytes());
    out.push(b'}');
    out.into()
}

/// An error response. The id is left out, never null, if it could not be read (J-4).
#[must_use]
pub fn error(id: Option<&Id>, error: &RpcError) -> Bytes {
    let id = id.map(|id| format!(",\"id\":{}", RawJson::of(id).as_str())).unwrap_or_default();
    format!("{{\"jsonrpc\":\"2.0\"{id},\"error\":{}}}", RawJson::of(error).as_str()).into()
}

/// The response of either kind.
#[must_use]
pub fn outcome(id: &Id, outcome: &Result<RawJson, RpcError>) -> Bytes {
    match outcome {
        Ok(value) => result(id, value),
        Err(fault) => error(Some(id), fault),
    }
}

/// A notification.
#[must_use]
pub fn notification(method: &str, params: Option<&RawJson>) -> Bytes {
    let mut out = Vec::with_capacity(64 + params.map_or(0, |params| params.as_bytes().len()));
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"method\":");
    out.extend_from_slice(RawJson::of(method).as_bytes());
    if let Some(params) = params {
        out.extend_from_slice(b",\"params\":");
        out.extend_from_slice(params.as_bytes());
    }
    out.push(b'}');
    out.into()
}

/// A batch of responses (2025-03-26, J-6).
#[must_use]
pub fn batch(members: &[Bytes]) -> Bytes {
    let mut out = Vec::with_capacity(members.iter().map(|member| member.len() + 1).sum::<usize>() + 1);
    for (index, member) in members.iter().enumerate() {
        out.push(if index == 0 { b'[' } else { b',' });
        out.extend_from_slice(member);
    }
    out.push(b']');
    out.into()
}

/// A request of this host. Its id is a text that was never used before (J-2).
#[must_use]
pub fn request(id: &str, method: &str, params: &RawJson) -> Bytes {
    let [id, method] = [id, method].map(RawJson::of);
    let (id, method, params) = (id.as_str(), method.as_str(), params.as_str());
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":{method},\"params\":{params}}}").into()
}

/// `object` unchanged, with one more member; `value` is JSON.
#[must_use]
pub fn with_member(object: &RawJson, name: &str, value: &str) -> RawJson {
    let text = object.as_str();
    let added = format!("{}{}:{value}}}", comma_after(text.as_bytes()), RawJson::of(name).as_str());
    RawJson::trusted(format!("{}{added}", &text[..text.len() - 1]))
}

/// `result`, an object, unchanged except for the related-task entry in its `_meta` (T-26).
#[must_use]
pub fn with_related_task(result: &RawJson, task_id: &str) -> RawJson {
    #[derive(serde::Deserialize)]
    struct Members<'a> {
        #[serde(borrow, rename = "_meta")]
        meta: Option<&'a RawValue>,
    }
    let text = result.as_bytes();
    let entry = format!("\"{RELATED_TASK}\":{{\"taskId\":{}}}", RawJson::of(task_id).as_str());
    let meta = result.decode::<Members<'_>>().ok().and_then(|members| members.meta);
    let (end, added) = match meta {
        // The closing brace of `_meta` is the last byte of its own text.
        Some(meta) if meta.get().starts_with('{') => {
            let start = meta.get().as_ptr() as usize - text.as_ptr() as usize;
            (start + meta.get().len() - 1, format!("{}{entry}", comma_after(meta.get().as_bytes())))
        }
        _ => (text.len() - 1, format!("{}\"_meta\":{{{entry}}}", comma_after(text))),
    };
    let mut out = Vec::with_capacity(text.len() + added.len());
    out.extend_from_slice(&text[..end]);
    out.extend_from_slice(added.as_bytes());
    out.extend_from_slice(&text[end..]);
    RawJson::trusted(out)
}

/// The separator before a further member of this object.
fn comma_after(object: &[u8]) -> &'static str {
    let inside = &object[1..object.len() - 1];
    if inside.iter().all(u8::is_ascii_whitespace) { "" } else { "," }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn j_4_an_unreadable_id_is_left_out_never_null() {
        let fault = RpcError::new(-32700, "no");
        for (id, member) in [(None, ""), (Some(&Id::Number(0)), r#""id":0,"#)] {
            let expected = format!(r#"{{"jsonrpc":"2.0",{member}"error":{{"code":-32700,"message":"no"}}}}"#);
            assert_eq!(error(id, &fault), expected.as_bytes());
        }
    }

    #[test]
    fn t_26_the_related_task_is_merged_into_the_meta_and_nothing_else_changes() {
        let related = r#""io.modelcontextprotocol/related-task":{"taskId":"t"}"#;
        for (given, expected) in [
            ("{}", r#"{"_meta":{RELATED}}"#),
            (r#"{"content":[ ],"isError":false}"#, r#"{"content":[ ],"isError":false,"_meta":{RELATED}}"#),
            (r#"{"_meta":{},"content":[]}"#, r#"{"_meta":{RELATED},"content":[]}"#),
            (r#"{"_meta":{"a":"}"},"content":[]}"#, r#"{"_meta":{"a":"}",RELATED},"content":[]}"#),
        ] {
            let made = with_related_task(&RawJson::parse(given).expect("valid"), "t");
            assert_eq!(made.as_str(), expected.replace("RELATED", related), "{given}");
            RawJson::parse(made.bytes()).expect("still JSON");
        }
    }

    #[test]
    fn a_batch_is_an_array() {
        assert_eq!(batch(&[Bytes::from_static(b"{}"), Bytes::from_static(b"1")]), "[{},1]".as_bytes());
    }
}
