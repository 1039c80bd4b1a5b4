//! The faults of a registry, as rules over requests.

use http::Method;
use parking_lot::Mutex;

/// The answer to a request instead of the registry's.
#[derive(Debug, Clone)]
pub enum Fault {
    /// This status with these headers and this body.
    Answer(u16, Vec<(&'static str, String)>, Vec<u8>),
    /// The registry's answer, with one more header.
    Header(&'static str, String),
    /// The registry's answer, cut off after half of its body.
    Truncate,
    /// A body without an end.
    Endless,
    /// The start of a body, and nothing after it.
    Stall,
    /// First the registry gets this manifest in place of the tag, then it answers.
    Retag(String, Vec<u8>),
}

/// A fault for requests with this method and this end of their path.
#[derive(Debug, Clone)]
pub struct Rule {
    method: Method,
    end: String,
    fault: Fault,
    /// How many of the requests get it.
    left: usize,
}

/// The rules, the first of which applies.
#[derive(Debug, Default)]
pub struct Faults(Mutex<Vec<Rule>>);

impl Faults {
    /// Applies a fault to each such request.
    pub fn add(&self, method: Method, end: impl Into<String>, fault: Fault) {
        self.add_times(usize::MAX, method, end, fault);
    }

    /// Applies a fault to the first requests of this kind.
    pub fn add_times(&self, left: usize, method: Method, end: impl Into<String>, fault: Fault) {
        let rule = Rule { method, end: end.into(), fault, left };
        self.0.lock().push(rule);
    }

    pub fn take(&self, method: &Method, path: &str) -> Option<Fault> {
        let mut rules = self.0.lock();
        let applies = |rule: &&mut Rule| rule.left > 0 && rule.method == *method && path.ends_with(&rule.end);
        let rule = rules.iter_mut().find(applies)?;
        rule.left -= 1;
        Some(rule.fault.clone())
    }
}
