//! The share of the processors that each principal's runs get.

use crate::access::principal::Principal;
use crate::access::rules::PrincipalPattern;
use serde::Deserialize;

/// The weight of a principal that no entry names.
const ORDINARY: u32 = 1;
/// The greatest weight.
const MAX_WEIGHT: u32 = 1_000;

/// An entry of `[[weights]]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WeightSpec {
    /// The principals, as in a rule.
    pub principals: Vec<String>,
    /// The weight, from 1 to 1,000. A principal that no entry names has 1.
    pub weight: u32,
}

/// The weights in force. The first entry that names a principal decides.
#[derive(Debug, Default)]
pub struct Weights(Vec<(Vec<PrincipalPattern>, u32)>);

impl Weights {
    /// Reads them.
    ///
    /// # Errors
    /// A sentence that names what is wrong.
    pub fn new(written: &[WeightSpec]) -> Result<Self, String> {
        let read = |(index, WeightSpec { principals, weight }): (usize, &WeightSpec)| {
            if !(1..=MAX_WEIGHT).contains(weight) {
                return Err(format!(
                    "weights[{index}].weight: expected a number from 1 to {MAX_WEIGHT}, not {weight}"
                ));
            }
            let patterns = principals.iter().map(|pattern| PrincipalPattern::new(pattern));
            let patterns = patterns.collect::<Result<_, _>>();
            Ok((patterns.map_err(|what| format!("weights[{index}].principals: {what}"))?, *weight))
        };
        written.iter().enumerate().map(read).collect::<Result<_, _>>().map(Self)
    }

    pub(crate) fn of(&self, principal: &Principal) -> u32 {
        let named = |patterns: &[PrincipalPattern]| patterns.iter().any(|pattern| pattern.matches(principal));
        self.0.iter().find(|(patterns, _)| named(patterns)).map_or(ORDINARY, |(_, weight)| *weight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(principals: &[&str], weight: u32) -> WeightSpec {
        WeightSpec { principals: principals.iter().map(|&name| name.to_owned()).collect(), weight }
    }

    #[test]
    fn the_first_that_names_a_principal_counts_and_what_is_wrong_is_named() {
        let weights = Weights::new(&[spec(&["local"], 4), spec(&["*"], 2)]).expect("valid");
        assert_eq!((weights.of(&Principal::Local), weights.of(&Principal::Anonymous)), (4, 2));
        assert_eq!(Weights::default().of(&Principal::Local), 1);
        let wrong = |specs: &[WeightSpec]| Weights::new(specs).expect_err("wrong");
        assert!(wrong(&[spec(&["local"], 0)]).starts_with("weights[0].weight: expected a number from 1"));
        assert!(wrong(&[spec(&["local"], 2), spec(&["bob"], 2)]).starts_with("weights[1].principals: `bob`"));
    }
}
