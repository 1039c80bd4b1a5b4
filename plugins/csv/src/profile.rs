//! Reads the whole text.

use csv::StringRecord;

use crate::column::{Column, Summary};
use crate::dialect::{Dialect, reader};

/// The most columns. A text with more is not a table, and its result would be unreadable.
const MOST_COLUMNS: usize = 1_000;

/// The number of rows between two progress reports.
const ROWS_PER_REPORT: u64 = 1_000;

/// The number of ragged rows that the result names.
const MOST_EXAMPLES: usize = 10;

/// The profile of a text.
#[derive(Debug, PartialEq)]
pub struct Profile {
    pub dialect: Dialect,
    pub rows: u64,
    pub columns: Vec<(String, Summary)>,
    pub ragged: Ragged,
}

/// Rows with a different number of fields than there are columns.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Ragged {
    pub count: u64,
    /// The line and number of fields of the first few such rows.
    pub examples: Vec<(u64, usize)>,
}

/// The progress of the reading.
pub struct Progress {
    pub bytes: u64,
    pub rows: u64,
}

/// Profiles a text. `stop` receives the progress from time to time, and returns whether to give up. The error
/// is a message for the caller.
pub fn profile(
    text: &str,
    dialect: Dialect,
    top: usize,
    stop: &mut dyn FnMut(Progress) -> bool,
) -> Result<Profile, String> {
    let mut reader = reader(text, dialect.delimiter);
    let mut record = StringRecord::new();
    let mut read = |record: &mut StringRecord| {
        let more =
            reader.read_record(record).map_err(|error| format!("The text cannot be read: {error}."))?;
        Ok::<_, String>((more, reader.position().byte()))
    };

    let (mut more, mut bytes) = read(&mut record)?;
    let mut columns = name_columns(&record, dialect.header)?;
    if dialect.header && more {
        (more, bytes) = read(&mut record)?;
    }
    let mut rows = 0;
    let mut ragged = Ragged::default();
    while more {
        rows += 1;
        ragged.note(&record, columns.len());
        for (index, (_, column)) in columns.iter_mut().enumerate() {
            match record.get(index) {
                Some(field) => column.add(field),
                None => column.add_missing(),
            }
        }
        if rows % ROWS_PER_REPORT == 0 && stop(Progress { bytes, rows }) {
            return Err(format!("Stopped from outside after {rows} rows."));
        }
        (more, bytes) = read(&mut record)?;
    }
    let columns = columns.into_iter().map(|(name, column)| (name, column.finish(top))).collect();
    Ok(Profile { dialect, rows, columns, ragged })
}

/// Makes one column for each field of the first row. Columns without a name in the header are named by their
/// position.
fn name_columns(first: &StringRecord, header: bool) -> Result<Vec<(String, Column)>, String> {
    if first.len() > MOST_COLUMNS {
        return Err(format!(
            "The first row has {} fields; at most {MOST_COLUMNS} are profiled.",
            first.len()
        ));
    }
    let name = |(index, field): (usize, &str)| {
        let given = if header { field.trim() } else { "" };
        let name = if given.is_empty() { format!("column_{}", index + 1) } else { given.to_owned() };
        (name, Column::default())
    };
    Ok(first.iter().enumerate().map(name).collect())
}

impl Ragged {
    fn note(&mut self, record: &StringRecord, columns: usize) {
        if record.len() != columns {
            self.count += 1;
            if self.examples.len() < MOST_EXAMPLES {
                let line = record.position().map_or(0, csv::Position::line);
                self.examples.push((line, record.len()));
            }
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::column::Kind;

    pub const SALES: &str =
        "day,amount,paid,note\n2026-01-02,10,yes,a|b\n2026-01-01,20.5,no,\n2026-01-03,NA,yes,\"c\nd\"\n";

    /// A profile with five top values, in the dialect that the text has by its look.
    pub fn profiled(text: &str) -> Profile {
        let dialect = Dialect::settle(text, None, None).expect("no delimiter is given");
        profiled_as(dialect, text)
    }

    fn profiled_as(dialect: Dialect, text: &str) -> Profile {
        profile(text, dialect, 5, &mut |_| false).expect("the text can be read")
    }

    fn names(profile: &Profile) -> Vec<&str> {
        profile.columns.iter().map(|(name, _)| name.as_str()).collect()
    }

    #[test]
    fn columns_are_named_by_the_header_or_numbered() {
        let profile = profiled("\u{FEFF}city, pop\nA,1\nB,2\n");
        assert_eq!((names(&profile), profile.rows), (vec!["city", "pop"], 2));
        assert!(matches!(profile.columns[0].1.kind, Kind::Text { .. }));
        assert!(matches!(profile.columns[1].1.kind, Kind::Integer(_)));
        let profile = profiled("1,2\n3,4\n");
        assert_eq!((names(&profile), profile.rows), (vec!["column_1", "column_2"], 2));
        let header = Dialect { delimiter: b',', header: true };
        assert_eq!(names(&profiled_as(header, "a,,c\n1,2,3\n")), ["a", "column_2", "c"]);
    }

    #[test]
    fn quoted_fields_may_hold_anything() {
        let profile = profiled("a,b\n\"x, y\",\"line 1\nline 2\"\n\"say \"\"hi\"\"\",z\n");
        assert_eq!((profile.rows, profile.ragged.count), (2, 0));
        assert_eq!(profile.columns[0].1.top[0].0, "say \"hi\"");
    }

    #[test]
    fn ragged_rows_are_named_and_counted() {
        let profile = profiled("a,b\n1,2\n3\n4,5,6\n");
        assert_eq!(profile.ragged, Ragged { count: 2, examples: vec![(3, 1), (4, 3)] });
        assert_eq!(profile.columns[1].1.missing, 1);
        let many = format!("a,b\n{}", "1\n".repeat(50));
        let ragged = profiled(&many).ragged;
        assert_eq!((ragged.count, ragged.examples.len()), (50, MOST_EXAMPLES));
    }

    #[test]
    fn empty_texts_have_no_columns() {
        for text in ["", "\n", "\u{FEFF}"] {
            let profile = profiled(text);
            assert_eq!((profile.rows, profile.columns.len()), (0, 0), "{text:?}");
        }
        assert_eq!(names(&profiled("only,header\n")), ["only", "header"]);
    }

    #[test]
    fn wide_texts_are_refused() {
        let text = ",".repeat(MOST_COLUMNS);
        let dialect = Dialect { delimiter: b',', header: false };
        let message = profile(&text, dialect, 5, &mut |_| false).expect_err("too wide");
        assert!(message.contains("1001 fields"));
    }

    #[test]
    fn progress_rises_and_can_stop() {
        let text = format!("a,b\n{}", "1,2\n".repeat(5_000));
        let dialect = Dialect { delimiter: b',', header: true };
        let mut seen = Vec::new();
        let done = profile(&text, dialect, 5, &mut |Progress { bytes, rows }| {
            seen.push((bytes, rows));
            false
        });
        assert_eq!(done.expect("it is not stopped").rows, 5_000);
        assert_eq!(seen.len(), 5);
        assert!(seen.is_sorted() && seen.iter().all(|(bytes, _)| *bytes <= text.len() as u64));

        let stopped = profile(&text, dialect, 5, &mut |progress| progress.rows == 2_000);
        assert_eq!(stopped, Err("Stopped from outside after 2000 rows.".to_owned()));
    }
}
