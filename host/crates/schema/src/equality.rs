//! Equality of values for `const`, `enum` and `uniqueItems`: the order of object members does not
//! matter, and numbers are compared by value.

use crate::budget::Halt;
use crate::document::{At, Kind, Number, number};
use crate::numbers::{compare, exact};
use crate::rules::Choices;
use crate::validate::Check;
use serde_json::Value;
use std::hash::{BuildHasher as _, RandomState};

impl Check<'_, '_> {
    pub(super) fn is_among(&mut self, at: At, choices: &Choices) -> Result<bool, Halt> {
        if self.document.kind(at) == Kind::String {
            let text = self.document.string(at);
            self.budget.spend(text.len() as u64 / 64)?;
            return Ok(choices.strings.contains(&*text));
        }
        for choice in &choices.others {
            if self.equals(at, choice)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether the value equals one in the schema. The order of object members does not matter, and
    /// numbers are compared by value. The recursion is no deeper than the document.
    pub(super) fn equals(&mut self, at: At, value: &Value) -> Result<bool, Halt> {
        let document = self.document;
        self.budget.spend(1)?;
        Ok(match (document.kind(at), value) {
            (Kind::Null, Value::Null) => true,
            (Kind::Boolean, Value::Bool(value)) => document.is_true(at) == *value,
            (Kind::Number, Value::Number(value)) => compare(document.number(at), number(&value.to_string()))
                .is_some_and(std::cmp::Ordering::is_eq),
            (Kind::String, Value::String(value)) => document.string(at) == value.as_str(),
            (Kind::Array, Value::Array(items)) if document.count(at) as usize == items.len() => {
                for (item, value) in document.items(at).zip(items) {
                    if !self.equals(item, value)? {
                        return Ok(false);
                    }
                }
                true
            }
            (Kind::Object, Value::Object(members)) if document.count(at) as usize == members.len() => {
                for (name, value) in document.members(at) {
                    match members.get(&*document.string(name)) {
                        Some(other) if self.equals(value, other)? => {}
                        _ => return Ok(false),
                    }
                }
                true
            }
            _ => false,
        })
    }

    pub(super) fn is_unique(&mut self, at: At) -> Result<bool, Halt> {
        // Equal items have equal hashes. Different items have equal hashes only by chance, and are
        // then considered equal. A sender cannot raise the probability, because the hash has random
        // keys.
        let keys = [RandomState::new(), RandomState::new()];
        let mut sums = Vec::new();
        for item in self.document.items(at) {
            self.budget.spend(u64::from(self.document.size(item)) * 2)?;
            sums.push(self.sum(item, &keys)?);
        }
        let count = sums.len();
        self.budget.spend(count as u64)?;
        sums.sort_unstable();
        sums.dedup();
        Ok(sums.len() == count)
    }

    /// A hash of a value that does not depend on the order of members or on the notation.
    fn sum(&mut self, at: At, keys: &[RandomState; 2]) -> Result<[u64; 2], Halt> {
        let document = self.document;
        let of = |what: &(u8, &[u8])| [keys[0].hash_one(what), keys[1].hash_one(what)];
        let of_sums =
            |tag: u8, sums: &[[u64; 2]]| [keys[0].hash_one((tag, sums)), keys[1].hash_one((tag, sums))];
        Ok(match document.kind(at) {
            Kind::Null => of(&(0, b"")),
            Kind::Boolean => of(&(1, if document.is_true(at) { b"1" } else { b"0" })),
            Kind::Number => match document.number(at) {
                Number::Integer(integer) => of(&(2, &integer.to_le_bytes())),
                Number::Float(float) => match exact(float) {
                    Some(integer) => of(&(2, &integer.to_le_bytes())),
                    None => of(&(3, &float.to_bits().to_le_bytes())),
                },
            },
            Kind::String => {
                let text = document.string(at);
                self.budget.spend(text.len() as u64 / 16)?;
                of(&(4, text.as_bytes()))
            }
            Kind::Array => {
                let mut sums = Vec::new();
                for item in document.items(at) {
                    sums.push(self.sum(item, keys)?);
                }
                of_sums(5, &sums)
            }
            Kind::Object => {
                let mut sums = Vec::new();
                for (name, value) in document.members(at) {
                    let member = [self.sum(name, keys)?, self.sum(value, keys)?];
                    sums.push(of_sums(6, &member));
                }
                sums.sort_unstable();
                of_sums(7, &sums)
            }
        })
    }
}
