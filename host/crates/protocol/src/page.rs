//! Listings in pages: the request for a page, and its form (N-1).

use crate::error::RpcError;
use crate::raw::RawJson;
use serde::Deserialize;

/// A page of anything: `{"NAME":[…],"nextCursor":…}` (N-1).
#[must_use]
pub fn page<'a>(
    name: &str,
    members: impl Iterator<Item = &'a RawJson>,
    next_cursor: Option<&str>,
) -> RawJson {
    let mut out = format!("{{\"{name}\":[").into_bytes();
    for (index, member) in members.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(member.as_bytes());
    }
    out.push(b']');
    if let Some(cursor) = next_cursor {
        out.extend_from_slice(b",\"nextCursor\":");
        out.extend_from_slice(RawJson::of(cursor).as_bytes());
    }
    out.push(b'}');
    RawJson::trusted(out)
}

/// The `cursor` of the params of a list request (N-1).
///
/// # Errors
/// `-32602` if it is present and not a string.
pub fn cursor(params: Option<&RawJson>) -> Result<Option<String>, RpcError> {
    #[derive(Deserialize)]
    struct Wire {
        #[serde(default)]
        cursor: Option<String>,
    }
    let Some(params) = params else { return Ok(None) };
    params
        .decode::<Wire>()
        .map(|wire| wire.cursor)
        .map_err(|_| RpcError::invalid_params("`cursor` must be a string"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both revisions have these pages (26C-7).
    #[test]
    fn n_1_a_page_names_the_next_one_only_if_there_is_one() {
        let members = [RawJson::trusted("1"), RawJson::trusted("{}")];
        assert_eq!(page("x", members.iter(), None).as_str(), r#"{"x":[1,{}]}"#);
        assert_eq!(page("x", members[..0].iter(), Some("c")).as_str(), r#"{"x":[],"nextCursor":"c"}"#);
        assert_eq!(cursor(None), Ok(None));
        let given = |value: &str| cursor(Some(&RawJson::trusted(format!(r#"{{"cursor":{value}}}"#))));
        assert_eq!(given("\"\""), Ok(Some(String::new())), "a cursor like any");
        assert_eq!(given("5").expect_err("no text").code, -32602);
    }
}
