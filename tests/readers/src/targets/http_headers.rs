//! The headers that decide how the host reads and answers a request.

use toolyard_transport::http::{EventId, accepts, is_json};

pub(super) fn check(data: &[u8]) {
    if let [stream @ .., _, _, _, _, _, _, _, _] = data
        && let (Ok(stream), Some(number)) = (stream.try_into(), data.last_chunk())
    {
        let id = EventId { stream: u64::from_le_bytes(stream), number: u64::from_le_bytes(*number) };
        assert_eq!(EventId::parse(&id.to_string()), Some(id));
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Some(id) = EventId::parse(text) {
        assert_eq!(id.to_string(), text, "an id has one spelling");
    }
    if is_json(text) {
        assert!(is_json(&text.to_ascii_uppercase()), "the case of a media type is free");
        assert!(is_json(&format!("{text}; charset=utf-8")), "parameters do not matter");
    }
    for (kind, sub) in [("application", "json"), ("text", "event-stream")] {
        accepted(text, kind, sub);
    }
}

/// Each line is one header.
fn accepted(text: &str, kind: &str, sub: &str) {
    let admits = |headers: &[&str]| accepts(headers.iter().copied(), kind, sub);
    let admitted = accepts(text.lines(), kind, sub);
    let joined = text.lines().collect::<Vec<_>>().join(",");
    assert_eq!(admits(&[&joined]), admitted, "headers are one list: {joined:?}");
    let upper = joined.to_ascii_uppercase();
    assert_eq!(admits(&[&upper]), admitted, "case is free: {joined:?}");
    assert!(!admitted || names(&upper, kind, sub), "nothing in it says so: {joined:?}");
    let exact = format!("{kind}/{sub}");
    assert!(admits(&[&joined, &exact]), "named plainly at the end: {joined:?}");
    assert!(!admits(&[&joined, &format!("{exact};q=0")]), "refused at the end: {joined:?}");
}

/// Whether a list in capitals has a range that contains the type, whatever its weight.
fn names(upper: &str, kind: &str, sub: &str) -> bool {
    let kind = kind.to_ascii_uppercase();
    let ranges = [format!("{kind}/{}", sub.to_ascii_uppercase()), format!("{kind}/*"), "*/*".to_owned()];
    ranges.iter().any(|range| upper.contains(range))
}
