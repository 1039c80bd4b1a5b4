//! Value types that several sections use.

use bytesize::ByteSize;
use jiff::SignedDuration;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Unexpected, Visitor};
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;
use std::time::Duration;

/// Reads text. `parse` returns `None` if the text is not as `expected`.
pub(crate) fn text<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    expected: &str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<T, D::Error> {
    struct Text<'a, F>(&'a str, F);

    impl<T, F: FnOnce(&str) -> Option<T>> Visitor<'_> for Text<'_, F> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
            (self.1)(text).ok_or_else(|| E::invalid_value(Unexpected::Other("text"), &self.0))
        }
    }

    deserializer.deserialize_str(Text(expected, parse))
}

/// Reads text. `parse` returns a sentence as its error.
pub(crate) fn parsed<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, D::Error> {
    text(deserializer, "text in quotes", |text| Some(parse(text)))?.map_err(D::Error::custom)
}

/// Reads text of at most `most` bytes for which `fits` holds. `expected` describes it.
pub(crate) fn bounded<'de, D: Deserializer<'de>>(
    deserializer: D,
    most: usize,
    expected: &str,
    fits: impl FnOnce(&str) -> bool,
) -> Result<String, D::Error> {
    let text =
        text(deserializer, expected, |text| (text.len() > most || fits(text)).then(|| text.to_owned()))?;
    if text.len() > most {
        return Err(D::Error::invalid_length(text.len(), &format!("at most {most} bytes").as_str()));
    }
    Ok(text)
}

/// Text of at most `MAX` bytes.
pub(crate) fn text_of<'de, const MAX: usize, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<String>, D::Error> {
    bounded(deserializer, MAX, "text in quotes", |_| true).map(Some)
}

/// An array of at most `MAX` items.
pub(crate) fn list<'de, const MAX: usize, D, T, O>(deserializer: D) -> Result<O, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
    O: From<Vec<T>>,
{
    let items = Vec::deserialize(deserializer)?;
    if items.len() > MAX {
        return Err(D::Error::invalid_length(items.len(), &format!("at most {MAX} items").as_str()));
    }
    Ok(items.into())
}

/// A time such as `"2s"`, or `"0s"`.
pub(crate) fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    text(deserializer, "a time such as \"2s\", or \"0s\"", parse_time).map(Some)
}

/// A time such as `"30s"`, above zero.
pub(crate) fn positive_time<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    text(deserializer, "a time such as \"30s\" or \"10min\", at least 1ms", |text| {
        parse_time(text).filter(|time| *time >= Duration::from_millis(1))
    })
    .map(Some)
}

fn parse_time(text: &str) -> Option<Duration> {
    Duration::try_from(text.parse::<SignedDuration>().ok()?).ok()
}

/// A whole number within the bounds.
pub(crate) struct Count<const MIN: u64, const MAX: u64>(pub u64);

impl<'de, const MIN: u64, const MAX: u64> Deserialize<'de> for Count<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Number<const MIN: u64, const MAX: u64>;

        impl<const MIN: u64, const MAX: u64> Visitor<'_> for Number<MIN, MAX> {
            type Value = Count<MIN, MAX>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a whole number from {MIN} to {MAX}")
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
                let number = u64::try_from(number).ok().filter(|number| (MIN..=MAX).contains(number));
                number.map(Count).ok_or_else(|| E::invalid_value(Unexpected::Other("number"), &self))
            }
        }

        deserializer.deserialize_u64(Number)
    }
}

/// A size such as `"64MiB"`, in bytes.
pub(crate) struct Bytes<const MIN: u64, const MAX: u64>(pub u64);

impl<'de, const MIN: u64, const MAX: u64> Deserialize<'de> for Bytes<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let shown = |bytes| ByteSize::b(bytes).display().iec().to_string();
        match text(deserializer, "a size such as \"64MiB\"", |text| {
            Some(text.parse::<ByteSize>().ok()?.as_u64())
        })? {
            size if size > MAX => {
                Err(D::Error::custom(format!("{} is more than {}", shown(size), shown(MAX))))
            }
            size if size < MIN => {
                Err(D::Error::custom(format!("{} is less than {}", shown(size), shown(MIN))))
            }
            size => Ok(Self(size)),
        }
    }
}

/// A time such as `"30s"`, in milliseconds. The bounds serve only the documentation: a manifest may
/// set any time from 1ms.
pub(crate) struct Time<const MIN: u64, const MAX: u64>(pub u64);

impl<'de, const MIN: u64, const MAX: u64> Deserialize<'de> for Time<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let time = positive_time(deserializer)?.unwrap_or_default();
        Ok(Self(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)))
    }
}

/// A table, or text that is a short form of it.
pub(crate) struct TextOrTable<T>(pub T);

impl<'de, T: Deserialize<'de> + FromStr<Err = String>> Deserialize<'de> for TextOrTable<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de> + FromStr<Err = String>> Visitor<'de> for Either<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text in quotes or a table")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(members))
            }
        }

        deserializer.deserialize_str(Either(PhantomData)).map(Self)
    }
}
