//! `Accept` and `Content-Type` (H-6, H-7; RFC 9110 sections 8.3.1 and 12.5.1).

use http::HeaderMap;
use http::header::ACCEPT;

/// Whether a list of `Accept` values admits the media type `kind/sub`. A range with `q=0` excludes types that
/// a wider range admits.
#[must_use]
pub fn accepts<'a>(values: impl Iterator<Item = &'a str>, kind: &str, sub: &str) -> bool {
    let mut best: Option<(u8, bool)> = None;
    for range in values.flat_map(|value| value.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let Some((range_kind, range_sub)) = parts.next().and_then(|media| media.split_once('/')) else {
            continue;
        };
        let precision = match (range_kind, range_sub) {
            ("*", "*") => 0,
            (range_kind, "*") if range_kind.eq_ignore_ascii_case(kind) => 1,
            (range_kind, range_sub)
                if range_kind.eq_ignore_ascii_case(kind) && range_sub.eq_ignore_ascii_case(sub) =>
            {
                2
            }
            _ => continue,
        };
        let refused = parts.any(|parameter| {
            parameter.split_once('=').is_some_and(|(name, weight)| {
                name.trim().eq_ignore_ascii_case("q") && weight.trim().parse::<f32>() == Ok(0.0)
            })
        });
        if best.is_none_or(|(known, _)| precision >= known) {
            best = Some((precision, !refused));
        }
    }
    best.is_some_and(|(_, admitted)| admitted)
}

/// Whether a list of `Accept` values names HTML, as browsers do and programs do not.
#[must_use]
pub fn names_html(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|range| range.trim().starts_with("text/html"))
}

/// Whether a `Content-Type` is `application/json`, parameters aside.
#[must_use]
pub fn is_json(content_type: &str) -> bool {
    content_type == "application/json"
        || content_type
            .split(';')
            .next()
            .is_some_and(|media| media.trim().eq_ignore_ascii_case("application/json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h_6_accept_is_a_list_with_wildcards_and_weights() {
        let both = "application/json, text/event-stream|application/json,text/event-stream;q=0.9|*/*\
                    |text/*, application/*;q=0.1|APPLICATION/JSON , Text/Event-Stream";
        for (values, json, events) in [
            (both, true, true),
            ("application/json", true, false),
            ("text/event-stream|*/*, application/json;q=0|application/json;q=0, */*", false, true),
            ("|;;;,,,/|json", false, false),
        ] {
            for value in values.split('|') {
                assert_eq!(accepts([value].into_iter(), "application", "json"), json, "{value}");
                assert_eq!(accepts([value].into_iter(), "text", "event-stream"), events, "{value}");
            }
        }
        assert!(accepts(["application/json", "text/event-stream"].into_iter(), "text", "event-stream"));
    }

    #[test]
    fn h_7_json_may_have_parameters() {
        for value in ["application/json", "Application/JSON; charset=utf-8", " application/json ;x"] {
            assert!(is_json(value), "{value}");
        }
        for value in ["text/json", "application/json-patch+json", ""] {
            assert!(!is_json(value), "{value}");
        }
    }
}
