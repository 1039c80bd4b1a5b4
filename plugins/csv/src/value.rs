//! Parses a field.

/// A parsed field, with the value for statistics.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'t> {
    Missing,
    Integer(f64),
    Number(f64),
    Boolean,
    /// The key sorts like the date.
    Date(DateKey),
    Text(&'t str),
}

/// Year, month, day, and the time as seconds of the day.
pub type DateKey = (u16, u8, u8, u32);

/// Parses one field.
pub fn read(field: &str) -> Value<'_> {
    let field = field.trim();
    if is_missing(field) {
        return Value::Missing;
    }
    if let Some(number) = read_number(field) {
        return number;
    }
    if ["true", "false", "yes", "no"].iter().any(|word| field.eq_ignore_ascii_case(word)) {
        return Value::Boolean;
    }
    read_date(field).map_or(Value::Text(field), Value::Date)
}

fn is_missing(field: &str) -> bool {
    field.is_empty() || ["na", "n/a", "nan", "null"].iter().any(|word| field.eq_ignore_ascii_case(word))
}

/// Accepts decimal notation only: Rust would also parse `inf` as a number. `007` is a code and not a number,
/// so its mean would make no sense.
fn read_number(field: &str) -> Option<Value<'static>> {
    let digits = field.strip_prefix(['+', '-']).unwrap_or(field);
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    let starts_well = digits.starts_with(|first: char| first.is_ascii_digit() || first == '.');
    let padded = digits.len() > 1 && digits.starts_with('0') && digits.as_bytes()[1].is_ascii_digit();
    if !starts_well || padded {
        return None;
    }
    let number: f64 = field.parse().ok().filter(|number: &f64| number.is_finite())?;
    Some(if plain { Value::Integer(number) } else { Value::Number(number) })
}

/// Accepts `2026-11-21`, `2026/11/21` or `21.11.2026`, alone or followed by a time such as `T12:30` or `
/// 12:30:59.5` and a time zone. Dates with slashes and the year last are ambiguous, so they stay texts.
fn read_date(field: &str) -> Option<DateKey> {
    let date = field.get(..10)?;
    let separator = |at: usize| date.as_bytes()[at];
    let number = |from: usize, to: usize| {
        let part = date.get(from..to).filter(|part| part.bytes().all(|byte| byte.is_ascii_digit()))?;
        part.parse::<u16>().ok()
    };
    let (year, month, day) = match (separator(2), separator(4), separator(5), separator(7)) {
        (_, b'-', _, b'-') | (_, b'/', _, b'/') => (number(0, 4)?, number(5, 7)?, number(8, 10)?),
        (b'.', _, b'.', _) => (number(6, 10)?, number(3, 5)?, number(0, 2)?),
        _ => return None,
    };
    let (month, day) = (u8::try_from(month).ok()?, u8::try_from(day).ok()?);
    if !(1..=12).contains(&month) || !(1..=days_in(year, month)).contains(&day) {
        return None;
    }
    Some((year, month, day, read_time(&field[10..])?))
}

fn days_in(year: u16, month: u8) -> u8 {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Seconds of the day; an empty text is midnight. The zone's form is checked, but its value is ignored,
/// because a column usually has one zone.
fn read_time(rest: &str) -> Option<u32> {
    if rest.is_empty() {
        return Some(0);
    }
    let time = rest.strip_prefix(['T', 't', ' '])?;
    let end = time.find(|c: char| !c.is_ascii_digit() && c != ':' && c != '.').unwrap_or(time.len());
    let (clock, zone) = time.split_at(end);
    let zone_fits = match zone.trim_start() {
        "" | "Z" | "z" | "UTC" => true,
        offset => offset.strip_prefix(['+', '-']).is_some_and(|offset| {
            matches!(offset.len(), 2 | 4 | 5)
                && offset.bytes().all(|byte| byte.is_ascii_digit() || byte == b':')
        }),
    };
    let whole = clock.split_once('.').map_or(clock, |(whole, _)| whole);
    let mut parts = whole.split(':').map(|part| part.parse::<u32>().ok().filter(|_| part.len() == 2));
    let hours = parts.next()??;
    let minutes = parts.next()??;
    let seconds = parts.next().unwrap_or(Some(0))?;
    let fits = hours < 24 && minutes < 60 && seconds <= 60 && parts.next().is_none();
    (zone_fits && fits).then_some(hours * 3_600 + minutes * 60 + seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_by_their_look() {
        for field in ["", "  ", "NA", "n/a", "NaN", "null", "NULL"] {
            assert_eq!(read(field), Value::Missing, "{field:?}");
        }
        for (field, number) in [("0", 0.0), ("-7", -7.0), ("+12", 12.0), (" 42 ", 42.0), ("-0", -0.0)] {
            assert_eq!(read(field), Value::Integer(number), "{field:?}");
        }
        for (field, number) in [("0.5", 0.5), (".5", 0.5), ("-1e3", -1000.0), ("5.", 5.0), ("1E-2", 0.01)] {
            assert_eq!(read(field), Value::Number(number), "{field:?}");
        }
        for field in ["true", "False", "YES", "no"] {
            assert_eq!(read(field), Value::Boolean, "{field:?}");
        }
        for (field, key) in [
            ("2026-11-21", (2026, 11, 21, 0)),
            ("2026/01/02", (2026, 1, 2, 0)),
            ("21.11.2026", (2026, 11, 21, 0)),
            ("2024-02-29", (2024, 2, 29, 0)),
            ("2026-11-21T01:02", (2026, 11, 21, 3_720)),
            ("2026-11-21 00:00:59.25", (2026, 11, 21, 59)),
            ("2026-11-21T10:00:00Z", (2026, 11, 21, 36_000)),
            ("2026-11-21T10:00:00+02:00", (2026, 11, 21, 36_000)),
            ("2026-11-21 10:00 -0530", (2026, 11, 21, 36_000)),
        ] {
            assert_eq!(read(field), Value::Date(key), "{field:?}");
        }
    }

    #[test]
    fn all_else_is_text() {
        let fields = "a|007|-01|00.5|inf|-Infinity|1,5|1e999|--1|1 2|0x10|e5|.|2026-13-01|2026-02-30|2025-02-29|\
            1900-02-29|12/31/2026|2026-11-21x|2026-11-21T25:00|2026-11-21T10|2026-11-21T10:00:00:00|\
            2026-11-21T1:00|2026-11-2ä|äääääääääää|tru";
        for field in fields.split('|') {
            assert_eq!(read(field), Value::Text(field), "{field:?}");
        }
    }
}
