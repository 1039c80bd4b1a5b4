//! Joint bounds for the schemas of one component, or for the forms of one run. A component may have
//! hundreds of schemas, and the rules of a small schema take far more memory than its text.

use crate::pattern::Patterns;

/// The remaining resources for several schemas. Each compilation uses some of them.
pub struct Allowance {
    pub(super) patterns: Patterns,
    bytes: Left,
    subschemas: Left,
}

struct Left {
    left: usize,
    most: usize,
}

impl Left {
    const fn new(most: usize) -> Self {
        Self { left: most, most }
    }

    fn take(&mut self, amount: usize, unit: &str) -> Result<(), String> {
        match self.left.checked_sub(amount) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(format!(
                "takes more than the schemas of one component may take together: {} {unit}",
                self.most
            )),
        }
    }
}

impl Allowance {
    /// The allowance for the schemas of one component.
    #[must_use]
    pub fn of_component() -> Self {
        let patterns = Patterns::new(512, 4 << 20);
        Self { patterns, bytes: Left::new(4 << 20), subschemas: Left::new(64 << 10) }
    }

    /// The allowance for the forms that a run requests at once.
    #[must_use]
    pub fn of_forms() -> Self {
        let patterns = Patterns::new(16, 256 << 10);
        Self { patterns, bytes: Left::new(256 << 10), subschemas: Left::new(4 << 10) }
    }

    /// Uses the bytes of a schema's text.
    ///
    /// # Errors
    /// If they exceed the bound; completes "its schema …".
    pub(super) fn take_bytes(&mut self, bytes: usize) -> Result<(), String> {
        self.bytes.take(bytes, "bytes")
    }

    /// Uses the number of schemas that a schema consists of, including itself.
    ///
    /// # Errors
    /// If they exceed the bound; completes "its schema …".
    pub(super) fn take_subschemas(&mut self, count: usize) -> Result<(), String> {
        self.subschemas.take(count, "subschemas")
    }
}
