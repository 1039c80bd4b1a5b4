//! Compares JSON numbers, exactly if they have few digits.

use crate::document::{At, Number, number};
use crate::rules::NumberRules;
use crate::validate::{Check, Fits};

impl Check<'_, '_> {
    pub(super) fn number(&mut self, rules: &NumberRules, at: At) -> Fits {
        use std::cmp::Ordering::{Equal, Greater, Less};
        let mut fits = true;
        let value = self.document.number(at);
        for (bound, allowed, says) in [
            (&rules.minimum, &[Equal, Greater][..], "less than the minimum of"),
            (&rules.above, &[Greater], "less than or equal to the exclusive minimum of"),
            (&rules.maximum, &[Equal, Less], "greater than the maximum of"),
            (&rules.below, &[Less], "greater than or equal to the exclusive maximum of"),
        ] {
            let Some(bound) = bound else { continue };
            if !compare(value, number(&bound.0)).is_some_and(|order| allowed.contains(&order)) {
                fits = self.complain(at, |value| format!("{value} is {says} {}", bound.0))?;
            }
        }
        if let Some(step) = &rules.multiple_of
            && !is_multiple(self.document.source(at), &step.0)
        {
            fits = self.complain(at, |value| format!("{value} is not a multiple of {}", step.0))?;
        }
        Ok(fits)
    }
}

/// The integer that a float represents, if it is one and can be represented exactly.
pub(super) fn exact(float: f64) -> Option<i128> {
    (float.fract() == 0.0 && float.abs() < 1e38).then_some(float as i128)
}

pub(super) fn compare(left: Number, right: Number) -> Option<std::cmp::Ordering> {
    match (left, right) {
        (Number::Integer(left), Number::Integer(right)) => Some(left.cmp(&right)),
        (Number::Float(left), Number::Float(right)) => left.partial_cmp(&right),
        (Number::Integer(left), Number::Float(right)) => match exact(right) {
            Some(right) => Some(left.cmp(&right)),
            None => (left as f64).partial_cmp(&right),
        },
        (Number::Float(_), Number::Integer(_)) => compare(right, left).map(std::cmp::Ordering::reverse),
    }
}

/// Whether one number is a multiple of another, computed in decimal if they have few digits.
fn is_multiple(value: &str, step: &str) -> bool {
    if let (Some((value, value_power)), Some((step, step_power))) = (decimal(value), decimal(step)) {
        let scaled = |digits: i128, by: i32| {
            u32::try_from(by).ok().and_then(|by| 10_i128.checked_pow(by)?.checked_mul(digits))
        };
        let power = value_power.min(step_power);
        if let (Some(value), Some(step)) =
            (scaled(value, value_power - power), scaled(step, step_power - power))
            && step != 0
        {
            return value % step == 0;
        }
    }
    let (value, step): (f64, f64) = (value.parse().unwrap_or(f64::NAN), step.parse().unwrap_or(f64::NAN));
    value % step == 0.0
}

/// A number as digits and a power of ten.
fn decimal(text: &str) -> Option<(i128, i32)> {
    let (digits, power) = match text.split_once(['e', 'E']) {
        Some((digits, power)) => (digits, power.parse::<i32>().ok().filter(|power| power.abs() < 1_000)?),
        None => (text, 0),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let fraction = fraction.trim_end_matches('0');
    let digits = format!("{whole}{fraction}").parse().ok()?;
    Some((digits, power - i32::try_from(fraction.len()).ok()?))
}
