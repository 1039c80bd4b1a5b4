//! Bounds for the schemas of one component, or of the forms of one run, taken together: a component
//! has hundreds of schemas, and the rules of a small schema take far more memory than its text.

use super::pattern::Patterns;

/// What several schemas may still take together. Each that is compiled takes its part.
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
    /// For the schemas of one component.
    #[must_use]
    pub fn of_component() -> Self {
        let patterns = Patterns::new(512, 4 << 20);
        Self { patterns, bytes: Left::new(4 << 20), subschemas: Left::new(64 << 10) }
    }

    /// For the forms that a run asks for at once.
    #[must_use]
    pub fn of_forms() -> Self {
        let patterns = Patterns::new(16, 256 << 10);
        Self { patterns, bytes: Left::new(256 << 10), subschemas: Left::new(4 << 10) }
    }

    /// Takes the bytes of the text of a schema.
    ///
    /// # Errors
    /// If they pass the bound; completes "its schema …".
    pub(super) fn take_bytes(&mut self, bytes: usize) -> Result<(), String> {
        self.bytes.take(bytes, "bytes")
    }

    /// Takes the schemas that a schema consists of, itself included.
    ///
    /// # Errors
    /// If they pass the bound; completes "its schema …".
    pub(super) fn take_subschemas(&mut self, count: usize) -> Result<(), String> {
        self.subschemas.take(count, "subschemas")
    }
}
