//! `tools/list`: the entries are rendered once per catalog, not once per request.

use crate::access::caller::Caller;
use crate::access::rate_limit::ToolRateLimit;
use crate::access::rules::Object;
use crate::bridge::{HostToolNames, text};
use crate::catalog::LiveCatalog;
use crate::error::Fault;
use crate::observe::metrics::MeasuredTool;
use crate::settings::bridge::{BridgeSettings, BridgeTerms, OutputSchemas};
use std::collections::HashMap;
use std::sync::Arc;
use toolyard_protocol::page::page;
use toolyard_protocol::stateless::param_headers::{ParamHeader, param_headers};
use toolyard_protocol::tools::union_schema::union_schema;
use toolyard_protocol::tools::{Execution, TaskSupport, ToolDescription};
use toolyard_protocol::{RawJson, Revision};
use toolyard_task::{Catalog, Owner, Rate};

/// The most bytes of a page. A page may have one entry that is larger.
const MAX_PAGE_BYTES: usize = 1 << 20;

/// A catalog and its listing entries, with and without the mention of tasks.
#[derive(Default)]
pub(crate) struct CatalogSnapshot {
    pub catalog: Arc<Catalog>,
    /// The tools of the catalog, with the counters of each.
    measured: HashMap<String, Arc<MeasuredTool>>,
    entries: Vec<Entry>,
    /// The rate limits of tools whose manifests set one.
    rate_limits: HashMap<String, Arc<ToolRateLimit>>,
    /// The names of the host tools beside these tools.
    host_tools: HostToolNames,
}

struct Entry {
    name: String,
    description: Option<String>,
    with_tasks: RawJson,
    without_tasks: RawJson,
    /// The same for clients that know no tasks; `None` if it does not differ.
    bridged: Option<BridgedEntry>,
    /// Whether a call of it may become a task.
    may_be_task: bool,
    /// The parameters of the tool that HTTP clients repeat in headers (26XH).
    param_headers: Arc<[ParamHeader]>,
}

/// How an entry is shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Listed {
    /// Whether the entry mentions tasks.
    pub tasks: bool,
    /// For clients that know no tasks.
    pub is_bridged: bool,
}

impl Entry {
    const fn shown(&self, listed: Listed) -> &RawJson {
        match (&self.bridged, listed) {
            (Some(bridged), Listed { tasks: true, is_bridged: true }) => &bridged.with_tasks,
            (Some(bridged), Listed { tasks: false, is_bridged: true }) => &bridged.without_tasks,
            (_, Listed { tasks: true, .. }) => &self.with_tasks,
            (_, Listed { tasks: false, .. }) => &self.without_tasks,
        }
    }
}

/// An entry for clients that know no tasks: it never requires calls as tasks, and a hand-off satisfies
/// its output schema as well.
struct BridgedEntry {
    with_tasks: RawJson,
    without_tasks: RawJson,
    has_union: bool,
}

/// The client generation that tools are listed for. The terms are those of a client that knows no
/// tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListFor {
    /// A client of this revision, which opened with `initialize`.
    Sessions(Revision, Option<BridgeTerms>),
    /// A stateless client, to which tools say nothing of tasks (26TL-1).
    Stateless(Option<BridgeTerms>),
}

impl CatalogSnapshot {
    /// A catalog that replaces the former one. A tool whose rate limit is unchanged keeps its count.
    pub fn of(
        catalog: Arc<Catalog>,
        measured: HashMap<String, Arc<MeasuredTool>>,
        former: &Self,
        bridge: Option<&BridgeSettings>,
    ) -> Self {
        let pace = |name: &str, rate: Rate| match former.rate_limits.get(name) {
            Some(pace) if pace.rate == rate => pace.clone(),
            _ => Arc::new(ToolRateLimit::new(rate)),
        };
        let rate_limits = catalog.tools().filter_map(|tool| {
            let name = tool.spec().name();
            Some((name.to_owned(), pace(name, tool.spec().rate?)))
        });
        let rate_limits = rate_limits.collect();
        let entries = catalog
            .tools()
            .map(|tool| {
                let description = &tool.spec().description;
                let may_be_task = tool.spec().task_support != TaskSupport::Forbidden;
                Entry {
                    may_be_task,
                    bridged: bridge
                        .filter(|_| may_be_task)
                        .and_then(|bridge| bridged(description, bridge, former)),
                    name: description.name.clone(),
                    description: description.description.clone(),
                    with_tasks: description.render(Revision::LATEST, true),
                    without_tasks: description.render(Revision::LATEST, false),
                    // An invalid annotation counts as none; the loader of the tool has reported it.
                    param_headers: param_headers(&description.input_schema).unwrap_or_default().into(),
                }
            })
            .collect();
        let prefix = bridge.map_or("", |bridge| &bridge.prefix);
        let host_tools = HostToolNames::beside(prefix, |name| measured.contains_key(name));
        if host_tools != former.host_tools && bridge.is_some() {
            for name in host_tools.taken(prefix) {
                tracing::warn!(
                    event = "bridge.name_taken",
                    tool = name,
                    "a plugin has a tool with the name of a host tool; the host tool gets another name"
                );
            }
        }
        Self { catalog, measured, entries, rate_limits, host_tools }
    }

    /// The names of the host tools.
    pub const fn host_tools(&self) -> &HostToolNames {
        &self.host_tools
    }

    /// Whether clients that know no tasks see this tool with a schema that a hand-off satisfies.
    pub fn has_union(&self, tool: &str) -> bool {
        let entry = self.entry(tool).and_then(|entry| entry.bridged.as_ref());
        entry.is_some_and(|bridged| bridged.has_union)
    }

    /// The names, descriptions and entries of all tools.
    pub fn listed(&self, listed: Listed) -> impl Iterator<Item = (&str, Option<&str>, &RawJson)> {
        let entries = self.entries.iter();
        entries.map(move |entry| (entry.name.as_str(), entry.description.as_deref(), entry.shown(listed)))
    }

    fn entry(&self, name: &str) -> Option<&Entry> {
        let found = self.entries.binary_search_by(|entry| entry.name.as_str().cmp(name));
        found.ok().map(|place| &self.entries[place])
    }

    /// Counts a call of this tool.
    ///
    /// # Errors
    /// [`Fault::TooOften`].
    pub fn count_tool_call(&self, tool: &str) -> Result<(), Fault> {
        self.rate_limits.get(tool).map_or(Ok(()), |pace| pace.count())
    }

    /// The tool of this name.
    pub fn tool(&self, name: &str) -> Option<Arc<MeasuredTool>> {
        self.measured.get(name).cloned()
    }
}

/// The longest output schema that clients without tasks are shown, in bytes. Many of them hand every entry of the list
/// to the model, which pays for it in each conversation.
const MAX_LISTED_SCHEMA: usize = 300;

/// The entry of a tool for clients that know no tasks; `None` if it does not differ.
fn bridged(
    description: &ToolDescription,
    bridge: &BridgeSettings,
    former: &CatalogSnapshot,
) -> Option<BridgedEntry> {
    let is_required =
        description.execution.is_some_and(|execution| execution.task_support == TaskSupport::Required);
    if description.output_schema.is_none() && !is_required {
        return None;
    }
    let listed = description.output_schema.as_ref().filter(|schema| {
        bridge.output_schema == OutputSchemas::Union && schema.as_str().len() <= MAX_LISTED_SCHEMA
    });
    let output_schema = listed.and_then(union_schema);
    if listed.is_some() && output_schema.is_none() && former.entry(&description.name).is_none() {
        tracing::warn!(
            event = "bridge.schema_not_listed",
            tool = description.name,
            "the output schema has references that cannot be moved; clients without tasks do not see it"
        );
    }
    let has_union = output_schema.is_some();
    let shown = ToolDescription {
        output_schema,
        execution: description.execution.map(|_| Execution { task_support: TaskSupport::Optional }),
        ..description.clone()
    };
    Some(BridgedEntry {
        with_tasks: shown.render(Revision::LATEST, true),
        without_tasks: shown.render(Revision::LATEST, false),
        has_union,
    })
}

/// The next page, with this many entries or fewer if they are large, but at least one; and whether more
/// follow.
pub(crate) fn page_of<T>(
    entries: &mut impl Iterator<Item = T>,
    most: u32,
    bytes: impl Fn(&T) -> usize,
) -> (Vec<T>, bool) {
    let (mut page, mut taken) = (Vec::new(), 0);
    for entry in entries {
        taken += bytes(&entry);
        if !page.is_empty() && (page.len() >= most as usize || taken > MAX_PAGE_BYTES) {
            return (page, true);
        }
        page.push(entry);
    }
    (page, false)
}

impl LiveCatalog {
    /// The parameters of this tool that HTTP clients repeat in headers (26XH-2). Empty if the tool does
    /// not exist, if the caller must not know of it, or if it is refused to a client without tasks in
    /// any case; that refusal comes first (26H-14).
    #[must_use]
    pub fn param_headers(&self, caller: &Caller, tool: &str, has_tasks: bool) -> Arc<[ParamHeader]> {
        let snapshot = self.snapshot.load();
        let lacks_tasks = self.settings.tasks && !has_tasks && self.settings.bridge.is_none();
        let needs_tasks = |tool: &MeasuredTool| tool.spec().task_support == TaskSupport::Required;
        if lacks_tasks && snapshot.measured.get(tool).is_some_and(|tool| needs_tasks(tool)) {
            return Arc::default();
        }
        let wanted = snapshot.entry(tool).map_or_else(Arc::default, |entry| entry.param_headers.clone());
        if wanted.is_empty() || self.access.shows(caller, Object::Tool(tool)) {
            wanted
        } else {
            Arc::default()
        }
    }

    /// The result of `tools/list` (TL-2, N-1): what the caller may use. No tasks are offered to clients
    /// whose revision has none.
    ///
    /// # Errors
    /// [`Fault::InvalidCursor`].
    pub async fn list_tools(
        &self,
        caller: &Caller,
        whom: ListFor,
        cursor: Option<&str>,
    ) -> Result<RawJson, Fault> {
        let (tasks, bridge) = match whom {
            ListFor::Sessions(revision, bridge) => (revision.has_tasks(), bridge),
            ListFor::Stateless(bridge) => (false, bridge),
        };
        let tasks = tasks && self.settings.tasks;
        let bridge = bridge.filter(|_| self.settings.tasks && self.settings.bridge.is_some());
        // A cursor is valid only for the list that it comes from.
        let scope = if bridge.is_some() { "tools without tasks" } else { "tools" };
        let after = match cursor {
            Some(cursor) => Some(self.clients.open_cursor(scope, cursor).await?),
            None => None,
        };
        let snapshot = self.snapshot.load_full();
        // The name is the key, so a listing continues correctly in a newer catalog too.
        let start = after.map_or(0, |after| snapshot.entries.partition_point(|entry| entry.name <= after));
        let is_searched = self.settings.tool_search;
        let is_visible =
            |entry: &&Entry| !is_searched && self.access.shows(caller, Object::Tool(&entry.name));
        let mut visible = snapshot.entries[start..].iter().filter(is_visible);
        let (shown, more) =
            page_of(&mut visible, self.settings.page, |entry| entry.with_tasks.as_bytes().len());
        let next = match shown.last() {
            Some(last) if more => Some(self.clients.seal_cursor(scope, &last.name).await?),
            _ => None,
        };
        let entries = shown.iter().map(|entry| entry.shown(Listed { tasks, is_bridged: bridge.is_some() }));
        let search_tools = if is_searched { snapshot.search_entries() } else { Vec::new() };
        // After the tools of the folder.
        let host_tools = match bridge {
            Some(terms) if !more && self.offers_host_tools(&snapshot, caller) => {
                self.host_tools(&snapshot, caller, terms)
            }
            _ => Vec::new(),
        };
        Ok(page("tools", entries.chain(&search_tools).chain(&host_tools), next.as_deref()))
    }

    /// Whether a caller may use a tool whose calls may become tasks; only then is it offered the host
    /// tools.
    pub(crate) fn offers_host_tools(&self, snapshot: &CatalogSnapshot, caller: &Caller) -> bool {
        let may_use = |entry: &Entry| self.access.shows(caller, Object::Tool(&entry.name));
        snapshot.entries.iter().any(|entry| entry.may_be_task && may_use(entry))
    }

    /// The host tools that this caller is offered.
    fn host_tools(&self, snapshot: &CatalogSnapshot, caller: &Caller, terms: BridgeTerms) -> Vec<RawJson> {
        let names = snapshot.host_tools.for_client(&self.settings, caller);
        // A caller without an account and without a session has no list of tasks.
        let has_list = caller.session.is_some() || caller.owns_bridged() != Some(Owner::Anyone);
        text::host_tools(&names, terms.wait.as_secs())
            .iter()
            .filter(|tool| has_list || tool.name != names.list)
            .filter(|tool| !self.access.denies_by_name(caller, Object::Tool(&tool.name)))
            .map(|tool| tool.render(Revision::LATEST, false))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client may leave its answer unread for a long time, and so may thousands of others.
    #[test]
    fn n_1_pages_end_before_they_are_large() {
        let page = |sizes: &[usize], most| {
            let (page, more) = page_of(&mut sizes.iter().copied(), most, |size| *size);
            (page.len(), more)
        };
        assert_eq!(page(&[1; 10], 3), (3, true));
        assert_eq!(page(&[1; 3], 3), (3, false));
        assert_eq!(page(&[400 << 10; 10], 100), (2, true));
        assert_eq!(page(&[MAX_PAGE_BYTES + 1, 1], 100), (1, true), "one is always there");
        assert_eq!(page(&[], 100), (0, false));
    }
}
