//! The catalog: an immutable value, built completely and then swapped whole.

use crate::provider::Provider;
use crate::tool::Tool;
use crate::wire::PromptDescription;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Tools and prompts by name, and the plugins that have resources.
#[derive(Clone, Default)]
pub struct Catalog {
    tools: BTreeMap<String, Arc<dyn Tool>>,
    providers: Vec<Arc<dyn Provider>>,
    /// The provider and the place in its list.
    prompts: BTreeMap<String, (usize, usize)>,
}

/// Two tools, or two prompts, with the same name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the {kind} `{name}` is offered by both {first} and {second}")]
pub struct Collision {
    /// `tool` or `prompt`.
    pub kind: &'static str,
    /// The name.
    pub name: String,
    /// The plugin that already has it.
    pub first: String,
    /// The plugin that wants it too.
    pub second: String,
}

impl Catalog {
    /// A catalog of these tools.
    ///
    /// # Errors
    /// [`Collision`] if two have the same name: none of them is silently preferred.
    pub fn new(tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Result<Self, Collision> {
        let mut by_name: BTreeMap<String, Arc<dyn Tool>> = BTreeMap::new();
        for tool in tools {
            let name = tool.spec().name().to_owned();
            if let Some(other) = by_name.get(&name) {
                return Err(Collision {
                    kind: "tool",
                    name,
                    first: other.spec().plugin.clone(),
                    second: tool.spec().plugin.clone(),
                });
            }
            by_name.insert(name, tool);
        }
        Ok(Self { tools: by_name, ..Self::default() })
    }

    /// The same catalog with these providers, in the order of their plugins'
    /// names.
    ///
    /// # Errors
    /// [`Collision`] if two prompts have the same name.
    pub fn with(mut self, providers: impl IntoIterator<Item = Arc<dyn Provider>>) -> Result<Self, Collision> {
        self.providers.extend(providers);
        self.providers.sort_by(|one, other| one.spec().plugin.cmp(&other.spec().plugin));
        self.prompts.clear();
        for (place, provider) in self.providers.iter().enumerate() {
            for (index, prompt) in provider.spec().prompts.iter().enumerate() {
                if let Some((other, _)) = self.prompts.insert(prompt.name.clone(), (place, index)) {
                    return Err(Collision {
                        kind: "prompt",
                        name: prompt.name.clone(),
                        first: self.providers[other].spec().plugin.clone(),
                        second: provider.spec().plugin.clone(),
                    });
                }
            }
        }
        Ok(self)
    }

    /// The plugins that offer more than tools, by name.
    #[must_use]
    pub fn providers(&self) -> &[Arc<dyn Provider>] {
        &self.providers
    }

    /// The prompt of this name and its provider.
    #[must_use]
    pub fn prompt(&self, name: &str) -> Option<(&Arc<dyn Provider>, &PromptDescription)> {
        let &(place, index) = self.prompts.get(name)?;
        let provider = &self.providers[place];
        Some((provider, &provider.spec().prompts[index]))
    }

    /// All prompts, by name.
    pub fn prompts(&self) -> impl Iterator<Item = &PromptDescription> {
        self.prompts.values().map(|&(place, index)| &self.providers[place].spec().prompts[index])
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
