//! `tools/call` by the rules of a stateless revision: the host decides what becomes a task, and asks
//! the client in the answer to its request.

use crate::access::caller::Caller;
use crate::bridge::BridgeTerms;
use crate::call::reply::{CallReply, CreatedTask};
use crate::call::tools_call::{MayBeTask, PermittedCall, PlainCall, TaskOrigin};
use crate::run::promote::{EndOrTask, PromotionWait};
use crate::run::round_trip::{RequestBinding, RoundTrip};
use crate::slots::admission::SlotRequest;
use crate::slots::stop::Stop;
use crate::task::handover::Handover;
use crate::{Dispatch, Fault};
use std::sync::Arc;
use std::time::Duration;
use toolyard_protocol::stateless::input::Retry;
use toolyard_protocol::tools::{RequestedTtl, TaskSupport, text_result};
use toolyard_task::task::Era;
use toolyard_task::tool::ArgumentCheck;
use toolyard_task::{RunEnd, Task};

impl Dispatch {
    /// A call by the rules of a stateless revision (26T-3, 26T-4).
    pub(crate) async fn call_statelessly(
        self: &Arc<Self>,
        caller: &Caller,
        mut call: PermittedCall,
        (tasks, agent, retry): (bool, Option<String>, Retry),
    ) -> Result<CallReply, Fault> {
        let spec = call.permit.tool().spec();
        let support = spec.task_support;
        let may_be_task = self.deps.settings.tasks && support != TaskSupport::Forbidden;
        let bridge = self.deps.settings.bridge.as_ref().filter(|_| may_be_task && !tasks);
        let bridge = bridge.map(|bridge| {
            let terms = bridge.terms(agent.as_deref());
            BridgeTerms { after: spec.bridge_after.unwrap_or(terms.after), ..terms }
        });
        let may_be_task = may_be_task && (tasks || bridge.is_some());
        if self.deps.settings.tasks && !tasks && support == TaskSupport::Required && bridge.is_none() {
            return Err(Fault::TaskExtensionRequired);
        }
        match call.check() {
            ArgumentCheck::Fits => {}
            ArgumentCheck::Misfit(wrong) => return Ok(CallReply::Result(text_result(&wrong, true))),
            ArgumentCheck::Unfinished => call.is_checked = false,
        }
        let (name, arguments) = (spec.name(), call.permit.arguments());
        let binding = RequestBinding::of(caller, "tools/call", name.to_owned(), arguments.clone());
        let round_trip = RoundTrip::begin(&self.deps, binding, retry).await?;
        let inline_for = spec.inline_for.unwrap_or(match support {
            TaskSupport::Required => Duration::ZERO,
            _ => Duration::from_millis(self.deps.settings.inline_for_ms),
        });
        if let Some(terms) = bridge
            && !self.deps.tasks.rejoin.is_empty()
            && let Some(reply) = Box::pin(self.joined(caller, &call, terms)).await?
        {
            return Ok(reply);
        }
        if let Some(terms) = bridge
            && support == TaskSupport::Required
        {
            return Box::pin(self.call_as_bridged_task(caller, call, terms, Some(round_trip))).await;
        }
        let as_task = |round_trip| TaskOrigin {
            era: Era::Stateless,
            ttl: RequestedTtl::Absent,
            round_trip: Some(round_trip),
            is_bridged: false,
        };
        if may_be_task && bridge.is_none() && inline_for.is_zero() {
            return Box::pin(self.call_as_task(caller, call, as_task(round_trip))).await;
        }
        let slot = match self.deps.slots.admission.admit(SlotRequest::of_call(&call.permit)) {
            Ok(slot) => slot,
            Err(full) if may_be_task && self.may_wait_in_line(full) => {
                self.deps.observers.metrics.count_queued(full.setting());
                return match bridge {
                    Some(terms) => {
                        Box::pin(self.call_as_bridged_task(caller, call, terms, Some(round_trip))).await
                    }
                    None => Box::pin(self.call_as_task(caller, call, as_task(round_trip))).await,
                };
            }
            Err(full) => return Err(self.deps.slots.busy(full)),
        };
        let how = match (may_be_task, bridge) {
            (false, _) => MayBeTask::No,
            (true, None) => MayBeTask::Created,
            (true, Some(terms)) => MayBeTask::HandedOff(terms, Era::Stateless),
        };
        let mut plain = self.begin_run(caller, call, slot, Some(round_trip), how);
        if let Some(end) = plain.first_poll() {
            return self.reply_to(&plain.run, end, &plain.cancelled).await;
        }
        if bridge.is_some() {
            return Box::pin(self.reply_or_hand_off(caller, plain)).await;
        }
        let PlainCall { run, slot, drive, became, cancelled, .. } = plain;
        let end = match became {
            None => run.to_end(slot, drive).await.unwrap_or(RunEnd::Stopped),
            Some(became) => {
                let wait = PromotionWait { became, stop: &cancelled, inline_for, bridge };
                match Box::pin(run.to_end_or_task(wait, slot, drive)).await {
                    EndOrTask::End(end) => end,
                    EndOrTask::Task(promoted) => return self.created_reply(&promoted.task, &cancelled),
                }
            }
        };
        self.reply_to(&run, end, &cancelled).await
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
        Ok(CallReply::Created(CreatedTask {
            view: task.view(),
            immediate_response,
            handover: Some(handover),
        }))
    }
}
