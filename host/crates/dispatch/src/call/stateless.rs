//! `tools/call` by the rules of a stateless revision: the host decides what becomes a task, and asks
//! the client in the answer to its request.

use crate::access::caller::Caller;
use crate::application::Dispatch;
use crate::call::reply::{CallReply, CreatedTask};
use crate::call::tools_call::{MayBeTask, PermittedCall, TaskOrigin};
use crate::error::Fault;
use crate::run::questions::round_trip::{RequestBinding, RoundTrip};
use crate::settings::bridge::BridgeTerms;
use crate::slots::stop::Stop;
use crate::task::handover::Handover;
use std::sync::Arc;
use std::time::Duration;
use toolyard_protocol::stateless::input::Retry;
use toolyard_protocol::tools::{RequestedTtl, TaskSupport};
use toolyard_task::Task;
use toolyard_task::task::Era;
use toolyard_task::wire::TaskStatus;

impl Dispatch {
    /// A call by the rules of a stateless revision (26T-3, 26T-4).
    pub(crate) async fn call_statelessly(
        self: &Arc<Self>,
        caller: &Caller,
        mut call: PermittedCall,
        (tasks, bridge, retry): (bool, Option<BridgeTerms>, Retry),
    ) -> Result<CallReply, Fault> {
        let spec = call.permit.tool().spec();
        let support = spec.task_support;
        let may_be_task = self.deps.settings.tasks && support != TaskSupport::Forbidden;
        let bridge = bridge
            .filter(|_| may_be_task)
            .map(|terms| self.deps.tasks.timeouts.limit(terms.of_tool(spec), &call.rate_key));
        if self.deps.settings.tasks && !tasks && support == TaskSupport::Required && bridge.is_none() {
            return Err(Fault::TaskExtensionRequired);
        }
        if let Some(reply) = call.refuse_misfit() {
            return Ok(reply);
        }
        let spec = call.permit.tool().spec();
        let (name, arguments) = (spec.name(), call.permit.arguments());
        let binding = RequestBinding::of(caller, "tools/call", name.to_owned(), arguments.clone());
        let round_trip = RoundTrip::begin(&self.deps, binding, retry).await?;
        if let Some((task, answers)) = round_trip.answers_of_task() {
            let terms = bridge.ok_or(Fault::RequestState("calls no longer become tasks"))?;
            let wait = call.wait(terms, Some(round_trip.binding()));
            return Box::pin(self.answer_in_round(caller, task, answers, wait)).await;
        }
        if let Some(terms) = bridge {
            return self.call_bridged(caller, call, terms, Some(round_trip)).await;
        }
        if !(may_be_task && tasks) {
            let slot = self.admit(&call)?;
            let plain = self.begin_run(caller, call, slot, Some(round_trip), MayBeTask::No);
            return self.drive(caller, plain).await;
        }
        // A call that needs an approval is a task at once.
        let now = call.permit.unapproved().map(|_| Duration::ZERO);
        let inline_for = now.or(spec.inline_for).unwrap_or(match support {
            TaskSupport::Required => Duration::ZERO,
            _ => Duration::from_millis(self.deps.settings.inline_for_ms),
        });
        let slot = if inline_for.is_zero() { None } else { self.admit_or_queue(&call)? };
        let Some(slot) = slot else {
            let origin = TaskOrigin {
                era: Era::Stateless,
                ttl: RequestedTtl::Absent,
                round_trip: Some(round_trip),
                is_bridged: false,
            };
            return Box::pin(self.call_as_task(caller, call, origin)).await;
        };
        let plain = self.begin_run(caller, call, slot, Some(round_trip), MayBeTask::Created(inline_for));
        self.drive(caller, plain).await
    }

    /// The reply for a task of a stateless client, which learns of it in no other way.
    pub(crate) fn created_reply(self: &Arc<Self>, task: &Task, stop: &Stop) -> Result<CallReply, Fault> {
        let handover = Handover::of(&self.deps.tasks, task);
        if stop.is_set() {
            // 26S-2: it hears nothing more about its request.
            drop(handover);
            return Err(Fault::Cancelled);
        }
        let tool = self.deps.catalog.tool(&task.tool);
        let immediate_response = tool.and_then(|tool| tool.spec().immediate_response.clone());
        let mut view = task.view();
        if task.is_live() && task.open_questions().next().is_none() {
            // A task that waits for the operator asks its client nothing.
            view.status = TaskStatus::Working;
        }
        Ok(CallReply::Created(CreatedTask { view, immediate_response, handover: Some(handover) }))
    }
}
