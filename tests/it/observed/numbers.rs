//! Reads OpenMetrics text. The official parser checks its form
//! (`the_official_parser_reads_the_numbers_strictly`).

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
#[derive(Default)]
pub struct Family {
    pub kind: String,
    pub help: String,
    /// The names of its labels, except `le`.
    pub labels: BTreeSet<String>,
}

impl Numbers {
    pub fn read(text: &str) -> Self {
        let mut numbers = Self::default();
        let mut current = String::new();
        for line in text.lines() {
            if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
                assert!(help.ends_with('.') && help.len() > 10, "{line}");
                numbers.families.entry(name.to_owned()).or_default().help = help.to_owned();
            } else if let Some((name, kind)) =
                line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
            {
                numbers.families.entry(name.to_owned()).or_default().kind = kind.to_owned();
                name.clone_into(&mut current);
            } else if !line.starts_with('#') {
                numbers.sample(&current, line);
            }
        }
        numbers
    }

    fn sample(&mut self, current: &str, line: &str) {
        let (series, value) = line.rsplit_once(' ').expect("a value");
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let mut labels: Vec<&str> =
            labels.trim_end_matches('}').split(',').filter(|label| !label.is_empty()).collect();
        labels.sort_unstable();
        let family = self.families.get_mut(current).expect("a family");
        let names = labels.iter().filter_map(|label| label.split_once('=')).map(|(name, _)| name.to_owned());
        family.labels.extend(names.filter(|name| name != "le"));
        let series = format!("{name}{{{}}}", labels.join(","));
        assert!(
            self.series.insert(series, value.parse().expect("a number")).is_none(),
            "{line} stands twice"
        );
    }

    /// The value of a series that must exist.
    pub fn get(&self, series: &str) -> f64 {
        *self.series.get(series).unwrap_or_else(|| panic!("{series} is not among {:#?}", self.series))
    }
}
