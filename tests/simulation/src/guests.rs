//! Native tools that replace guests. Each follows a script that depends on its arguments alone, so a second
//! attempt does the same. Those whose tasks resume are in [`crate::saga`].

use crate::bridge::promises::{self, Promises};
use crate::dice::Dice;
use crate::saga;
use crate::time::HostClock;
use crate::trace::{Observed as _, demand};
use crate::world::{World, short};
use std::sync::Arc;
use std::time::Duration;
use toolyard_dispatch::{RawJson, RpcError};
use toolyard_kit::{Native, native};
use toolyard_task::recovery::Durability;
use toolyard_task::tool::{AskedQuestion, Report};
use toolyard_task::wire::text_result;
use toolyard_task::{Digest, RunContext, RunEnd, Tool};

/// The versions of the plugin.
pub const COMPONENTS: [&str; 2] = ["00", "01"];

/// A tool that may run again, one that must not, one whose calls are tasks at once, and two whose tasks resume.
pub const TOOLS: [(&str, Durability, Option<Duration>); 5] = [
    ("look", Durability::Rerun, None),
    ("pay", Durability::None, None),
    ("count", Durability::Rerun, Some(Duration::ZERO)),
    ("saga", Durability::Resume, None),
    ("order", Durability::Resume, Some(Duration::ZERO)),
];

enum Step {
    Wait(u64),
    Effect,
    Declare,
    Ask(u64),
    Say,
    BeginTask,
    Fail,
}

/// The arguments of this call: its number, and the script of its guest.
pub fn arguments(call: u64, script: u64) -> String {
    format!(r#"{{"call":{call},"script":{script}}}"#)
}

/// One of the two numbers in the arguments.
pub fn number(arguments: &RawJson, name: &str) -> u64 {
    let value: serde_json::Value = arguments.decode().unwrap_or_default();
    value[name].as_u64().unwrap_or_default()
}

fn script(arguments: &RawJson) -> Vec<Step> {
    let mut dice = Dice::new(number(arguments, "script"), 7);
    let length = dice.within(1, 6);
    let steps = (0..length).map(|_| match dice.below(20) {
        0..8 => Step::Wait(dice.pick(&[1, 20, 300, 1_000, 4_000, 15_000])),
        8..12 => Step::Effect,
        12 => Step::Declare,
        13..16 => Step::Ask(dice.below(3)),
        16..18 => Step::Say,
        18 => Step::BeginTask,
        _ => Step::Fail,
    });
    steps.collect()
}

/// The script of a call by a client without tasks: its arguments are the duration and the manner of the run.
fn bridge_script(arguments: &RawJson) -> Vec<Step> {
    let wait = Step::Wait(number(arguments, "time"));
    match number(arguments, "manner") {
        1 => vec![Step::BeginTask, wait],
        2 => vec![wait, Step::Fail],
        _ => vec![wait],
    }
}

/// A question with an empty form; the key selects it.
pub fn question(key: u64) -> AskedQuestion {
    let params = format!(r#"{{"message":"{key}?","requestedSchema":{{"type":"object","properties":{{}}}}}}"#);
    AskedQuestion { params: RawJson::trusted(params), ..toolyard_kit::question(&format!("q{key}")) }
}

/// The tools of a host, from this component.
pub fn tools(
    world: &World,
    host: usize,
    clock: &Arc<HostClock>,
    component: &Digest,
    without: Option<usize>,
) -> Vec<Arc<dyn Tool>> {
    let offered = TOOLS.iter().enumerate().filter(|(number, _)| Some(*number) != without);
    offered
        .map(|(_, (name, durability, inline_for))| {
            let world = world.clone();
            if *durability == Durability::Resume {
                return saga(world, host, clock.clone(), component.clone(), (name, *inline_for));
            }
            let tool = new_tool(name, *durability, *inline_for);
            tool.runs_with(move |arguments, context| run(world.clone(), host, arguments, context))
        })
        .collect()
}

/// The tools of a host whose clients know no tasks.
pub(crate) fn bridge_tools(world: &World, host: usize, promises: Promises) -> Vec<Arc<dyn Tool>> {
    let tools = promises::TOOLS.iter().map(|tool| {
        let world = world.clone();
        let tool = new_tool(tool.name, promises.durability(tool), None).task_support(tool.support);
        tool.runs_with(move |arguments, context| run(world.clone(), host, arguments, context))
    });
    tools.collect()
}

fn new_tool(name: &str, durability: Durability, inline_for: Option<Duration>) -> Native {
    inline_for.into_iter().fold(native(name).durability(durability), Native::inline_for)
}

/// A tool whose tasks resume, each on the component on which it began.
fn saga(
    world: World,
    host: usize,
    clock: Arc<HostClock>,
    component: Digest,
    (name, inline_for): (&'static str, Option<Duration>),
) -> Arc<dyn Tool> {
    let tool = new_tool(name, Durability::Resume, inline_for).digest(&component.0);
    let former = (world.clone(), clock.clone());
    let tool = tool.components(move |of| {
        let (world, clock) = former.clone();
        saga(world, host, clock, of, (name, inline_for))
    });
    tool.runs_with(move |arguments, context| {
        saga::run(world.clone(), host, clock.clone(), component.clone(), arguments, context)
    })
}

async fn run(world: World, host: usize, arguments: RawJson, context: Arc<dyn RunContext>) -> RunEnd {
    let number = world.see().runs.begin(host, number(&arguments, "call"));
    let run = Running { world: &world, number, context: &*context, task: context.info() };
    let call = world.see().bridge.number_in(&run.task.client_capabilities);
    let Some(call) = call else { return run.play(&script(&arguments)).await };
    world.see().bridge.begins(call, run.task.attempt, run.task.task.is_some());
    run.play(&bridge_script(&arguments)).await
}

struct Running<'a> {
    world: &'a World,
    number: usize,
    context: &'a dyn RunContext,
    task: toolyard_task::tool::CallInfo,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut seen = self.world.see();
        seen.runs.run_mut(self.number).is_going_on = false;
        if let Some(call) = seen.bridge.number_in(&self.task.client_capabilities) {
            seen.bridge.run_ends(call);
        }
    }
}

impl Running<'_> {
    async fn play(mut self, steps: &[Step]) -> RunEnd {
        for step in steps {
            self.look_up();
            match step {
                Step::Wait(time) => tokio::time::sleep(Duration::from_millis(*time)).await,
                Step::Effect => self.effect(),
                Step::Declare => match self.context.effects().await {
                    Ok(()) => self.world.see().runs.run_mut(self.number).declared = true,
                    Err(_) => return self.end(true),
                },
                Step::Ask(key) => {
                    if let Some(end) = self.ask(*key).await {
                        return end;
                    }
                }
                Step::Say => self.context.report(Report::Status(format!("said by run #{}", self.number))),
                Step::BeginTask => drop(self.context.begin_task().await),
                Step::Fail => {
                    self.look_up();
                    self.over();
                    return RunEnd::Error(RpcError::internal(format!("run #{} failed", self.number)));
                }
            }
        }
        self.end(false)
    }

    /// Looks up its task. A plain call has none yet, or never gets one.
    fn look_up(&mut self) {
        self.task = self.context.info();
        let mut seen = self.world.see();
        let Some((task, fence)) = seen.learns(self.number, &self.task) else { return };
        let (id, attempt) = (task.id, fence.attempt);
        let others: Vec<_> = seen.runs.of(id).cloned().collect();
        let holds = task.rerun || others.is_empty();
        demand!(seen, holds, "{}: run twice, though it is not declared idempotent: {others:?}", short(id));
        let declared =
            others.iter().any(|other| other.declared && other.task.is_some_and(|(_, f)| f.attempt < attempt));
        demand!(seen, !declared, "{}: run again after it had said that effects begin", short(id));
        demand!(seen, attempt <= crate::ledger::ATTEMPTS, "{}: run too often", short(id));
        if attempt > 1 {
            seen.count("re-runs");
        }
        seen.runs.works_on(self.number, id, fence);
    }

    fn effect(&self) {
        self.world.see().note(format_args!("run #{} has an effect", self.number));
    }

    async fn ask(&mut self, key: u64) -> Option<RunEnd> {
        let question = question(key);
        let (name, params) = (question.key.clone(), question.params.clone());
        let answers = self.context.ask(vec![question]).await;
        self.look_up();
        let mut seen = self.world.see();
        match answers {
            Ok(answers) => {
                seen.note(format_args!("run #{} got {answers:?}", self.number));
                if let Some((id, fence)) = seen.runs.run(self.number).task
                    && seen
                        .answered_in(id, &name, params.as_str())
                        .is_some_and(|attempt| attempt < fence.attempt)
                {
                    seen.count("replayed answers");
                }
                None
            }
            Err(error) => {
                seen.note(format_args!("run #{} got no answers: {error:?}", self.number));
                drop(seen);
                Some(self.end(true))
            }
        }
    }

    /// The run is about to end. If another run has superseded it, its end must change nothing; the ledger
    /// checks that.
    fn over(&self) {
        let mut seen = self.world.see();
        seen.note(format_args!("run #{} ends", self.number));
        let Some((id, fence)) = seen.runs.run(self.number).task else { return };
        let superseded = seen.ledger.entries.get(&id).is_some_and(|entry| entry.task.fence != fence);
        if superseded {
            seen.count("refused zombies");
        }
    }

    fn end(&mut self, is_error: bool) -> RunEnd {
        self.look_up();
        self.over();
        let text = format!("run #{}", self.number);
        RunEnd::Result { is_error, result: text_result(&text, is_error), message: None }
    }
}
