//! Metrics of calls and tasks.
//!
//! No label has a value from a client: tools are those of the catalog, and the rest are the
//! constants here. The series of a tool are looked up when its catalog is published, so that a call
//! only adds to counters that it holds.

use crate::observe::call_end::CallEnd;
use crate::observe::event::{EventSink, RunEvent, RunFacts};
use crate::observe::load::Load;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use toolyard_task::run_journal::DoubtDecision;
use toolyard_task::tool::{Report, RunUsage};
use toolyard_task::{Catalog, Outcome, Tool};

const TOOL: &str = "tool";
const OUTCOME: &str = "outcome";
const STATE: &str = "state";
const BY: &str = "by";
const RULE: &str = "rule";
const SCOPE: &str = "scope";
const LIMIT: &str = "limit";
const WHY: &str = "why";
const DECISION: &str = "decision";

/// Seconds: from a quick call to the longest that a manifest is likely to allow.
const SECONDS: [f64; 14] =
    [0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0, 600.0, 3600.0];
/// Bytes: from one page to more than a guest gets by default.
const BYTES: [f64; 8] = [
    65_536.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    33_554_432.0,
    67_108_864.0,
    268_435_456.0,
    1_073_741_824.0,
];

type ToolLabel = [(&'static str, Arc<str>); 1];
type Label = [(&'static str, &'static str); 1];
type CallLabels = (ToolLabel, Label);
type Seconds = Counter<f64, AtomicU64>;

/// The numbers of one dispatcher.
pub(crate) struct Metrics {
    calls: Family<CallLabels, Counter>,
    durations: Family<ToolLabel, Histogram, fn() -> Histogram>,
    cpu: Family<ToolLabel, Seconds>,
    memory: Histogram,
    /// Tasks that are durable.
    pub created: Counter,
    /// Ended tasks that were removed before their ttl.
    pub discarded: Counter,
    /// Tasks of dead hosts that are this one's.
    pub claimed: Counter,
    ended: Family<Label, Counter>,
    denied: Family<Label, Counter>,
    queued: Family<Label, Counter>,
    handoffs: Family<ToolLabel, Counter>,
    /// Calls that have joined the task of an equal call.
    pub rejoins: Counter,
    /// Calls that go on as tasks although their clients have stopped waiting.
    pub kept: Counter,
    journal_entries: Counter,
    journal_bytes: Counter,
    journal_flushes: Counter,
    resumed: Family<Label, Counter>,
    /// Runs that did not repeat their journals.
    pub diverged: Counter,
    doubts: Family<Label, Counter>,
    parked: ParkedCount,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            calls: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(SECONDS)),
            cpu: Family::default(),
            memory: Histogram::new(BYTES),
            created: Counter::default(),
            discarded: Counter::default(),
            claimed: Counter::default(),
            ended: Family::default(),
            denied: Family::default(),
            queued: Family::default(),
            handoffs: Family::default(),
            rejoins: Counter::default(),
            kept: Counter::default(),
            journal_entries: Counter::default(),
            journal_bytes: Counter::default(),
            journal_flushes: Counter::default(),
            resumed: Family::default(),
            diverged: Counter::default(),
            doubts: Family::default(),
            parked: ParkedCount::default(),
        }
    }
}

/// A tool of the catalog, and the numbers that its calls add to.
#[derive(Clone)]
pub(crate) struct MeasuredTool {
    tool: Arc<dyn Tool>,
    ok: Counter,
    tool_error: Counter,
    error: Counter,
    input_required: Counter,
    stopped: Counter,
    /// Calls whose arguments did not fit, so that nothing ran.
    pub invalid: Counter,
    /// Calls that go on as tasks of clients that know none.
    pub handed_off: Counter,
    duration: Histogram,
    cpu: Seconds,
    memory: Histogram,
}

impl Deref for MeasuredTool {
    type Target = dyn Tool;

    fn deref(&self) -> &Self::Target {
        &*self.tool
    }
}

impl MeasuredTool {
    /// The tool itself.
    pub fn tool(&self) -> Arc<dyn Tool> {
        self.tool.clone()
    }

    /// Another tool, whose calls add to the same numbers.
    pub fn with(&self, tool: Arc<dyn Tool>) -> Self {
        Self { tool, ..self.clone() }
    }

    /// A run has ended.
    fn count_end(&self, end: CallEnd) {
        let counter = match end {
            CallEnd::Ok => &self.ok,
            CallEnd::ToolError => &self.tool_error,
            CallEnd::Error(_) => &self.error,
            CallEnd::InputRequired => &self.input_required,
            CallEnd::Stopped => &self.stopped,
        };
        counter.inc();
    }

    /// Adds the resources that a run used.
    fn spent(&self, spent: &RunUsage) {
        self.duration.observe(spent.wall.as_secs_f64());
        self.cpu.inc_by(spent.cpu.as_secs_f64());
        if let Some(bytes) = spent.memory {
            self.memory.observe(bytes as f64);
        }
    }
}

impl EventSink for MeasuredTool {
    fn receive(&self, _run: &RunFacts<'_>, event: RunEvent<'_>) {
        match event {
            RunEvent::Reported(Report::Usage(spent)) => self.spent(spent),
            RunEvent::Ended { called, .. } => self.count_end(called),
            _ => {}
        }
    }
}

impl Metrics {
    /// The tools of a catalog with their numbers. The numbers of other tools are dropped, so that there
    /// are never more than the catalog has tools.
    pub fn measure(&self, former: &Catalog, catalog: &Catalog) -> HashMap<String, Arc<MeasuredTool>> {
        for tool in former.tools().filter(|tool| catalog.get(tool.spec().name()).is_none()) {
            let name: Arc<str> = tool.spec().name().into();
            for outcome in OUTCOMES {
                self.calls.remove(&([(TOOL, name.clone())], [(OUTCOME, outcome)]));
            }
            self.durations.remove(&[(TOOL, name.clone())]);
            self.handoffs.remove(&[(TOOL, name.clone())]);
            self.cpu.remove(&[(TOOL, name)]);
        }
        catalog.tools().map(|tool| (tool.spec().name().to_owned(), Arc::new(self.of(tool)))).collect()
    }

    fn of(&self, tool: &Arc<dyn Tool>) -> MeasuredTool {
        let name: Arc<str> = tool.spec().name().into();
        let count = |outcome| {
            let labels = ([(TOOL, name.clone())], [(OUTCOME, outcome)]);
            self.calls.get_or_create_owned(&labels)
        };
        let [ok, tool_error, error, input_required, stopped, invalid] = OUTCOMES.map(count);
        MeasuredTool {
            tool: tool.clone(),
            ok,
            tool_error,
            error,
            input_required,
            stopped,
            invalid,
            handed_off: self.handoffs.get_or_create_owned(&[(TOOL, name.clone())]),
            duration: self.durations.get_or_create_owned(&[(TOOL, name.clone())]),
            cpu: self.cpu.get_or_create_owned(&[(TOOL, name.clone())]),
            memory: self.memory.clone(),
        }
    }

    /// The end of a task is durable.
    pub fn count_ended(&self, outcome: &Outcome) {
        self.ended.get_or_create(&[(OUTCOME, ending(outcome))]).inc();
    }

    /// The rules did not allow something; a scope would help, or not.
    pub fn count_denied(&self, scope_helps: bool) {
        self.denied.get_or_create(&[(BY, if scope_helps { SCOPE } else { RULE })]).inc();
    }

    /// A call waits for its turn at this limit, although it did not ask for a task.
    pub fn count_queued(&self, limit: &'static str) {
        self.queued.get_or_create(&[(LIMIT, limit)]).inc();
    }

    /// Chunks of a journal are durable.
    pub fn count_flush(&self, entries: u64, bytes: u64) {
        self.journal_entries.inc_by(entries);
        self.journal_bytes.inc_by(bytes);
        self.journal_flushes.inc();
    }

    /// Counts a task that this host continues from its journal.
    pub fn count_resumed(&self, why: ResumedWhy) {
        self.resumed.get_or_create(&[(WHY, why.as_str())]).inc();
    }

    /// Counts a decision about a request that was under way when its host stopped.
    pub fn count_doubt(&self, decision: DoubtDecision) {
        self.doubts.get_or_create(&[(DECISION, decision.as_str())]).inc();
    }

    /// The number of parked tasks in the store; `None` if the store did not say.
    pub fn set_parked(&self, count: Option<u64>) {
        self.parked.set(count);
    }

    pub fn register(&self, registry: &mut Registry) {
        for why in [ResumedWhy::Woken, ResumedWhy::Claimed] {
            drop(self.resumed.get_or_create(&[(WHY, why.as_str())]));
        }
        for decision in [DoubtDecision::Resend, DoubtDecision::Error, DoubtDecision::Fail] {
            drop(self.doubts.get_or_create(&[(DECISION, decision.as_str())]));
        }
        for by in [RULE, SCOPE] {
            drop(self.denied.get_or_create(&[(BY, by)]));
        }
        for limit in LIMITS {
            drop(self.queued.get_or_create(&[(LIMIT, limit)]));
        }
        for outcome in ENDINGS {
            drop(self.ended.get_or_create(&[(OUTCOME, outcome)]));
        }
        registry.register(
            "toolyard_calls",
            "Calls that a tool was found for, by how they ended",
            self.calls.clone(),
        );
        registry.register_with_unit(
            "toolyard_run_duration",
            "Elapsed time of a tool's runs",
            Unit::Seconds,
            self.durations.clone(),
        );
        registry.register_with_unit(
            "toolyard_guest_cpu",
            "Processor time of a tool's guests",
            Unit::Seconds,
            self.cpu.clone(),
        );
        registry.register_with_unit(
            "toolyard_guest_memory",
            "The most linear memory that a run had, of runs that ended by themselves",
            Unit::Bytes,
            self.memory.clone(),
        );
        registry.register(
            "toolyard_tasks_discarded",
            "Ended tasks that this host removed before their ttl to make room",
            self.discarded.clone(),
        );
        registry.register("toolyard_tasks_created", "Tasks that this host created", self.created.clone());
        registry.register(
            "toolyard_tasks_claimed",
            "Tasks that this host took over from hosts that were gone",
            self.claimed.clone(),
        );
        registry.register(
            "toolyard_tasks_ended",
            "Tasks that this host ended, those of dead hosts included",
            self.ended.clone(),
        );
        registry.register(
            "toolyard_calls_queued",
            "Calls that waited for their turn instead of being refused as busy, by the limit",
            self.queued.clone(),
        );
        registry.register(
            "toolyard_handoffs",
            "Calls of clients without tasks that went on as tasks",
            self.handoffs.clone(),
        );
        registry.register(
            "toolyard_rejoins",
            "Calls that joined the task of an equal call",
            self.rejoins.clone(),
        );
        registry.register(
            "toolyard_kept",
            "Calls that went on as tasks after their clients had stopped waiting",
            self.kept.clone(),
        );
        registry.register(
            "toolyard_journal_entries",
            "Entries that this host stored in journals of tasks that resume",
            self.journal_entries.clone(),
        );
        registry.register(
            "toolyard_journal_bytes",
            "Bytes that this host stored in journals of tasks that resume",
            self.journal_bytes.clone(),
        );
        registry.register(
            "toolyard_journal_flushes",
            "Writes of this host to journals of tasks that resume",
            self.journal_flushes.clone(),
        );
        registry.register(
            "toolyard_resumed",
            "Runs that this host began to continue a task from its journal, because the task was due or its host \
             was gone",
            self.resumed.clone(),
        );
        registry.register(
            "toolyard_diverged",
            "Runs that did not repeat what their journals had recorded",
            self.diverged.clone(),
        );
        registry.register(
            "toolyard_doubt",
            "Requests that were under way when their hosts stopped, by what was decided about them",
            self.doubts.clone(),
        );
        registry.register_collector(Box::new(self.parked.clone()));
        registry.register(
            "toolyard_denials",
            "Requests that the access rules did not allow, and whether a scope would have helped",
            self.denied.clone(),
        );
    }
}

/// Why a host continues a task from its journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResumedWhy {
    /// The task was parked, and is due.
    Woken,
    /// The host that ran it is gone.
    Claimed,
}

impl ResumedWhy {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Woken => "woken",
            Self::Claimed => "claimed",
        }
    }
}

/// The number of parked tasks when the store last counted them. Negative if it is not known.
#[derive(Debug, Clone)]
struct ParkedCount(Arc<AtomicI64>);

impl Default for ParkedCount {
    fn default() -> Self {
        Self(Arc::new(AtomicI64::new(-1)))
    }
}

impl ParkedCount {
    fn set(&self, count: Option<u64>) {
        let count = count.map_or(-1, |count| i64::try_from(count).unwrap_or(i64::MAX));
        self.0.store(count, Ordering::Relaxed);
    }
}

impl Collector for ParkedCount {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let count = self.0.load(Ordering::Relaxed);
        if count < 0 {
            return Ok(());
        }
        let help = "Live tasks of the whole store that wait without a run.";
        let parked = encoder.encode_descriptor("toolyard_tasks_parked", help, None, MetricType::Gauge)?;
        ConstGauge::new(count).encode(parked)
    }
}

/// The order of the counters of [`MeasuredTool`].
const OUTCOMES: [&str; 6] = ["ok", "tool_error", "error", "input_required", "stopped", "invalid_arguments"];

/// The limits at which a call may wait for its turn.
const LIMITS: [&str; 5] = [
    "calls.running",
    "calls.running-per-principal",
    "limits.concurrency",
    "vm.max_map_count",
    "calls.memory",
];

const ENDINGS: [&str; 4] = ["completed", "failed", "cancelled", "expired"];

const fn ending(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Result { is_error: false, .. } => ENDINGS[0],
        Outcome::Result { is_error: true, .. } | Outcome::Error(_) => ENDINGS[1],
        Outcome::Cancelled => ENDINGS[2],
        Outcome::Expired => ENDINGS[3],
    }
}

/// Computes the state on demand. `None` once there is nothing left to look at.
pub(crate) struct GaugeCollector<F>(pub F);

impl<F> std::fmt::Debug for GaugeCollector<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StandingCollector")
    }
}

impl<F: Fn() -> Option<Load> + Send + Sync + 'static> Collector for GaugeCollector<F> {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let Some(now) = (self.0)() else { return Ok(()) };
        let help = "Live tasks of this host, by what they do.";
        let mut family = encoder.encode_descriptor("toolyard_tasks", help, None, MetricType::Gauge)?;
        for (state, count) in [("waiting", now.waiting), ("working", now.working), ("asking", now.asking)] {
            number(count).encode(family.encode_family(&[(STATE, state)])?)?;
        }
        let help = "Runs of guests that hold a slot.";
        let runs = encoder.encode_descriptor("toolyard_runs", help, None, MetricType::Gauge)?;
        number(now.runs as usize).encode(runs)?;
        let help = "Questions that are out with clients.";
        let open = encoder.encode_descriptor("toolyard_questions_open", help, None, MetricType::Gauge)?;
        number(now.questions).encode(open)?;
        let help = "Calls that wait for an approval.";
        let open = encoder.encode_descriptor("toolyard_approvals_open", help, None, MetricType::Gauge)?;
        number(now.approvals).encode(open)
    }
}

fn number(count: usize) -> ConstGauge<i64> {
    ConstGauge::new(i64::try_from(count).unwrap_or(i64::MAX))
}
