//! Notifications of changed lists and resources (TL-1, R-6, R-7, PR-5), gathered for a moment so that a burst
//! becomes one message.

use crate::session::ClientSession;
use bytes::Bytes;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{broadcast, watch};
use tokio::time::Instant;
use toolyard_dispatch::rules::Object;
use toolyard_dispatch::{Caller, Dispatch, ListVersions};
use toolyard_protocol::stateless::listen::{self, Filter};
use toolyard_protocol::{Id, Method, notification};

/// How long changes are gathered.
const MOMENT: Duration = Duration::from_millis(50);

/// Follows the changes.
pub(crate) struct ChangeReceiver {
    lists: watch::Receiver<ListVersions>,
    updates: broadcast::Receiver<Option<Arc<str>>>,
    /// The versions of the lists at the last notification.
    told: ListVersions,
    gathered: ResourceUpdates,
    since: Option<Instant>,
}

/// The changes since the last notification.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Changes {
    tools: bool,
    prompts: bool,
    resources: bool,
    updated: ResourceUpdates,
}

/// Resources that have changed.
#[derive(Debug, PartialEq, Eq)]
enum ResourceUpdates {
    These(BTreeSet<Arc<str>>),
    /// Any resource: the host no longer knows which ones have changed.
    Any,
}

impl ResourceUpdates {
    /// Whether this resource has changed, or may have.
    fn is(&self, uri: &str) -> bool {
        match self {
            Self::These(uris) => uris.contains(uri),
            Self::Any => true,
        }
    }
}

impl ChangeReceiver {
    pub fn of(dispatch: &Dispatch) -> Self {
        let lists = dispatch.catalog().lists();
        let told = *lists.borrow();
        let updates = dispatch.catalog().updates();
        Self { lists, updates, told, gathered: ResourceUpdates::These(BTreeSet::new()), since: None }
    }

    /// The next changes. Safe to drop while it waits: gathered changes are kept.
    pub async fn next(&mut self) -> Changes {
        loop {
            let end = self.since.map(|since| since + MOMENT);
            let moment = async {
                match end {
                    Some(end) => tokio::time::sleep_until(end).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = moment => break,
                Ok(()) = self.lists.changed() => {}
                update = self.updates.recv() => match (update, &mut self.gathered) {
                    (Ok(Some(uri)), ResourceUpdates::These(uris)) => {
                        uris.insert(uri);
                    }
                    (Ok(_), ResourceUpdates::Any) => {}
                    (Ok(None) | Err(broadcast::error::RecvError::Lagged(_)), gathered) => {
                        *gathered = ResourceUpdates::Any;
                    }
                    // The dispatcher outlives its followers.
                    (Err(broadcast::error::RecvError::Closed), _) => std::future::pending().await,
                },
            }
            self.since.get_or_insert_with(Instant::now);
        }
        self.since = None;
        let now = *self.lists.borrow_and_update();
        let told = std::mem::replace(&mut self.told, now);
        Changes {
            tools: now.tools != told.tools,
            prompts: now.prompts != told.prompts,
            resources: now.resources != told.resources,
            updated: std::mem::replace(&mut self.gathered, ResourceUpdates::These(BTreeSet::new())),
        }
    }
}

impl Changes {
    /// The messages for one client: only about declared capabilities (L-6), and only about resources that it
    /// subscribed to and may read.
    pub async fn messages(&self, dispatch: &Dispatch, client: &ClientSession) -> Vec<Bytes> {
        if !client.notification_filter.is_initialized() {
            return Vec::new();
        }
        let lists = self.lists(true, client.declared.prompts, client.declared.resources);
        let mut messages: Vec<_> = lists.map(|method| notification::list_changed(&method)).collect();
        let (caller, memory) = (client.caller(), client.memory.lock().await);
        let readable = self.readable(dispatch, &caller, &memory.subscriptions);
        messages.extend(readable.map(|uri| notification::resource_updated(uri)));
        messages
    }

    /// The messages for one subscription: only about what it was granted (26SUB-2), and only about resources
    /// that its client may still read.
    pub fn subscribed(&self, dispatch: &Dispatch, caller: &Caller, id: &Id, granted: &Filter) -> Vec<Bytes> {
        let lists = self.lists(granted.tools, granted.prompts, granted.resources);
        let lists = lists.map(|method| listen::list_changed(id, &method));
        let readable = self.readable(dispatch, caller, &granted.uris);
        lists.chain(readable.map(|uri| listen::resource_updated(id, uri))).collect()
    }

    /// The notifications of changed lists, for a client that gets those of these lists.
    fn lists(&self, tools: bool, prompts: bool, resources: bool) -> impl Iterator<Item = Method> {
        let lists = [
            (self.tools && tools, Method::ToolsListChanged),
            (self.prompts && prompts, Method::PromptsListChanged),
            (self.resources && resources, Method::ResourcesListChanged),
        ];
        lists.into_iter().filter_map(|(has_changed, method)| has_changed.then_some(method))
    }

    /// The changed resources among these that the caller may read.
    fn readable<'a>(
        &'a self,
        dispatch: &'a Dispatch,
        caller: &'a Caller,
        uris: impl IntoIterator<Item = &'a String>,
    ) -> impl Iterator<Item = &'a String> {
        let is_shown = |uri: &str| dispatch.access().shows(caller, Object::Resource(uri));
        uris.into_iter().filter(move |uri| self.updated.is(uri) && is_shown(uri))
    }
}
