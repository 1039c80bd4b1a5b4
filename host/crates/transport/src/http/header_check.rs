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
    use toolyard_protocol::stateless::param_headers::param_headers;

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
        for (given, fits) in [
            (&[("MCP-Protocol-Version", "2026-07-28")][..], true),
            (&[("mcp-protocol-version", " 2026-07-28\t")][..], true),
            (&[("mcp-protocol-version", "2025-11-25")][..], false),
            (&[("mcp-protocol-version", "2026-07-28, 2026-07-28")][..], false),
            (&[("mcp-protocol-version", "2026-07-28"), ("mcp-protocol-version", "2026-07-28")][..], false),
            (&[][..], false),
        ] {
            let given = headers(given);
            let checked = check_version(&given, &version("2026-07-28"));
            assert_eq!(checked.is_ok(), fits, "{given:?}");
            if let Err(error) = checked {
                assert_eq!(error.code, -32020);
            }
        }
        let unserved = headers(&[("mcp-protocol-version", "1900-01-01")]);
        assert!(check_version(&unserved, &version("1900-01-01")).is_ok(), "26H-14: -32022 is for later");
        assert!(names_stateless(&headers(&[("mcp-protocol-version", "2026-07-28")])));
        assert!(!names_stateless(&unserved));
    }

    #[test]
    fn t_26h_3_26h_5_26h_7_method_and_name_say_what_the_body_says() {
        let call = json(r#"{"name":"gr\u00fc\u00dfe"}"#);
        let check = |given: &[(&'static str, &'static str)], params| {
            let name = || name_of(&Method::ToolsCall, Some(params)).map(Cow::Owned);
            check_method(&headers(given), &Method::ToolsCall, name).map_err(|error| error.code)
        };
        let encoded = ("mcp-name", "=?base64?Z3LDvMOfZQ==?=");
        assert_eq!(check(&[("mcp-method", "tools/call"), encoded], &call), Ok(()));
        assert_eq!(check(&[("mcp-method", "Tools/Call"), encoded], &call), Err(-32020), "case matters");
        assert_eq!(check(&[encoded], &call), Err(-32020), "no method");
        assert_eq!(check(&[("mcp-method", "tools/call")], &call), Err(-32020), "no name");
        let other = ("mcp-name", "gruss");
        assert_eq!(check(&[("mcp-method", "tools/call"), other], &call), Err(-32020), "another name");
        let broken = ("mcp-name", "=?base64?Z3LDvMOfZQ?=");
        assert_eq!(check(&[("mcp-method", "tools/call"), broken], &call), Err(-32020), "no padding");
        assert_eq!(check(&[("mcp-method", "tools/call"), encoded, encoded], &call), Err(-32020), "twice");
        let nameless = json("{}");
        assert_eq!(check(&[("mcp-method", "tools/call")], &nameless), Ok(()), "26H-7");
        assert_eq!(check(&[("mcp-method", "tools/call"), encoded], &nameless), Err(-32020));
        let list =
            check_method(&headers(&[("mcp-method", "tools/list"), encoded]), &Method::ToolsList, || None);
        assert_eq!(list, Ok(()), "a list has no name");
    }

    #[test]
    fn t_26h_10_a_notification_needs_no_headers_and_has_no_wrong_ones() {
        let check = |given: &[(&'static str, &'static str)]| {
            check_notification(&headers(given), &Method::Cancelled, &version("2026-07-28")).is_ok()
        };
        assert!(check(&[]));
        assert!(check(&[("mcp-protocol-version", "2026-07-28"), ("mcp-method", "notifications/cancelled")]));
        assert!(!check(&[("mcp-protocol-version", "2025-11-25")]));
        assert!(!check(&[("mcp-method", "notifications/initialized")]));
    }

    #[test]
    fn t_26xh_2_an_argument_is_repeated_as_it_is() {
        let schema = r#"{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}"#;
        let wanted = param_headers(&json(schema)).expect("a valid annotation");
        let check = |given: &[(&'static str, &'static str)], arguments: &str| {
            check_params(&headers(given), &wanted, &json(arguments)).map_err(|error| error.code)
        };
        let eu = r#"{"region":"eu"}"#;
        assert_eq!(check(&[("Mcp-Param-Region", "eu")], eu), Ok(()));
        assert_eq!(check(&[("mcp-param-region", "=?base64?ZXU=?=")], eu), Ok(()));
        assert_eq!(check(&[("mcp-param-region", "us")], eu), Err(-32020));
        assert_eq!(check(&[], eu), Err(-32020));
        assert_eq!(check(&[("mcp-param-region", "eu"), ("mcp-param-region", "eu")], eu), Err(-32020));
        assert_eq!(check(&[], "{}"), Ok(()));
    }
}
