//! TOML with places: every complaint names the key and its line.

use crate::error::ManifestError;
use bytesize::ByteSize;
use jiff::SignedDuration;
use serde_json::Value;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

/// The longest key that is compared with the valid ones: the time of a comparison grows with it.
const MAX_SUGGESTED_BYTES: usize = 24;

/// A table of the manifest.
pub(super) struct Section<'a> {
    at: Place<'a>,
    table: &'a DeTable<'a>,
    path: Option<Rc<Path<'a>>>,
}

/// One key and its value.
pub(super) struct Entry<'a> {
    at: Place<'a>,
    key: &'a Spanned<DeString<'a>>,
    value: &'a Spanned<DeValue<'a>>,
    path: Rc<Path<'a>>,
    /// Where complaints about it point to.
    start: usize,
}

/// The keys that lead to a value. Written out only for an error: keys can be long, and entries many.
struct Path<'a> {
    parent: Option<Rc<Self>>,
    step: Step<'a>,
}

enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = &self.parent {
            parent.fmt(f)?;
        }
        match self.step {
            Step::Key(key) if self.parent.is_none() => f.write_str(key),
            Step::Key(key) => write!(f, ".{key}"),
            Step::Index(index) => write!(f, "[{index}]"),
        }
    }
}

#[derive(Clone, Copy)]
struct Place<'a> {
    file: &'a str,
    /// The places of the ends of lines, in order.
    ends: &'a [usize],
}

impl Place<'_> {
    fn error(self, at: Option<usize>, what: String) -> ManifestError {
        ManifestError { file: self.file.to_owned(), line: self.line(at), what }
    }

    fn line(self, at: Option<usize>) -> Option<usize> {
        at.map(|at| 1 + self.ends.partition_point(|end| *end < at))
    }
}

/// Parses `text` and hands its top table to `read`.
pub(super) fn sections<T>(
    file: &str,
    text: &str,
    read: impl FnOnce(Section<'_>) -> Result<T, ManifestError>,
) -> Result<T, ManifestError> {
    let ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at).collect();
    let at = Place { file, ends: &ends };
    let table = DeTable::parse(text).map_err(|error| {
        at.error(error.span().map(|span| span.start), format!("is not TOML: {}", error.message()))
    })?;
    read(Section { at, table: table.get_ref(), path: None })
}

impl<'a> Section<'a> {
    pub fn entries(&self) -> impl Iterator<Item = Entry<'a>> + use<'a> {
        let at = self.at;
        let parent = self.path.clone();
        self.table.iter().map(move |(key, value)| {
            let path = Rc::new(Path { parent: parent.clone(), step: Step::Key(key.get_ref()) });
            Entry { at, key, value, path, start: key.span().start }
        })
    }

    /// The table as a JSON object.
    pub fn json(&self) -> Value {
        self.table.iter().map(|(key, value)| (key.get_ref().to_string(), json(value.get_ref()))).collect()
    }
}

fn json(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => text.as_ref().into(),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or_else(|_| Value::from(number.as_str()), Value::from),
        DeValue::Float(number) => number.as_str().parse::<f64>().map_or(Value::Null, Value::from),
        DeValue::Boolean(boolean) => (*boolean).into(),
        DeValue::Datetime(moment) => moment.to_string().into(),
        DeValue::Array(items) => items.iter().map(|item| json(item.get_ref())).collect(),
        DeValue::Table(table) => {
            table.iter().map(|(key, value)| (key.get_ref().to_string(), json(value.get_ref()))).collect()
        }
    }
}

impl<'a> Entry<'a> {
    pub fn key(&self) -> &'a str {
        self.key.get_ref()
    }

    /// The line that the key, or the item, is on.
    pub fn line(&self) -> Option<usize> {
        self.at.line(Some(self.start))
    }

    /// The items of an array, at most so many.
    pub fn items(&self, most: usize) -> Result<Vec<Self>, ManifestError> {
        let items = self.value.get_ref().as_array().ok_or_else(|| self.expected("an array"))?;
        if items.len() > most {
            return Err(self.expected(&format!("at most {most} items")));
        }
        let item = |(index, value): (usize, &'a Spanned<DeValue<'a>>)| Self {
            at: self.at,
            key: self.key,
            value,
            path: Rc::new(Path { parent: Some(self.path.clone()), step: Step::Index(index) }),
            start: value.span().start,
        };
        Ok(items.iter().enumerate().map(item).collect())
    }

    pub fn is_table(&self) -> bool {
        self.value.get_ref().is_table()
    }

    pub fn boolean(&self) -> Result<bool, ManifestError> {
        self.value.get_ref().as_bool().ok_or_else(|| self.expected("true or false"))
    }

    pub fn text(&self) -> Result<&'a str, ManifestError> {
        self.value.get_ref().as_str().ok_or_else(|| self.expected("text in quotes"))
    }

    /// Text of at most so many bytes.
    pub fn text_of(&self, most: usize) -> Result<String, ManifestError> {
        let text = self.text()?;
        if text.len() > most {
            Err(self.expected(&format!("at most {most} bytes")))
        } else {
            Ok(text.to_owned())
        }
    }

    pub fn section(&self) -> Result<Section<'a>, ManifestError> {
        let table = self.value.get_ref().as_table().ok_or_else(|| self.expected("a table"))?;
        Ok(Section { at: self.at, table, path: Some(self.path.clone()) })
    }

    pub fn number(&self, least: u64, most: u64) -> Result<u64, ManifestError> {
        let number = self.value.get_ref().as_integer();
        let number = number.and_then(|number| u64::from_str_radix(number.as_str(), number.radix()).ok());
        let number = number.filter(|number| (least..=most).contains(number));
        number.ok_or_else(|| self.expected(&format!("a whole number from {least} to {most}")))
    }

    /// A size such as `"64MiB"`.
    pub fn size(&self, least: u64, most: u64) -> Result<u64, ManifestError> {
        let size = self.value.get_ref().as_str().and_then(|text| text.parse::<ByteSize>().ok());
        let size = size.map(|size| size.as_u64()).filter(|size| (least..=most).contains(size));
        size.ok_or_else(|| {
            let shown = |bytes| ByteSize::b(bytes).display().iec().to_string();
            self.expected(&format!("a size such as \"64MiB\", from {} to {}", shown(least), shown(most)))
        })
    }

    /// A time such as `"30s"`, above zero.
    pub fn duration(&self) -> Result<Duration, ManifestError> {
        let time = self.parsed_time().filter(|time| *time >= Duration::from_millis(1));
        time.ok_or_else(|| self.expected("a time such as \"30s\" or \"10min\", at least 1ms"))
    }

    /// A time such as `"2s"`, or `"0s"`.
    pub fn time(&self) -> Result<Duration, ManifestError> {
        self.parsed_time().ok_or_else(|| self.expected("a time such as \"2s\", or \"0s\""))
    }

    fn parsed_time(&self) -> Option<Duration> {
        let time = self.value.get_ref().as_str()?.parse::<SignedDuration>().ok()?;
        Duration::try_from(time).ok()
    }

    pub fn expected(&self, what: &str) -> ManifestError {
        let found = self.value.get_ref().type_str();
        self.at
            .error(Some(self.value.span().start), format!("`{}`: expected {what}, found {found}", self.path))
    }

    pub fn error(&self, what: String) -> ManifestError {
        self.at.error(Some(self.start), format!("`{}`: {what}", self.path))
    }

    /// No such key; the valid one that looks most like it is named.
    pub fn unknown(&self, valid: &[&str]) -> ManifestError {
        let key = self.key();
        let nearest =
            (key.len() <= MAX_SUGGESTED_BYTES).then(|| nearest(key, valid.iter().copied())).flatten();
        self.error(match nearest {
            Some(nearest) => format!("is not a key of a manifest; the nearest is `{nearest}`"),
            None => "is not a key of a manifest".to_owned(),
        })
    }
}

/// The known name that takes the fewest changes of letters to be `name`; `None` if there are no names.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known.into_iter().min_by_key(|known| strsim::damerau_levenshtein(known, name))
}
