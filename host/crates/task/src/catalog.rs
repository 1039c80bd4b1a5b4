//! The tools that are on offer: an immutable value, built completely and then
//! swapped whole.

use crate::tool::Tool;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Tools by name.
#[derive(Clone, Default)]
pub struct Catalog {
    tools: BTreeMap<String, Arc<dyn Tool>>,
}

/// Two tools of one name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the tool `{name}` is offered by both {first} and {second}")]
pub struct Collision {
    /// The name.
    pub name: String,
    /// The plugin that had it.
    pub first: String,
    /// The plugin that wants it too.
    pub second: String,
}

impl Catalog {
    /// A catalog of these tools.
    ///
    /// # Errors
    /// [`Collision`] if two have one name: none of them is silently preferred.
    pub fn new(tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Result<Self, Collision> {
        let mut by_name: BTreeMap<String, Arc<dyn Tool>> = BTreeMap::new();
        for tool in tools {
            let name = tool.spec().name().to_owned();
            if let Some(other) = by_name.get(&name) {
                return Err(Collision {
                    name,
                    first: other.spec().plugin.clone(),
                    second: tool.spec().plugin.clone(),
                });
            }
            by_name.insert(name, tool);
        }
        Ok(Self { tools: by_name })
    }

    /// The tool of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.get(name)
    }

    /// All tools, by name.
    pub fn tools(&self) -> impl Iterator<Item = &Arc<dyn Tool>> {
        self.tools.values()
    }

    /// The tools whose names come after `name`.
    pub fn after<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a Arc<dyn Tool>> + use<'a> {
        let from = (std::ops::Bound::Excluded(name.to_owned()), std::ops::Bound::Unbounded);
        self.tools.range::<String, _>(from).map(|(_, tool)| tool)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }
}

impl std::fmt::Debug for Catalog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.tools.keys()).finish()
    }
}
