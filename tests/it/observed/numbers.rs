//! A strict parser of OpenMetrics text: it rejects mistakes that a scraper might forgive.

use std::collections::{BTreeMap, BTreeSet};

/// The parsed metrics.
#[derive(Default)]
pub struct Numbers {
    /// By the declared name of the family: without `_total`.
    pub families: BTreeMap<String, Family>,
    /// Every sample, by its series: `name{label="value"}`, the labels in order.
    pub series: BTreeMap<String, f64>,
}

/// A family of series.
pub struct Family {
    pub kind: String,
    pub help: String,
    /// The names of its labels, except `le`.
    pub labels: BTreeSet<String>,
}

impl Numbers {
    /// Parses a text. Each family is declared once, with a help and a type, before its samples. No series
    /// occurs twice; counters end in `_total`; the buckets of a histogram rise to its count; the text ends
    /// with its mark.
    pub fn read(text: &str) -> Self {
        let body = text.strip_suffix("# EOF\n").expect("the mark of the end");
        let mut numbers = Self::default();
        let mut current = String::new();
        let mut helps = BTreeMap::new();
        for line in body.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').expect("a help");
                assert!(help.ends_with('.') && help.len() > 10, "{line}");
                assert!(helps.insert(name, help.to_owned()).is_none(), "{name} stands twice");
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').expect("a type");
                let help = helps.get(name).expect("the help comes first").clone();
                let family = Family { kind: kind.to_owned(), help, labels: BTreeSet::new() };
                assert!(numbers.families.insert(name.to_owned(), family).is_none(), "{name} stands twice");
                current = name.to_owned();
            } else if let Some(rest) = line.strip_prefix("# UNIT ") {
                let (name, unit) = rest.split_once(' ').expect("a unit");
                assert!(name == current && name.ends_with(&format!("_{unit}")), "{line}");
            } else {
                numbers.sample(&current, line);
            }
        }
        numbers.check_histograms();
        numbers
    }

    fn sample(&mut self, current: &str, line: &str) {
        let (name, mut rest) = line.split_at(line.find(['{', ' ']).expect("a value"));
        let mut labels = BTreeMap::new();
        if let Some(inside) = rest.strip_prefix('{') {
            rest = read_labels(inside, &mut labels);
        }
        let value: f64 = rest.strip_prefix(' ').and_then(|value| value.parse().ok()).expect("a number");
        assert!(value >= 0.0, "{line}");
        let family = self.families.get_mut(current).expect("a family");
        let suffix = name.strip_prefix(current).unwrap_or_else(|| panic!("{line} stands under {current}"));
        let suffixes: &[&str] = match family.kind.as_str() {
            "counter" => &["_total"],
            "gauge" => &[""],
            "histogram" => &["_bucket", "_sum", "_count"],
            "info" => &["_info"],
            other => panic!("the host has no metrics of type {other}"),
        };
        assert!(suffixes.contains(&suffix), "{line}");
        family.labels.extend(labels.keys().filter(|label| *label != "le").cloned());
        let shown: Vec<String> = labels.iter().map(|(label, value)| format!("{label}=\"{value}\"")).collect();
        let series = format!("{name}{{{}}}", shown.join(","));
        assert!(self.series.insert(series, value).is_none(), "{line} stands twice");
    }

    fn check_histograms(&self) {
        for (series, count) in self.series.iter().filter(|(series, _)| series.contains("_count{")) {
            let (name, labels) = series.split_once("_count{").expect("it is a count");
            let labels = labels.trim_end_matches('}');
            let own = |series: &str| {
                let of = series.strip_prefix(name)?.strip_prefix("_bucket{")?.strip_suffix('}')?;
                let (le, others): (Vec<_>, Vec<_>) =
                    of.split(',').partition(|label| label.starts_with("le="));
                let bound = le.first()?.strip_prefix("le=\"")?.strip_suffix('"')?.parse::<f64>().ok()?;
                (others.join(",") == labels).then_some(bound)
            };
            let mut buckets: Vec<(f64, f64)> =
                self.series.iter().filter_map(|(series, value)| Some((own(series)?, *value))).collect();
            buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
            assert!(buckets.is_sorted_by_key(|(_, count)| *count), "{series}: {buckets:?}");
            let last = buckets.last().expect("buckets");
            assert_eq!((last.0, last.1), (f64::INFINITY, *count), "{series}: the last holds everything");
            assert!(self.series.contains_key(&format!("{name}_sum{{{labels}}}")), "{series} has no sum");
        }
    }

    /// The value of a series that must exist.
    pub fn get(&self, series: &str) -> f64 {
        *self.series.get(series).unwrap_or_else(|| panic!("{series} is not among {:#?}", self.series))
    }
}

/// Parses labels up to the closing brace; returns the rest of the text.
fn read_labels<'a>(mut text: &'a str, labels: &mut BTreeMap<String, String>) -> &'a str {
    loop {
        if let Some(rest) = text.strip_prefix('}') {
            return rest;
        }
        let (name, rest) = text.split_once("=\"").expect("a label");
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
        let mut escaped = false;
        let end = rest.find(|c| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        let (value, rest) = rest.split_at(end.expect("a value ends"));
        assert!(labels.insert(name.to_owned(), value.to_owned()).is_none(), "{name} stands twice");
        text = &rest[1..];
        text = text.strip_prefix(',').unwrap_or(text);
    }
}

#[test]
fn what_is_wrong_is_refused() {
    let right = "# HELP a Some things here.\n# TYPE a counter\na_total{b=\"c\\\"d,e\"} 1\n# EOF\n";
    let numbers = Numbers::read(right);
    assert_eq!(numbers.get(r#"a_total{b="c\"d,e"}"#), 1.0);
    let twice = right.replace("# EOF", "a_total{b=\"c\\\"d,e\"} 2\n# EOF");
    let untyped = "# HELP a Some things here.\na_total 1\n# EOF\n";
    let unended = right.replace("# EOF\n", "");
    let bare = right.replace("a_total", "a");
    for text in [twice.as_str(), untyped, &unended, &bare] {
        assert!(std::panic::catch_unwind(|| Numbers::read(text)).is_err(), "{text}");
    }
}
