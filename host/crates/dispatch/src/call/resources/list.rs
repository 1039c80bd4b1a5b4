//! The list of resources.

use super::claims::{claimant, may_have};
use super::{MAX_TIME, log_plugin_left_out, log_uris_left_out};
use crate::access::permit::AskPermit;
use crate::access::rules::{Object, ObjectKind};
use crate::application::Dispatch;
use crate::call::resources_prompts::{ProviderEnd, ProviderFailure, ProviderRequest, RunBound};
use crate::error::Fault;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tokio::time::Instant;
use toolyard_protocol::RawJson;
use toolyard_protocol::page::page;
use toolyard_protocol::resources::uri_of;
use toolyard_task::Provider;
use toolyard_task::provider::{ProviderAnswer, Retrieval};

/// The most pages of one plugin that a client gets while it goes on listing. A longer list is taken to
/// have no end, and would keep the client busy forever.
const MAX_PAGES: u32 = 1_000;
/// The most runs of one plugin for one request. A plugin that has entries gives some in its first page; one
/// that gave eight pages without any is taken to have no end.
const MAX_RUNS: u32 = 8;
/// The bytes that the entries of all plugins may take in one answer. A part that does not fit waits
/// for the next answer.
const MAX_BYTES: usize = 16 << 20;

/// The position of a plugin in a list: the page with which the next answer begins.
#[derive(Clone, Serialize, Deserialize)]
struct Position {
    plugin: String,
    /// The plugin's own cursor; `None` for its first page.
    cursor: Option<String>,
    /// The number of its pages in earlier answers.
    pages: u32,
}

/// The part of one plugin in an answer.
struct Part {
    entries: Vec<RawJson>,
    bytes: usize,
    /// `None` at the end of its resources.
    next: Option<Position>,
}

impl Dispatch {
    /// The result of `resources/list`: a part of each plugin that has more.
    ///
    /// # Errors
    /// [`Fault::InvalidCursor`], [`Fault::Busy`], [`Fault::Cancelled`].
    pub async fn list_resources(
        self: &Arc<Self>,
        request: ProviderRequest<'_>,
        cursor: Option<&str>,
    ) -> Result<RawJson, Fault> {
        const SCOPE: &str = "resources";
        let from: Option<Vec<Position>> = match cursor {
            Some(cursor) => {
                let positions = self.deps.clients.open_cursor(SCOPE, cursor).await?;
                Some(serde_json::from_str(&positions).map_err(|_| Fault::InvalidCursor)?)
            }
            None => None,
        };
        let Some(permit) = self.deps.access.permit_list(request.caller, ObjectKind::Resource) else {
            return Ok(page("resources", [].iter(), None));
        };
        let all = self.resource_providers();
        // All plugins, or those that had more and are still loaded.
        let (turns, providers): (Vec<Position>, Vec<Arc<dyn Provider>>) = match from {
            None => all.iter().map(|provider| (Position::start(provider), provider.clone())).unzip(),
            Some(positions) => positions
                .into_iter()
                .filter_map(|position| {
                    let provider = all.iter().find(|provider| provider.spec().plugin == position.plugin)?;
                    Some((position, provider.clone()))
                })
                .unzip(),
        };
        let part =
            |at: usize| self.part(&permit, &request, &all, &providers[at], (turns[at].clone(), turns.len()));
        let parts = self.ask_all(&providers, part).await?;
        let (entries, more) = joined(parts, &turns);
        let next = match more.is_empty() {
            true => None,
            false => Some(self.deps.clients.seal_cursor(SCOPE, RawJson::of(&more).as_str()).await?),
        };
        Ok(page("resources", entries.iter(), next.as_deref()))
    }

    /// The next pages of one plugin, until it has given as much as its share among this number of plugins.
    async fn part(
        self: &Arc<Self>,
        permit: &AskPermit,
        request: &ProviderRequest<'_>,
        all: &[Arc<dyn Provider>],
        provider: &Arc<dyn Provider>,
        (mut position, plugins): (Position, usize),
    ) -> Result<Part, ProviderFailure> {
        let share = (self.deps.settings.page as usize).div_ceil(plugins);
        let mut part = Part { entries: Vec::new(), bytes: 0, next: None };
        let (mut foreign, mut left) = (0, MAX_TIME);
        for run in 1..=MAX_RUNS {
            let begun = Instant::now();
            let retrieval = Retrieval::Resources { cursor: position.cursor.clone() };
            let bound = RunBound { time: Some(left), here: plugins == 1 };
            let given = self.retrieve_within(permit, request, provider, retrieval, bound).await;
            left = left.saturating_sub(begun.elapsed());
            let (entries, next) = match given {
                Ok(ProviderEnd::Done(ProviderAnswer::Resources { entries, next })) => (entries, next),
                Ok(_) => break,
                Err(failure) if part.entries.is_empty() || matches!(failure, ProviderFailure::Over(_)) => {
                    return Err(failure);
                }
                // The next answer begins with this page.
                Err(_) => {
                    part.next = Some(position);
                    break;
                }
            };
            for entry in entries {
                let Some(uri) = uri_of(&entry) else { continue };
                if !may_have(claimant(all, &uri), provider) {
                    foreign += 1;
                } else if self.deps.access.shows(request.caller, Object::Resource(&uri)) {
                    part.bytes += entry.as_bytes().len();
                    part.entries.push(entry);
                }
            }
            let Some(next) = next else { break };
            position.pages += 1;
            let endless = if position.cursor.as_ref() == Some(&next) {
                Some("its cursor repeats")
            } else if position.pages >= MAX_PAGES {
                Some("it has more pages than are listed")
            } else if run == MAX_RUNS && part.entries.is_empty() {
                Some("it gives pages without entries and without an end")
            } else {
                None
            };
            if let Some(reason) = endless {
                log_plugin_left_out(provider, &reason);
                break;
            }
            position.cursor = Some(next);
            if run == MAX_RUNS || part.entries.len() >= share || part.bytes >= MAX_BYTES / plugins {
                part.next = Some(position);
                break;
            }
        }
        if foreign > 0 {
            log_uris_left_out(provider, "resource", foreign);
        }
        Ok(part)
    }
}

impl Position {
    fn start(provider: &Arc<dyn Provider>) -> Self {
        Self { plugin: provider.spec().plugin.clone(), cursor: None, pages: 0 }
    }
}

/// The entries of all parts that fit in one answer, and where the next answer continues.
fn joined(mut parts: Vec<(usize, Part)>, turns: &[Position]) -> (Vec<RawJson>, Vec<Position>) {
    // The shortest first, so that a plugin with large pages displaces no other.
    parts.sort_by_key(|(at, part)| (part.bytes, *at));
    let mut bytes = 0;
    for (at, part) in &mut parts {
        bytes += part.bytes;
        if bytes > part.bytes && bytes > MAX_BYTES {
            *part = Part { entries: Vec::new(), bytes: 0, next: Some(turns[*at].clone()) };
        }
    }
    parts.sort_by_key(|(at, _)| *at);
    let more = parts.iter_mut().filter_map(|(_, part)| part.next.take()).collect();
    (parts.into_iter().flat_map(|(_, part)| part.entries).collect(), more)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(plugin: &str) -> Position {
        Position { plugin: plugin.to_owned(), cursor: Some("1".to_owned()), pages: 1 }
    }

    fn part(entry: &'static str, bytes: usize, next: Option<Position>) -> Part {
        Part { entries: vec![RawJson::trusted(entry)], bytes, next }
    }

    #[test]
    fn a_part_that_does_not_fit_waits_and_displaces_no_other() {
        let turns = ["a", "b", "c"].map(position);
        let parts = vec![(0, part("0", MAX_BYTES, None)), (2, part("2", 1, Some(position("c-next"))))];
        let (entries, more) = joined(parts, &turns);
        assert_eq!(entries.iter().map(RawJson::as_str).collect::<Vec<_>>(), ["2"]);
        assert_eq!(more.iter().map(|next| next.plugin.as_str()).collect::<Vec<_>>(), ["a", "c-next"]);
        let (entries, more) = joined(vec![(0, part("0", MAX_BYTES + 1, None))], &turns);
        assert!(entries.len() == 1 && more.is_empty(), "one that is too large alone is shown");
    }
}
