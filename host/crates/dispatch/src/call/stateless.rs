//! `tools/call` by the rules of a stateless revision: the host decides what becomes a
//! task, and the client is asked by the answer to its request.

use crate::access::caller::Caller;
use crate::call::reply::{CallReply, CreatedTask};
use crate::call::tools_call::{PermittedCall, PlainCall, RoundTripSetup, TaskOrigin};
use crate::run::promote::{EndOrTask, PromotionWait};
use crate::run::round_trip::{RequestBinding, RoundTrip};
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
        (tasks, retry): (bool, Retry),
    ) -> Result<CallReply, Fault> {
        let support = call.permit.tool().spec().task_support;
        if self.deps.settings.tasks && !tasks && support == TaskSupport::Required {
            return Err(Fault::TaskExtensionRequired);
        }
        match call.check() {
            ArgumentCheck::Fits => {}
            ArgumentCheck::Misfit(wrong) => return Ok(CallReply::Result(text_result(&wrong, true))),
            ArgumentCheck::Unfinished => call.is_checked = false,
        }
        let (name, arguments) = (call.permit.tool().spec().name(), call.permit.arguments());
        let binding = RequestBinding::of(caller, "tools/call", name.to_owned(), arguments.clone());
        let round_trip = RoundTrip::begin(&self.deps, binding, retry).await?;
        let may_be_task = self.deps.settings.tasks && tasks && support != TaskSupport::Forbidden;
        let inline_for = call.permit.tool().spec().inline_for.unwrap_or(match support {
            TaskSupport::Required => Duration::ZERO,
            _ => Duration::from_millis(self.deps.settings.inline_for_ms),
        });
        if may_be_task && inline_for.is_zero() {
            let origin =
                TaskOrigin { era: Era::Stateless, ttl: RequestedTtl::Absent, round_trip: Some(round_trip) };
            return Box::pin(self.call_as_task(caller, call, origin)).await;
        }
        let plain = self.begin_run(caller, call, Some(RoundTripSetup { round_trip, may_be_task }))?;
        let PlainCall { run, slot, drive, became, cancelled } = plain;
        let end = match became {
            None => run.to_end(slot, drive).await.unwrap_or(RunEnd::Stopped),
            Some(became) => {
                let wait = PromotionWait { became, stop: &cancelled, inline_for };
                match run.to_end_or_task(wait, slot, drive).await {
                    EndOrTask::End(end) => end,
                    EndOrTask::Task(task) => return self.created_reply(&task, &cancelled),
                }
            }
        };
        self.reply_to(&run, end, &cancelled).await
    }

    /// The reply for a task of a stateless client, which learns of it in no other way.
    pub(crate) fn created_reply(self: &Arc<Self>, task: &Task, stop: &Stop) -> Result<CallReply, Fault> {
        let handover = Handover::of(&self.deps.tasks, task.id);
        if stop.is_set() {
            // 26S-2: it hears nothing more of its request.
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
