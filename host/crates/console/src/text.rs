//! Foreign text, times and sizes for pages.

use maud::{Markup, html};
use std::time::Duration;
use toolyard_dispatch::{Timestamp, visible};

/// The longest foreign text that a line of a list shows (characters).
const MAX_LINE: usize = 200;

/// Foreign text within one line, shortened.
pub(crate) fn line(text: &str) -> String {
    match text.char_indices().nth(MAX_LINE) {
        None => visible::line(text).into_owned(),
        Some((end, _)) => format!("{}…", visible::line(&text[..end])),
    }
}

/// Foreign text over several lines.
pub(crate) fn block(text: &str) -> Markup {
    html! { pre.text { (visible::text(text)) } }
}

/// The first eight characters of an id, with the full id as its title.
pub(crate) fn short_id(id: &str) -> Markup {
    html! { code title=(id) { (id.get(..8).unwrap_or(id)) } }
}

/// The first twelve characters of a digest, with the full digest as its title.
pub(crate) fn digest(digest: &str) -> Markup {
    html! { code title=(line(digest)) { (line(digest.get(..12).unwrap_or(digest))) } }
}

/// A name as one segment of a path.
pub(crate) fn segment(name: &str) -> String {
    form_urlencoded::byte_serialize(name.as_bytes()).collect()
}

/// The name that a segment of a path stands for.
pub(crate) fn named(segment: &str) -> String {
    form_urlencoded::parse(segment.as_bytes()).next().map_or_else(String::new, |(name, _)| name.into_owned())
}

/// A query of one pair.
pub(crate) fn query(name: &str, value: &str) -> String {
    form_urlencoded::Serializer::new(String::new()).append_pair(name, value).finish()
}

/// An address with those of these pairs whose value is not empty.
pub(crate) fn address(path: &str, pairs: &[(&str, Option<&str>)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(
        pairs.iter().filter_map(|(name, value)| Some((name, value.filter(|value| !value.is_empty())?))),
    );
    let query = query.finish();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

/// A time, relative to now.
pub(crate) fn ago(at: Timestamp, now: Timestamp) -> Markup {
    let since = now.0.saturating_sub(at.0);
    let words = if since >= 0 {
        format!("{} ago", span(since))
    } else {
        format!("in {}", span(since.saturating_neg()))
    };
    html! { time datetime=(at) title=(at) { (words) } }
}

/// A span of milliseconds in its two largest units.
pub(crate) fn span(milliseconds: i64) -> String {
    const UNITS: [(i64, &str); 4] = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")];
    if milliseconds < 1_000 {
        return format!("{milliseconds} ms");
    }
    let first = UNITS.iter().position(|(unit, _)| milliseconds >= *unit).unwrap_or(UNITS.len() - 1);
    let (unit, name) = UNITS[first];
    let rest = UNITS.get(first + 1).map(|(next, next_name)| (milliseconds % unit / next, next_name));
    match rest {
        Some((count, next_name)) if count > 0 => {
            format!("{} {name} {count} {next_name}", milliseconds / unit)
        }
        _ => format!("{} {name}", milliseconds / unit),
    }
}

/// A span of milliseconds, exact to a hundredth of a second below a minute.
pub(crate) fn precise(milliseconds: i64) -> String {
    match milliseconds {
        1_000..60_000 => format!("{:.2} s", milliseconds as f64 / 1_000.0),
        _ => span(milliseconds),
    }
}

/// A short time, to three digits.
pub(crate) fn micros(time: Duration) -> String {
    let micros = time.as_micros();
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..10_000 => format!("{:.2} ms", micros as f64 / 1e3),
        10_000..1_000_000 => format!("{:.0} ms", micros as f64 / 1e3),
        1_000_000..10_000_000 => format!("{:.2} s", micros as f64 / 1e6),
        _ => span(i64::try_from(time.as_millis()).unwrap_or(i64::MAX)),
    }
}

/// A count with its noun.
pub(crate) fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_has_its_two_largest_units() {
        let shown = [0, 999, 1_000, 95_000, 3_600_000, 3_660_000, 90_000_000, 86_400_000 * 3].map(span);
        assert_eq!([999, 1_211, 59_999, 95_000].map(precise), ["999 ms", "1.21 s", "60.00 s", "1 min 35 s"]);
        assert_eq!(shown, ["0 ms", "999 ms", "1 s", "1 min 35 s", "1 h", "1 h 1 min", "1 d 1 h", "3 d"]);
    }

    #[test]
    fn a_short_time_has_three_digits() {
        let shown =
            [0, 999, 1_500, 12_345, 1_234_567, 95_000_000].map(|time| micros(Duration::from_micros(time)));
        assert_eq!(shown, ["0 µs", "999 µs", "1.50 ms", "12 ms", "1.23 s", "1 min 35 s"]);
    }

    #[test]
    fn a_name_is_one_segment_of_a_path_and_comes_back() {
        for name in ["a b+c.wasm", "../x", "a/b?c#d&e=f", "é\u{202e}", "%2F", ""] {
            let segment = segment(name);
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"+%*-._".contains(&byte);
            assert!(segment.bytes().all(is_plain), "{segment}");
            assert_eq!(named(&segment), name);
        }
    }

    #[test]
    fn text_of_guests_is_escaped_and_shortened() {
        assert_eq!(line("a\u{202e}b\n"), "a\\u{202e}b\\n");
        assert_eq!(line(&"é".repeat(300)).chars().count(), MAX_LINE + 1);
        assert_eq!(block("<script>\u{1b}").into_string(), "<pre class=\"text\">&lt;script&gt;\\u{1b}</pre>");
    }
}
