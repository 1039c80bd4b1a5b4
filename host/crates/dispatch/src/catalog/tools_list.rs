//! `tools/list`: entries rendered once a catalog, not once a request.

use crate::Fault;
use crate::access::caller::Caller;
use crate::access::rate_limit::ToolRateLimit;
use crate::access::rules::Object;
use crate::catalog::LiveCatalog;
use crate::observe::metrics::MeasuredTool;
use std::collections::HashMap;
use std::sync::Arc;
use toolyard_protocol::page::page;
use toolyard_protocol::stateless::param_headers::{ParamHeader, param_headers};
use toolyard_protocol::tools::TaskSupport;
use toolyard_protocol::{RawJson, Revision};
use toolyard_task::{Catalog, Rate};

/// The most bytes of a page. A page may have one entry that is larger.
const MAX_PAGE_BYTES: usize = 1 << 20;

/// A catalog and its listing entries, with and without the mention of tasks.
#[derive(Default)]
pub(crate) struct CatalogSnapshot {
    pub catalog: Arc<Catalog>,
    /// Its tools, with what is counted about each.
    measured: HashMap<String, Arc<MeasuredTool>>,
    entries: Vec<Entry>,
    /// Of the tools whose manifests set a rate.
    rate_limits: HashMap<String, Arc<ToolRateLimit>>,
}

struct Entry {
    name: String,
    with_tasks: RawJson,
    without_tasks: RawJson,
    /// Its parameters that HTTP clients repeat in headers (26XH).
    param_headers: Arc<[ParamHeader]>,
}

/// The client generation that tools are listed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListFor {
    /// A client of this revision, which opened with `initialize`.
    Sessions(Revision),
    /// A stateless client, to which tools say nothing of tasks (26TL-1).
    Stateless,
}

impl CatalogSnapshot {
    /// A catalog, after the former one: a tool whose rate is still the same goes on
    /// being counted.
    pub fn of(catalog: Arc<Catalog>, measured: HashMap<String, Arc<MeasuredTool>>, former: &Self) -> Self {
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
                Entry {
                    name: description.name.clone(),
                    with_tasks: description.render(Revision::LATEST, true),
                    without_tasks: description.render(Revision::LATEST, false),
                    // An invalid annotation counts as none; the loader of the tool has reported it.
                    param_headers: param_headers(&description.input_schema).unwrap_or_default().into(),
                }
            })
            .collect();
        Self { catalog, measured, entries, rate_limits }
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

/// The next page: so many entries, or fewer where they are large, but one at least; and whether more
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
    #[must_use]
    pub fn param_headers(&self, caller: &Caller, tool: &str, has_tasks: bool) -> Arc<[ParamHeader]> {
        let snapshot = self.snapshot.load();
        let lacks_tasks = self.settings.tasks && !has_tasks;
        let needs_tasks = |tool: &MeasuredTool| tool.spec().task_support == TaskSupport::Required;
        if lacks_tasks && snapshot.measured.get(tool).is_some_and(|tool| needs_tasks(tool)) {
            return Arc::default();
        }
        let found = snapshot.entries.binary_search_by(|entry| entry.name.as_str().cmp(tool));
        let wanted =
            found.map_or_else(|_| Arc::default(), |place| snapshot.entries[place].param_headers.clone());
        if wanted.is_empty() || self.access.shows(caller, Object::Tool(tool)) {
            wanted
        } else {
            Arc::default()
        }
    }

    pub async fn list_tools(
        &self,
        caller: &Caller,
        whom: ListFor,
        cursor: Option<&str>,
    ) -> Result<RawJson, Fault> {
        const SCOPE: &str = "tools";
        let after = match cursor {
            Some(cursor) => Some(self.clients.open_cursor(SCOPE, cursor).await?),
            None => None,
        };
        let snapshot = self.snapshot.load_full();
        // The name is the key, so a page goes on rightly in a newer catalog too.
        let start = after.map_or(0, |after| snapshot.entries.partition_point(|entry| entry.name <= after));
        let mut visible = snapshot.entries[start..]
            .iter()
            .filter(|entry| self.access.shows(caller, Object::Tool(&entry.name)));
        let (shown, more) =
            page_of(&mut visible, self.settings.page, |entry| entry.with_tasks.as_bytes().len());
        let next = match shown.last() {
            Some(last) if more => Some(self.clients.seal_cursor(SCOPE, &last.name).await?),
            _ => None,
        };
        let tasks = match whom {
            ListFor::Sessions(revision) => self.settings.tasks && revision.has_tasks(),
            ListFor::Stateless => false,
        };
        let entries = shown.iter().map(|entry| if tasks { &entry.with_tasks } else { &entry.without_tasks });
        Ok(page("tools", entries, next.as_deref()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client may not read its answer for long, and thousands of clients may do so.
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
