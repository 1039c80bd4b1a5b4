//! JSON Schema 2020-12 for the schemas of tools (TL-4, TL-5), which are compiled once when the
//! plugin is loaded, and of forms (E-2), which are compiled when a guest asks.
//!
//! Schemas come from components and values from clients, and neither is trusted. Therefore no
//! reference may leave the schema, the compiler bounds size, depth and patterns, and each check has
//! a budget of steps (decision 24). `format` is an annotation, as the dialect specifies.
//!
//! ```
//! use toolyard_protocol::RawJson;
//! use toolyard_schema::{Allowance, Bounds, Budget, Schema, Verdict};
//!
//! let text = r#"{"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]}"#;
//! let text = RawJson::parse(text.to_owned()).expect("JSON");
//! let bounds = Bounds { bytes: 64 << 10, depth: 32 };
//! let schema = Schema::compile(&text, bounds, &mut Allowance::of_component()).expect("a schema");
//!
//! let value = RawJson::parse(r#"{"n": 0}"#.to_owned()).expect("JSON");
//! let verdict = schema.check(&value, &mut Budget::steps(1_000)).expect("within the budget");
//! assert!(matches!(verdict, Verdict::Misfit(_)));
//! ```

mod allowance;
mod budget;
mod compile;
mod document;
mod equality;
mod numbers;
mod pattern;
mod references;
mod rules;
mod validate;

pub use allowance::Allowance;
pub use budget::{Budget, Halt, Look};
pub use compile::Bounds;
pub use document::{NODE_BYTES, nodes_of};

use document::Document;
use rules::Rules;
use serde_json::Value;
use toolyard_protocol::RawJson;
use validate::Check;

/// The maximum size, in bytes, of a value that is checked on a thread that other work waits for.
const QUICK_BYTES: usize = 64 << 10;

/// A compiled schema.
pub struct Schema {
    rules: Vec<Rules>,
}

/// The result of a check.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The value fits the schema.
    Fits,
    /// Up to five complaints, each with its location.
    Misfit(String),
}

impl Schema {
    /// Compiles the schema of an object, within the allowance for the schemas of its component.
    ///
    /// # Errors
    /// The fault of the schema; completes "its schema …".
    pub fn compile(text: &RawJson, bounds: Bounds, allowance: &mut Allowance) -> Result<Self, String> {
        if text.as_bytes().len() > bounds.bytes {
            return Err(format!("is larger than {} bytes", bounds.bytes));
        }
        allowance.take_bytes(text.as_bytes().len())?;
        let value: Value = text.decode().map_err(|error| format!("is not valid JSON: {error}"))?;
        Ok(Self { rules: compile::compile(&value, bounds, allowance)? })
    }

    /// Checks a value on a thread that other work waits for. Returns `None` if the check takes too
    /// long; then [`Schema::check`] must be used on another thread.
    #[must_use]
    pub fn check_quickly(&self, value: &RawJson) -> Option<Verdict> {
        if value.as_bytes().len() > QUICK_BYTES {
            return None;
        }
        match self.check(value, &mut Budget::quick()) {
            Ok(verdict) => Some(verdict),
            Err(Halt::Spent | Halt::Stopped) => None,
            Err(Halt::TooDeep) => Some(too_deep()),
        }
    }

    /// Checks a value without a limit of steps.
    #[cfg(test)]
    fn check_whole(&self, value: &RawJson) -> Result<(), String> {
        match self.check(value, &mut Budget::unlimited()) {
            Ok(Verdict::Fits) => Ok(()),
            Ok(Verdict::Misfit(what)) => Err(what),
            Err(halt) => panic!("{halt:?}"),
        }
    }

    /// Checks a value.
    ///
    /// # Errors
    /// [`Halt`] if the check ended without a verdict.
    pub fn check(&self, value: &RawJson, budget: &mut Budget<'_>) -> Result<Verdict, Halt> {
        let document = match Document::read(value.as_str(), budget)? {
            Ok(document) => document,
            Err(unreadable) => return Ok(Verdict::Misfit(format!("it {}", unreadable.0))),
        };
        let mut check = Check::new(&self.rules, &document, budget);
        let verdict = check.fits().and_then(|fits| {
            if fits { Ok(Verdict::Fits) } else { Ok(Verdict::Misfit(check.complaints()?.join("; "))) }
        });
        match verdict {
            Err(Halt::TooDeep) => Ok(too_deep()),
            verdict => verdict,
        }
    }
}

fn too_deep() -> Verdict {
    Verdict::Misfit("it leads deeper into its schema than can be checked".to_owned())
}

#[cfg(test)]
mod tests;
