//! Waits for the approval of a call (`confirm`). The call is a task, and nothing of its guest runs before.

use crate::access::caller::Caller;
use crate::client::client_channel::RouteScope;
use crate::run::as_task::RunTask;
use crate::run::deps::RunDeps;
use crate::run::questions::LOOK_AGAIN;
use crate::run::run::Run;
use crate::slots::Counted;
use crate::slots::admission::{SlotRequest, UnapprovedRequest};
use crate::task::commit::log_store_retry;
use std::time::Duration;
use tokio::time::Instant;
use toolyard_protocol::ClientCapabilities;
use toolyard_task::approval::{Approval, ApprovalObject, ConfirmBy, ConfirmTerms};
use toolyard_task::audit::By;
use toolyard_task::store::ReadTask;
use toolyard_task::{Event, StoreError, Task};

impl RunDeps {
    /// The new task, waiting for an approval on these terms.
    pub(crate) fn unapproved(&self, new: Task, terms: &ConfirmTerms, caller: &Caller) -> Task {
        let object = ApprovalObject::of(&new);
        let login = caller.console.as_deref().map(str::to_owned);
        let approval = Approval { login, ..Approval::asked(terms, object, self.settings.approval_ms) };
        let (attempt, deadline) = (new.fence.attempt, approval.expires_at(&new));
        let client = ClientCapabilities::of(&new.client_capabilities);
        let page = || {
            let url = format!("{}/q/{}", self.console()?, new.id);
            Some(object.page(&approval, (&url, &self.ids.uuid().to_string()), attempt, deadline))
        };
        let question = match terms.by {
            ConfirmBy::Person | ConfirmBy::Either if client.form => {
                Some(object.question(&approval, attempt, deadline))
            }
            ConfirmBy::Operator | ConfirmBy::Either if client.url => page(),
            _ => None,
        };
        let questions = question.into_iter().collect();
        Task { approval: Some(Box::new(approval)), questions, ..new }
    }
}

impl Run {
    /// Waits until the call is approved. `None` if it has ended instead.
    pub(crate) async fn approved(&self, mut unapproved: UnapprovedRequest) -> Option<SlotRequest> {
        let RunTask { id, fence, .. } = self.task()?;
        let _counted = Counted::new(&self.deps.slots.unapproved);
        let tasks = &self.deps.tasks;
        let watch = tasks.waiters.watch(id);
        let mut scope = RouteScope::Expected;
        let settle = Duration::from_millis(self.deps.settings.question_settle_ms);
        let mut next_look = Instant::now() + settle;
        loop {
            let changed = watch.changed();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let (task, now) = match tasks.store.read(id, None).await {
                Ok(Some(ReadTask { task, now })) if task.is_live() && task.fence == fence => (task, now),
                Ok(_) => return None,
                Err(error) => {
                    self.retry_store(&error).await;
                    continue;
                }
            };
            unapproved = match unapproved.approved(&task) {
                Ok(request) => return Some(request),
                Err(unapproved) => unapproved,
            };
            let left = task.open_approval()?.expires_at(&task).since(now);
            let step = match left {
                0 => tasks.change(id, &Event::ApprovalExpired, &By::host()).await.map(drop),
                _ => self.offer(&task, std::mem::replace(&mut scope, RouteScope::Expected)).await,
            };
            if let Err(error) = step {
                self.retry_store(&error).await;
                continue;
            }
            tokio::select! {
                biased;
                () = changed => {}
                () = tokio::time::sleep(Duration::from_millis(left)) => {}
                () = tokio::time::sleep_until(next_look) => {
                    next_look = Instant::now() + LOOK_AGAIN;
                    scope = RouteScope::Anywhere;
                }
            }
        }
    }

    pub(crate) async fn retry_store(&self, error: &StoreError) {
        log_store_retry(self.task().map(|task| task.id), error);
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}
