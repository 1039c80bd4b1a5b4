//! `tool_search` and `tool_call`, for folders with more tools than a model should read in one list: the list has these
//! two, a search returns the definitions that fit, and a call by `tool_call` is the call of the tool that it names.

use crate::access::caller::Caller;
use crate::access::rules::Object;
use crate::application::Dispatch;
use crate::bridge::{HostToolNames, text};
use crate::call::tools_call::{Terms, ToolCall};
use crate::catalog::tools_list::{CatalogSnapshot, Listed};
use serde::Deserialize;
use toolyard_protocol::RawJson;
use toolyard_protocol::tools::{CallParams, text_result};

/// The most tools that one search returns, and the most bytes of their definitions; the first is always there.
const MAX_FOUND: usize = 5;
const MAX_FOUND_BYTES: usize = 64 << 10;
/// The most words of a query, and the most bytes of a description that are searched.
const MAX_WORDS: usize = 16;
const MAX_SEARCHED: usize = 2 << 10;
/// The weight of a word that is a word of the name, a part of the name, or in the description.
const WEIGHTS: [u32; 3] = [8, 4, 1];

/// The tool of a search that a call names.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SearchTool {
    Search,
    Call,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SearchArguments {
    query: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedCall {
    name: String,
    #[serde(default = "RawJson::empty_object")]
    arguments: RawJson,
}

impl Terms {
    /// How tools are listed for the client of the call.
    const fn listed(&self) -> Listed {
        match self {
            Self::Sessions { has_tasks, bridge } => {
                Listed { tasks: *has_tasks, is_bridged: bridge.is_some() }
            }
            Self::Stateless { bridge, .. } => Listed { tasks: false, is_bridged: bridge.is_some() },
        }
    }
}

impl CatalogSnapshot {
    /// The names of the two tools beside those of the folder, which keep theirs.
    fn search_names(&self) -> [String; 2] {
        let free = |name: &str| HostToolNames::free(name.to_owned(), |name| self.tool(name).is_some());
        [text::SEARCH, text::CALL].map(free)
    }

    /// Which of the two tools has this name.
    pub fn search_tool(&self, name: &str) -> Option<SearchTool> {
        let [search, call] = self.search_names();
        match name {
            name if name == search => Some(SearchTool::Search),
            name if name == call => Some(SearchTool::Call),
            _ => None,
        }
    }

    /// The entries of the two tools in a list.
    pub fn search_entries(&self) -> Vec<RawJson> {
        let [search, call] = self.search_names();
        text::search_tools(&search, &call)
    }
}

impl Dispatch {
    /// The call that a call by `tool_call` stands for. A search, or a call that names no tool, has its result at
    /// once.
    pub(super) fn search_or_name(&self, caller: &Caller, mut call: ToolCall) -> Result<ToolCall, RawJson> {
        let snapshot = self.deps.catalog.snapshot();
        let wrong = |error| text_result(&format!("{}: {error}", call.params.name), true);
        match snapshot.search_tool(&call.params.name) {
            None => Ok(call),
            Some(SearchTool::Search) => Err(match call.params.arguments.decode::<SearchArguments>() {
                Ok(SearchArguments { query }) => self.search(&snapshot, caller, &query, call.terms.listed()),
                Err(error) => wrong(error),
            }),
            Some(SearchTool::Call) => match call.params.arguments.decode::<NamedCall>() {
                Ok(NamedCall { name, arguments }) => {
                    call.params = CallParams { name, arguments, ..call.params };
                    Ok(call)
                }
                Err(error) => Err(wrong(error)),
            },
        }
    }

    /// The definitions of the tools that fit best, of those that the caller may use.
    fn search(&self, snapshot: &CatalogSnapshot, caller: &Caller, query: &str, listed: Listed) -> RawJson {
        let query = query.to_lowercase();
        let words: Vec<&str> = words_of(&query).take(MAX_WORDS).collect();
        let mut found: Vec<(u32, &str, &RawJson)> = snapshot
            .listed(listed)
            .filter_map(|(name, description, entry)| {
                let score = score(&words, name, description.unwrap_or_default());
                (score > 0 && self.deps.access.shows(caller, Object::Tool(name)))
                    .then_some((score, name, entry))
            })
            .collect();
        // The best first; equal ones by name, so that a search has one answer.
        found.sort_unstable_by(|one, other| (other.0, one.1).cmp(&(one.0, other.1)));
        let (count, mut bytes) = (found.len(), 0);
        found.truncate(MAX_FOUND);
        found.retain(|(.., entry)| {
            let is_first = bytes == 0;
            bytes += entry.as_bytes().len();
            is_first || bytes <= MAX_FOUND_BYTES
        });
        let [_, call] = snapshot.search_names();
        let entries: Vec<&RawJson> = found.iter().map(|(.., entry)| *entry).collect();
        text_result(&text::search_result(&entries, count, &call), false)
    }
}

fn words_of(text: &str) -> impl Iterator<Item = &str> {
    text.split(|char: char| !char.is_alphanumeric()).filter(|word| !word.is_empty())
}

fn score(words: &[&str], name: &str, description: &str) -> u32 {
    let (name, end) = (name.to_lowercase(), description.floor_char_boundary(MAX_SEARCHED));
    let description = description[..end].to_lowercase();
    let weigh = |word: &&str| {
        let [whole, part, described] = WEIGHTS;
        let in_name = if words_of(&name).any(|own| own == *word) {
            whole
        } else {
            part * u32::from(name.contains(*word))
        };
        in_name + described * u32::from(description.contains(*word))
    };
    words.iter().map(weigh).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_count_more_than_descriptions_and_whole_words_more_than_parts() {
        let find = |query: &str, name, description| {
            let words: Vec<&str> = words_of(query).collect();
            score(&words, name, description)
        };
        assert!(find("csv", "csv_profile", "") > find("csv", "csvs", ""));
        assert!(find("csv", "csvs", "") > find("csv", "table", "Describes CSV texts"));
        assert_eq!(find("mail", "csv_profile", "Describes CSV texts"), 0);
        let several = find("describe a csv", "csv_profile", "Describes CSV texts");
        assert!(several > find("csv", "csv_profile", "Describes CSV"));
        let long = format!("{}needle", "é".repeat(MAX_SEARCHED));
        assert_eq!(find("needle", "x", &long), 0, "only its beginning is searched");
    }
}
