//! How one number can be written, and which numbers a reader can take a text for.
//!
//! Readers differ: most give the exact value of an integer, JavaScript the nearest 64-bit
//! float, and quick parsers of floats miss the nearest one by a unit or two of the last
//! place. A rule looks at all of these values.

use std::fmt::Write as _;

/// The most digits of a number written out. The rules treat a longer one as ambiguous.
const MAX_DIGITS: usize = 1_024;
/// Up to so many digits and powers of ten, every reader gives the nearest float.
const EXACT_DIGITS: usize = 15;
const EXACT_POWER: i64 = 22;
/// How many units of the last place a reader may miss a float by.
const MAX_ULPS: u32 = 2;

/// A decimal number: `digits` × 10^`exponent`, without zeros at either end; no digits is zero.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Decimal {
    is_negative: bool,
    digits: String,
    exponent: i64,
}

/// Whether the text is a number of the JSON grammar that a 64-bit float can hold and that is
/// not endlessly long.
pub(super) fn is_readable(text: &str) -> bool {
    is_short_integer(text) || Decimal::read(text).is_some() && text.parse::<f64>().is_ok_and(f64::is_finite)
}

/// The texts that must all match a rule that allows: the number as written, and in plain digits each
/// value that a reader may take it for.
pub(super) fn plain(text: &str) -> Vec<String> {
    let mut all = vec![text.to_owned()];
    if is_short_integer(text) && text != "-0" {
        return all;
    }
    for value in values(text) {
        add(&mut all, value.plain());
    }
    all
}

/// Most numbers are only digits, and few enough for every reader.
fn is_short_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text).as_bytes();
    digits.len() <= EXACT_DIGITS
        && digits.iter().all(u8::is_ascii_digit)
        && matches!(digits, [b'0'] | [b'1'..=b'9', ..])
}

/// The texts of which one match is enough for a rule that denies: every usual way to write each value
/// that a reader may take it for.
pub(super) fn spellings(text: &str) -> Vec<String> {
    let mut all = vec![text.to_owned()];
    for value in values(text) {
        value.spell(&mut all);
    }
    all
}

/// As [`spellings`], of a number that the guest gets as exactly this value.
pub(super) fn exact_spellings(text: &str) -> Vec<String> {
    let mut all = vec![text.to_owned()];
    if let Some(value) = Decimal::read(text) {
        value.spell(&mut all);
    }
    all
}

fn add(all: &mut Vec<String>, text: String) {
    if !all.contains(&text) {
        all.push(text);
    }
}

/// The values that a reader may take the text for.
fn values(text: &str) -> Vec<Decimal> {
    let Some(exact) = Decimal::read(text) else { return Vec::new() };
    let mut values = vec![exact];
    let Ok(nearest) = text.parse::<f64>() else { return values };
    let mut floats = vec![nearest];
    if !is_read_exactly(text, &values[0]) {
        let (mut above, mut below) = (nearest, nearest);
        for _ in 0..MAX_ULPS {
            (above, below) = (above.next_up(), below.next_down());
            floats.extend([above, below]);
        }
    }
    for float in floats.into_iter().filter(|float| float.is_finite()) {
        // As few digits as are needed. Two writers may choose different digits if there are several
        // ways.
        let written = [Some(float.to_string()), serde_json::to_string(&float).ok()];
        for value in written.iter().flatten().filter_map(|text| Decimal::read(text)) {
            if !values.contains(&value) {
                values.push(value);
            }
        }
    }
    values
}

/// Whether every reader of floats gives the nearest one.
fn is_read_exactly(text: &str, value: &Decimal) -> bool {
    let is_integer = !text.contains(['.', 'e', 'E']);
    // Integers are read as integers as long as 64 bits hold them.
    (is_integer && value.digits.len() as i64 + value.exponent <= 19)
        || (value.digits.len() <= EXACT_DIGITS && value.exponent.abs() <= EXACT_POWER)
}

impl Decimal {
    /// Reads a number of the JSON grammar.
    fn read(text: &str) -> Option<Self> {
        let (is_negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, Some(exponent)),
            None => (rest, None),
        };
        let (whole, fraction) = match mantissa.split_once('.') {
            Some((whole, fraction)) => (whole, Some(fraction)),
            None => (mantissa, None),
        };
        let are_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let has_leading_zero = whole.len() > 1 && whole.starts_with('0');
        if !are_digits(whole) || has_leading_zero || !fraction.is_none_or(are_digits) {
            return None;
        }
        let exponent = match exponent {
            None => Some(0),
            Some(text) => {
                let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
                if !are_digits(digits) {
                    return None;
                }
                // Only zero may have an exponent too large for 64 bits.
                text.parse::<i64>().ok().filter(|exponent| exponent.unsigned_abs() < 1 << 40)
            }
        };
        let fraction = fraction.unwrap_or_default();
        let digits = format!("{whole}{fraction}");
        let digits = digits.trim_start_matches('0');
        let kept = digits.trim_end_matches('0');
        if kept.is_empty() {
            return Some(Self { is_negative, digits: String::new(), exponent: 0 });
        }
        let exponent = exponent? - fraction.len() as i64 + (digits.len() - kept.len()) as i64;
        let written_out = kept.len() as u64 + exponent.unsigned_abs();
        (written_out <= MAX_DIGITS as u64).then(|| Self { is_negative, digits: kept.to_owned(), exponent })
    }

    fn sign(&self) -> &'static str {
        if self.is_negative && !self.digits.is_empty() { "-" } else { "" }
    }

    /// In plain digits, as few as are needed.
    fn plain(&self) -> String {
        let (sign, digits) = (self.sign(), &self.digits);
        let point = digits.len() as i64 + self.exponent;
        if digits.is_empty() {
            "0".to_owned()
        } else if self.exponent >= 0 {
            format!("{sign}{digits}{}", zeros(self.exponent))
        } else if point > 0 {
            let (whole, fraction) = digits.split_at(point as usize);
            format!("{sign}{whole}.{fraction}")
        } else {
            format!("{sign}0.{}{digits}", zeros(-point))
        }
    }

    /// All usual ways to write it: plain, with an empty fraction, and with an exponent as
    /// C, Java, JavaScript, Python and Rust write it.
    fn spell(&self, all: &mut Vec<String>) {
        let plain = self.plain();
        let is_whole = self.exponent >= 0;
        if is_whole {
            add(all, format!("{plain}.0"));
        }
        if self.digits.is_empty() {
            add(all, "-0".to_owned());
            add(all, "-0.0".to_owned());
        }
        add(all, plain);
        let sign = self.sign();
        let (first, rest) = self.digits.split_at(self.digits.len().min(1));
        let first = if first.is_empty() { "0" } else { first };
        let short = if rest.is_empty() { first.to_owned() } else { format!("{first}.{rest}") };
        let long = if rest.is_empty() { format!("{first}.0") } else { short.clone() };
        let power = if self.digits.is_empty() { 0 } else { self.exponent + self.digits.len() as i64 - 1 };
        let size = power.unsigned_abs();
        let signs: &[&str] = if power < 0 { &["-"] } else { &["", "+"] };
        for mantissa in [&short, &long] {
            for letter in ['e', 'E'] {
                for power_sign in signs {
                    for width in [1, 2, 3] {
                        let mut text = String::new();
                        // Writing to a String does not fail.
                        let _ = write!(text, "{sign}{mantissa}{letter}{power_sign}{size:0width$}");
                        add(all, text);
                    }
                }
            }
        }
        // An integer before the exponent, as in `22e0` and `220e-1`.
        if is_whole {
            let digits = if self.digits.is_empty() { "0" } else { &self.digits };
            add(all, format!("{sign}{digits}e{}", self.exponent));
        }
    }
}

fn zeros(count: i64) -> String {
    "0".repeat(usize::try_from(count).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn all_spellings_of_a_number_have_one_plain_form() {
        for text in ["22", "22.0", "2.2e1", "0.22E2", "220e-1", "22.000", "0.0022e+4", "2.2e01", "22E-0"] {
            assert!(plain(text).contains(&"22".to_owned()), "{text}");
            for spelling in ["22", "22.0", "2.2e1", "2.2E1", "2.2e+1", "2.2e+01", "22e0"] {
                assert!(spellings(text).contains(&spelling.to_owned()), "{spelling} of {text}");
            }
        }
        for text in ["0", "-0", "0.0", "-0.0", "0e99999999999999999999", "-0e-5", "0.000"] {
            for spelling in ["0", "0.0", "-0", "-0.0"] {
                assert!(spellings(text).contains(&spelling.to_owned()), "{spelling} of {text}");
            }
            assert!(plain(text).contains(&"0".to_owned()), "{text}");
        }
        assert_eq!(plain("-1.5e3"), ["-1.5e3", "-1500"]);
        assert_eq!(plain("5"), ["5"]);
        assert_eq!(plain("0.001"), ["0.001"]);
        assert_eq!(plain("1e-3"), ["1e-3", "0.001"]);
        assert!(plain("1e-400").contains(&"0".to_owned()), "a float holds no more");
    }

    #[test]
    fn what_no_float_holds_or_is_endlessly_long_is_not_readable() {
        for text in
            ["1e400", "-1e400", "1e-2000", "1e99999999999999999999", "", "-", "1e", "0x1", "1e+", "inf"]
        {
            assert!(!is_readable(text), "{text}");
        }
        assert!(!is_readable(&format!("1.{}", "3".repeat(MAX_DIGITS))));
        assert!(is_readable(&format!("1.{}", "3".repeat(MAX_DIGITS / 2 - 1))));
        assert!(is_readable("1.7976931348623157e308"));
        assert!(is_readable("5e-324"));
    }

    proptest! {
        #[test]
        fn every_float_is_found_by_its_own_writing(float in any::<f64>().prop_filter("finite", |float| float.is_finite())) {
            let json = serde_json::to_string(&float).expect("a number");
            let wanted = float.to_string();
            let wanted = wanted.strip_suffix(".0").unwrap_or(&wanted);
            if float != 0.0 {
                prop_assert!(plain(&json).contains(&wanted.to_owned()), "{}", json);
                prop_assert!(spellings(wanted).contains(&json), "{}", json);
            }
        }
    }
}
