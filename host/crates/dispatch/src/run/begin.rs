//! Makes a call a task. This is the only place that does, whether the call is a task from its beginning
//! or becomes one while it runs.

use crate::access::caller::Caller;
use crate::access::permit::CallPermit;
use crate::error::Fault;
use crate::run::deps::RunDeps;
use crate::run::run::Run;
use crate::slots::registry::RunGuard;
use std::sync::Arc;
use toolyard_protocol::RawJson;
use toolyard_protocol::tools::RequestedTtl;
use toolyard_task::audit::By;
use toolyard_task::store::Records;
use toolyard_task::task::{Bridged, Era, Resume};
use toolyard_task::{Durability, Fence, Task, TaskId};

/// The terms of a new task.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewTaskTerms {
    pub era: Era,
    pub requested_ttl: RequestedTtl,
    /// Present if its client knows no tasks.
    pub bridged: Option<Bridged>,
}

impl RunDeps {
    /// A task that begins now, or is about to.
    pub fn new_task(
        &self,
        caller: &Caller,
        permit: &CallPermit,
        progress_token: Option<RawJson>,
        fence: Fence,
        terms: NewTaskTerms,
    ) -> Task {
        let NewTaskTerms { era, requested_ttl, bridged } = terms;
        let settings = &self.settings;
        let spec = permit.tool().spec();
        let ttl_ms = match requested_ttl {
            RequestedTtl::Absent => settings.ttl_default_ms,
            RequestedTtl::Unlimited => settings.ttl_cap_ms,
            RequestedTtl::Milliseconds(ms) => ms,
        };
        let now = self.clock.now();
        let new = Task {
            id: TaskId(self.ids.uuid()),
            owner: match bridged {
                Some(_) => caller.owns_bridged(),
                None => caller.creates_for(),
            }
            .expect("looked at before anything was done"),
            session: caller.session.clone(),
            era,
            client_capabilities: caller.abilities(),
            tool: spec.name().to_owned(),
            digest: spec.digest.clone(),
            arguments: permit.arguments().clone(),
            progress_token,
            requested_ttl,
            ttl_ms: ttl_ms.min(settings.ttl_cap_ms),
            poll_interval_ms: spec.poll_interval_ms.unwrap_or(settings.poll_interval_ms),
            created_at: now,
            updated_at: now,
            status_message: None,
            version: 1,
            fence,
            started_at: Some(now),
            effects: false,
            rerun: spec.durability == Durability::Rerun,
            resume: (spec.durability == Durability::Resume)
                .then(|| Resume { retention: spec.journal.retention, ..Resume::default() }),
            bridged,
            unresumable: None,
            approval: None,
            questions: Vec::new(),
            outcome: None,
        };
        match permit.unapproved() {
            None => new,
            Some(terms) => self.unapproved(new, terms, caller),
        }
    }

    /// Makes the run that of a task: registers it, stores and counts the task, and reports it to
    /// observers. `by` is who calls.
    ///
    /// # Errors
    /// [`Fault::Busy`], [`Fault::Store`]; then there is no task.
    pub async fn create_task(
        self: &Arc<Self>,
        run: &Run,
        new: Task,
        by: &By,
        waiting: bool,
    ) -> Result<(Task, RunGuard), Fault> {
        self.tasks.make_room_for(&new).await?;
        if new.resume.is_some() {
            self.tasks.make_room_for_journal(&new.owner).await?;
        }
        // Registered before it is stored, so that a cancel which finds the record finds the
        // run as well.
        let guard = self.slots.register(Some(new.id), run.registration(), waiting);
        let incarnation = new.fence.incarnation;
        let records = Records::created(&new, by);
        let created = self.tasks.store.create(new, self.tasks.quota(), records).await;
        let task = created.map_err(|error| self.tasks.not_created(error))?;
        guard.mark_stored(|| self.node.current() == Some(incarnation));
        run.set_task(&task);
        self.observers.metrics.created.inc();
        self.tasks.waiters.count_change();
        Ok((task, guard))
    }
}
