//! Definitions of tools and prompts: the text that models and people read before they call. A plugin that
//! changes them in silence can deceive both, so the lock file pins them.

mod canonical;
mod changes;
mod json;

pub use crate::escape::escape;
pub use canonical::canonical;
pub use changes::{Change, Changes, Effect, compare};

pub(crate) use json::{pretty, strict};

use crate::digest::Digest;
use serde_json::Value;
use std::fmt::{self, Display};

/// The kind of a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A tool.
    Tool,
    /// A prompt.
    Prompt,
}

impl Kind {
    /// The word for it, which is also its key in the lock file.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Prompt => "prompt",
        }
    }
}

impl Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A tool or prompt as the plugin describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    /// Tool or prompt.
    pub kind: Kind,
    /// The guest's own name, before a prefix.
    pub name: String,
    /// Title, description, schemas, annotations and so on.
    pub value: Value,
}

impl Definition {
    /// The digest of the value in its canonical form.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of(canonical(&self.value).as_bytes())
    }
}
