//! The dialect of a CSV text: its delimiter, and whether it has a header.

use std::collections::{HashMap, HashSet};

use csv::{ReaderBuilder, StringRecord};

use crate::value::{self, Value};

/// The delimiters that are tried. If two fit equally well, the earlier one wins, because it is rarer within
/// values.
const DELIMITERS: [u8; 4] = [b'\t', b'|', b';', b','];

/// The delimiter if the text has none.
const USUAL: u8 = b',';

/// The number of rows that are read to find the delimiter.
const ROWS_LOOKED_AT: usize = 100;

/// The dialect of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dialect {
    pub delimiter: u8,
    pub header: bool,
}

impl Dialect {
    /// Uses what the caller gives, and detects the rest.
    pub fn settle(text: &str, delimiter: Option<&str>, header: Option<bool>) -> Result<Self, String> {
        let delimiter = match delimiter {
            None => sniff_delimiter(text),
            Some(given) => match given.as_bytes() {
                [b'"' | b'\r' | b'\n'] => return Err("Quotes and line ends cannot part fields.".to_owned()),
                [byte] if byte.is_ascii() => *byte,
                _ => return Err(format!("The delimiter must be one ASCII character, not {given:?}.")),
            },
        };
        let header = header.unwrap_or_else(|| first_row_is_header(text, delimiter));
        Ok(Self { delimiter, header })
    }
}

/// The reader that this plugin uses everywhere: rows of any length, nothing skipped.
pub fn reader(text: &str, delimiter: u8) -> csv::Reader<&[u8]> {
    // Spreadsheets write a byte order mark first, which does not belong to a column name.
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
    ReaderBuilder::new().delimiter(delimiter).has_headers(false).flexible(true).from_reader(text.as_bytes())
}

/// The delimiter for which the largest share of the first rows has the same number of fields, more than one.
fn sniff_delimiter(text: &str) -> u8 {
    let mut best = (USUAL, (0, 0));
    for delimiter in DELIMITERS {
        let score = evenness(text, delimiter);
        if score > best.1 {
            best = (delimiter, score);
        }
    }
    best.0
}

/// The percentage of rows with the most frequent length, and that length. A length of one counts as nothing.
fn evenness(text: &str, delimiter: u8) -> (usize, usize) {
    let mut lengths: HashMap<usize, usize> = HashMap::new();
    let mut rows = 0;
    for record in reader(text, delimiter).records().take(ROWS_LOOKED_AT).flatten() {
        *lengths.entry(record.len()).or_default() += 1;
        rows += 1;
    }
    lengths
        .into_iter()
        .filter(|(length, _)| *length > 1)
        .map(|(length, count)| (count * 100 / rows, length))
        .max()
        .unwrap_or_default()
}

/// A header consists of texts, none of them empty, no two equal.
fn first_row_is_header(text: &str, delimiter: u8) -> bool {
    let mut record = StringRecord::new();
    if !matches!(reader(text, delimiter).read_record(&mut record), Ok(true)) {
        return false;
    }
    let mut seen = HashSet::new();
    record.iter().all(|field| matches!(value::read(field), Value::Text(name) if seen.insert(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_delimiter() {
        let cases = [
            ("a,b\n1,2\n", b','),
            ("a;b\n1,5;2,5\n3,5;4,5\n", b';'),
            ("a\tb, c\n1\t2, 3\n", b'\t'),
            ("1,5;2\n2,5;3\n", b';'),
            ("a,b,c|d\n1,2,3|4\n", b','),
            ("a|b|c\n1|2|3\n", b'|'),
            ("\"x;y;z\",b\n\"1;2;3\",2\n", b','),
            ("name; note\nA; one, two\nB; three\nC; four, five, six\n", b';'),
            ("single\nvalues\n", b','),
            ("", b','),
        ];
        for (text, delimiter) in cases {
            assert_eq!(sniff_delimiter(text), delimiter, "{text:?}");
        }
    }

    #[test]
    fn finds_the_header() {
        let cases = [
            ("a,b\n1,2\n", true),
            ("1,2\n3,4\n", false),
            ("a,a\n1,2\n", false),
            ("a,\n1,2\n", false),
            ("name,2026-01-01\n", false),
            ("", false),
        ];
        for (text, header) in cases {
            assert_eq!(first_row_is_header(text, b','), header, "{text:?}");
        }
    }

    #[test]
    fn what_the_caller_says_wins_unless_it_is_no_delimiter() {
        let dialect = Dialect::settle("a,b\n1,2\n", Some(";"), Some(false));
        assert_eq!(dialect, Ok(Dialect { delimiter: b';', header: false }));
        for delimiter in ["", "ab", "ä", "\"", "\n"] {
            assert!(Dialect::settle("", Some(delimiter), None).is_err(), "{delimiter:?}");
        }
    }
}
