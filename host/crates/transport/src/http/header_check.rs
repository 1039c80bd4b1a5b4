//! The check of headers that mirror the body, so that a proxy can route requests without reading bodies
//! (26H-3 to 26H-7, 26XH-2).
//!
//! A header that occurs twice is malformed: the proxy might read one value and the host the other.

use http::{HeaderMap, HeaderName};
use std::borrow::Cow;
use toolyard_protocol::stateless::VERSION;
use toolyard_protocol::stateless::claim::VersionClaim;
use toolyard_protocol::stateless::error::header_mismatch;
use toolyard_protocol::stateless::headers::value;
use toolyard_protocol::stateless::param_headers::ParamHeader;
use toolyard_protocol::{Method, RawJson, RpcError};

pub(crate) static PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
static METHOD: HeaderName = HeaderName::from_static("mcp-method");
static NAME: HeaderName = HeaderName::from_static("mcp-name");
const PARAM: &str = "mcp-param-";

/// Whether the version header names this generation (26B).
pub(super) fn names_stateless(headers: &HeaderMap) -> bool {
    matches!(sole(headers, &PROTOCOL_VERSION), Ok(Some(version)) if version == VERSION)
}

/// The single value of a header, without surrounding spaces and tabs.
fn sole<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, RpcError> {
    let mut values = headers.get_all(name).iter();
    let Some(first) = values.next() else { return Ok(None) };
    let text = first.to_str().map_err(|_| header_mismatch(format!("the header {name} is malformed")))?;
    match values.next() {
        None => Ok(Some(text.trim_matches([' ', '\t']))),
        Some(_) => Err(header_mismatch(format!("the header {name} is there twice"))),
    }
}

fn same(name: &HeaderName, header: &str, body: &str) -> Result<(), RpcError> {
    if header == body {
        return Ok(());
    }
    Err(header_mismatch(format!("the header {name} differs from the body")))
}

fn missing(name: &HeaderName) -> RpcError {
    header_mismatch(format!("the header {name} is missing"))
}

/// Checks that the version header agrees with the claim of a request (26H-4, 26H-6). A malformed
/// claim agrees with nothing; the error comes from its envelope.
///
/// # Errors
/// `-32020`.
pub(super) fn check_version(headers: &HeaderMap, claim: &VersionClaim) -> Result<(), RpcError> {
    let header = sole(headers, &PROTOCOL_VERSION)?.ok_or_else(|| missing(&PROTOCOL_VERSION))?;
    match claim {
        VersionClaim::Version(version) => same(&PROTOCOL_VERSION, header, version),
        VersionClaim::None | VersionClaim::Malformed => Ok(()),
    }
}

/// Checks that `Mcp-Method`, and `Mcp-Name` if the method has it, agree with the body (26H-3); `name` is the
/// required value of `Mcp-Name`.
///
/// # Errors
/// `-32020`.
pub(super) fn check_method<'a>(
    headers: &HeaderMap,
    method: &Method,
    name: impl FnOnce() -> Option<Cow<'a, str>>,
) -> Result<(), RpcError> {
    same(&METHOD, sole(headers, &METHOD)?.ok_or_else(|| missing(&METHOD))?, method.as_str())?;
    if method.name_member().is_none() {
        return Ok(());
    }
    match (sole(headers, &NAME)?, name()) {
        (Some(header), Some(body)) => same(&NAME, &value(header)?, &body),
        (None, Some(_)) => Err(missing(&NAME)),
        (Some(_), None) => Err(header_mismatch("the header mcp-name names what the body does not")),
        // 26H-7: the params are what is wrong.
        (None, None) => Ok(()),
    }
}

/// Checks that the headers of a notification, if there are any, agree with its body (26H-10).
///
/// # Errors
/// `-32020`.
pub(super) fn check_notification(
    headers: &HeaderMap,
    method: &Method,
    claim: &VersionClaim,
) -> Result<(), RpcError> {
    if let (Some(header), VersionClaim::Version(version)) = (sole(headers, &PROTOCOL_VERSION)?, claim) {
        same(&PROTOCOL_VERSION, header, version)?;
    }
    match sole(headers, &METHOD)? {
        Some(header) => same(&METHOD, header, method.as_str()),
        None => Ok(()),
    }
}

/// Checks that the headers in which a tool wants arguments repeated agree with the arguments (26XH-2).
///
/// # Errors
/// `-32020`.
pub(super) fn check_params(
    headers: &HeaderMap,
    wanted: &[ParamHeader],
    arguments: &RawJson,
) -> Result<(), RpcError> {
    for param in wanted {
        // No request contains a name that is not valid in HTTP.
        let name = HeaderName::try_from(format!("{PARAM}{}", param.name)).ok();
        let header = name.map(|name| sole(headers, &name)).transpose()?.flatten();
        param.check(arguments, header)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use toolyard_protocol::stateless::headers::name_of;

    fn headers(given: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in given {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    fn json(text: &str) -> RawJson {
        RawJson::parse(text.to_owned()).expect("test JSON")
    }

    fn version(version: &str) -> VersionClaim {
        VersionClaim::Version(version.to_owned())
    }

    #[test]
    fn t_26h_3_26h_4_the_version_header_is_there_once_and_says_what_the_body_says() {
        let mismatch = Err(-32020);
        for (given, expected) in [
            (&[("MCP-Protocol-Version", "2026-07-28")][..], Ok(())),
            (&[("mcp-protocol-version", " 2026-07-28\t")], Ok(())),
            (&[("mcp-protocol-version", "2025-11-25")], mismatch),
            (&[("mcp-protocol-version", "2026-07-28, 2026-07-28")], mismatch),
            (&[("mcp-protocol-version", "2026-07-28"), ("mcp-protocol-version", "2026-07-28")], mismatch),
            (&[], mismatch),
        ] {
            let checked = check_version(&headers(given), &version("2026-07-28"));
            assert_eq!(checked.map_err(|error| error.code), expected, "{given:?}");
        }
        let unserved = headers(&[("mcp-protocol-version", "1900-01-01")]);
        assert!(check_version(&unserved, &version("1900-01-01")).is_ok(), "26H-14: -32022 is for later");
        assert!(names_stateless(&headers(&[("mcp-protocol-version", "2026-07-28")])));
        assert!(!names_stateless(&unserved));
    }

    #[test]
    fn t_26h_3_26h_5_26h_7_method_and_name_say_what_the_body_says() {
        let (call, nameless) = (json(r#"{"name":"gr\u00fc\u00dfe"}"#), json("{}"));
        let method = ("mcp-method", "tools/call");
        let encoded = ("mcp-name", "=?base64?Z3LDvMOfZQ==?=");
        for (given, params, expected, why) in [
            (&[method, encoded][..], &call, Ok(()), "both say it"),
            (&[("mcp-method", "Tools/Call"), encoded], &call, Err(-32020), "case matters"),
            (&[encoded], &call, Err(-32020), "no method"),
            (&[method, method, encoded], &call, Err(-32020), "two methods"),
            (&[method], &call, Err(-32020), "no name"),
            (&[method, ("mcp-name", "gruss")], &call, Err(-32020), "another name"),
            (&[method, ("mcp-name", "=?base64?Z3LDvMOfZQ?=")], &call, Err(-32020), "no padding"),
            (&[method, encoded, encoded], &call, Err(-32020), "two names"),
            (&[method], &nameless, Ok(()), "26H-7"),
            (&[method, encoded], &nameless, Err(-32020), "the body has no name"),
        ] {
            let name = || name_of(&Method::ToolsCall, Some(params)).map(Cow::Owned);
            let checked = check_method(&headers(given), &Method::ToolsCall, name);
            assert_eq!(checked.map_err(|error| error.code), expected, "{why}");
        }
        let list = headers(&[("mcp-method", "tools/list"), encoded]);
        assert_eq!(check_method(&list, &Method::ToolsList, || None), Ok(()), "a list has no name");
    }
}
