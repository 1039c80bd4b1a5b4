//! `subscriptions/listen` (26SUB): the notifications of a client until it disconnects.
//!
//! Nothing waits for a client that reads slowly. The writer takes the next message once there is room for it,
//! and all changes meanwhile become one notification of the latest state. So a subscription takes a bounded
//! amount of memory, and a slow client misses only intermediate states.

use crate::answer::Answer;
use crate::change_notifications::ChangeReceiver;
use crate::failure::Failure;
use crate::methods::snapshot;
use crate::request::Request;
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::{BoxStream, SelectAll};
use std::collections::VecDeque;
use tokio_util::sync::CancellationToken;
use toolyard_dispatch::rules::Object;
use toolyard_dispatch::{Fault, Operation, RETRY_AFTER_MS, Task};
use toolyard_protocol::ClientCapabilities;
use toolyard_protocol::stateless::error::tasks_required;
use toolyard_protocol::stateless::listen::{self, Filter};

/// The subscription of one client.
pub(crate) struct Subscription {
    request: Box<Request>,
    /// The client's capabilities, which decide what it may receive (26M-3).
    client: ClientCapabilities,
    granted: Filter,
    changes: ChangeReceiver,
    tasks: SelectAll<BoxStream<'static, Task>>,
    /// Messages to send before any others.
    ready: VecDeque<Bytes>,
    /// Cancelled when the server stops.
    ending: CancellationToken,
    over: bool,
}

impl Subscription {
    /// Grants what it can and drops the rest silently, because a reply would reveal what exists (26T-24).
    ///
    /// # Errors
    /// The answer to a request that is refused as a whole.
    pub async fn open(request: Box<Request>, ending: CancellationToken) -> Result<Self, Answer> {
        // Before anything is read, so that no change is missed.
        let changes = ChangeReceiver::of(&request.server.dispatch);
        let (granted, tasks) = grant(&request).await.map_err(|failure| request.refuse(failure))?;
        let mut ready = VecDeque::from([listen::acknowledged(&request.id, &granted)]);
        let over = granted.is_empty();
        if over {
            ready.push_back(listen::ended(&request.id));
        }
        let client = ClientCapabilities::of(&request.caller.capabilities);
        Ok(Self { request, client, granted, changes, tasks, ready, ending, over })
    }

    /// The next message; none after the last. Safe to drop while it waits.
    pub async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                return Some(message);
            }
            if self.over {
                return None;
            }
            tokio::select! {
                biased;
                () = self.ending.cancelled() => {
                    self.over = true;
                    return Some(listen::ended(&self.request.id));
                }
                Some(task) = self.tasks.next() => self.tell_of(&task),
                changes = self.changes.next() => {
                    let Request { server, caller, id, .. } = &*self.request;
                    self.ready.extend(changes.subscribed(&server.dispatch, caller, id, &self.granted));
                }
            }
        }
    }

    /// A task that waits for a capability which this client lacks is reported when it continues: every
    /// notification is complete (26T-19, 26T-23).
    fn tell_of(&mut self, task: &Task) {
        let now = self.request.server.dispatch.now();
        if let Ok(detailed) = snapshot(task, &self.client, now) {
            self.ready.push_back(listen::task(&self.request.id, &detailed));
        }
    }
}

/// The granted part of the request, and the changes of the tasks in it.
async fn grant(request: &Request) -> Result<(Filter, SelectAll<BoxStream<'static, Task>>), Failure> {
    let Request { server, caller, method, params, .. } = request;
    let dispatch = &server.dispatch;
    let mut filter = Filter::decode(params.as_ref())?;
    if !dispatch.settings().tasks {
        filter.tasks.clear();
    }
    if !filter.tasks.is_empty() {
        // 26T-6: checked before any id.
        if !request.has_tasks() {
            return Err(tasks_required().into());
        }
        request.count_as(Operation::Polling)?;
    }
    let most = server.settings.subscriptions;
    if filter.uris.len() + filter.tasks.len() > most {
        let what = format!("{method} names more than {most} resources and tasks, the most");
        return Err(Fault::Busy { what, limit: "wire.subscriptions", retry_after_ms: RETRY_AFTER_MS }.into());
    }
    let offers = dispatch.catalog().offers();
    filter.prompts &= offers.prompts;
    filter.resources &= offers.resources;
    filter.uris.retain(|uri| offers.resources && dispatch.access().shows(caller, Object::Resource(uri)));
    let mut tasks = SelectAll::new();
    for id in std::mem::take(&mut filter.tasks) {
        let known = dispatch.tasks().await?;
        match known.task(caller, &id).await {
            Ok(task) => {
                // It begins with the current task, which closes the gap before (26SUB-7).
                tasks.push(known.follow_task((**caller).clone(), task.id).boxed());
                filter.tasks.push(id);
            }
            Err(Fault::UnknownTask) => {
                // A client must not be able to guess ids here either.
                if request.count_as(Operation::FailedLookup).is_err() {
                    break;
                }
            }
            Err(fault) => return Err(fault.into()),
        }
    }
    Ok((filter, tasks))
}
