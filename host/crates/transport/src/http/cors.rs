//! CORS: what pages in browsers may see (the Fetch standard, "CORS protocol"). The host/origin
//! check decides earlier which pages may call at all.

use super::reply::{self, Reply};
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, HeaderMap, HeaderName, HeaderValue, ORIGIN, VARY,
};
use http::{Method, StatusCode};

/// The headers that a page may send.
const HEADERS: &str = "Authorization, Content-Type, Accept, Mcp-Session-Id, Mcp-Protocol-Version, \
                       Last-Event-ID, Mcp-Method, Mcp-Name";
/// The prefix of headers that repeat arguments; each tool names its own (26XH-1).
const PARAMS: &str = "mcp-param-";
/// The most such headers that are allowed at once.
const MAX_PARAMS: usize = 32;
/// The headers that a page may read besides the body.
const EXPOSED: HeaderValue = HeaderValue::from_static("Mcp-Session-Id, WWW-Authenticate, Retry-After");
/// The seconds for which a browser may cache the answer to a preflight request.
const REMEMBERED: HeaderValue = HeaderValue::from_static("7200");

/// Whether this is a preflight request. A browser sends it without credentials.
pub(crate) fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    *method == Method::OPTIONS
        && headers.contains_key(ORIGIN)
        && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// The answer to a preflight request with these headers, for these methods.
pub(crate) fn preflight(methods: &'static str, asked: &HeaderMap) -> Reply {
    let mut reply = reply::empty(StatusCode::NO_CONTENT);
    let headers = reply.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(methods));
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, allowed(asked));
    headers.insert(ACCESS_CONTROL_MAX_AGE, REMEMBERED);
    reply
}

/// The headers that a page may send if it asks for these.
fn allowed(asked: &HeaderMap) -> HeaderValue {
    let asked = asked.get_all(ACCESS_CONTROL_REQUEST_HEADERS).iter().filter_map(|names| names.to_str().ok());
    let params = asked
        .flat_map(|names| names.split(','))
        .filter_map(|name| HeaderName::try_from(name.trim()).ok())
        .filter(|name| name.as_str().starts_with(PARAMS));
    let all = params.take(MAX_PARAMS).fold(HEADERS.to_owned(), |all, name| all + ", " + name.as_str());
    HeaderValue::try_from(all).unwrap_or(HeaderValue::from_static(HEADERS))
}

/// Lets a page of this origin, which has passed the host/origin check, read the answer.
pub(crate) fn allow(reply: &mut Reply, origin: HeaderValue) {
    let headers = reply.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    headers.append(VARY, HeaderValue::from_static("Origin"));
}

/// Lets every page read the answer, because it is the same for all.
pub(crate) fn allow_all(reply: &mut Reply) {
    reply.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t_26xh_1_a_page_may_repeat_arguments_in_headers_and_add_nothing_else() {
        let mut asked = HeaderMap::new();
        let names = "content-type, Mcp-Param-Region,x-other, mcp-param-a b,mcp-param-id";
        asked.insert(ACCESS_CONTROL_REQUEST_HEADERS, HeaderValue::from_static(names));
        let allowed = allowed(&asked);
        assert_eq!(allowed, format!("{HEADERS}, mcp-param-region, mcp-param-id"));
        assert_eq!(super::allowed(&HeaderMap::new()), HEADERS);
    }
}
