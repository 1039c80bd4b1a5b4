//! How long a guest that computes without pause survives the acknowledgement of its cancellation.
//!
//! Measured within this process, because the drop of the guest's store cannot be observed from outside. The
//! parts of a run are dropped in a fixed order: the store first, then the run, and with it the client channel
//! that the caller passed. So the channel notes the time of its drop, and the engine's count of instances
//! confirms that the store was dropped by then.

use crate::Effort;
use crate::inside;
use crate::report::{Aim, Section};
use crate::stats::{Latencies, shown};
use anyhow::Context as _;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};
use toolyard_dispatch::{
    CallParams, CallReply, Caller, ClientChannel, ClientRoute, Dispatch, NoClientChannel, Notice, RateKey,
    RawJson, RouteScope, Stop, TaskId, Terms, ToolCall,
};
use toolyard_engine::{Engine, Plugins};
use toolyard_tests::guests;

/// The numbers of other guests that compute meanwhile.
const OTHERS: [u32; 3] = [0, 20, 100];
/// The aims for the 99th percentile beside this number of other guests.
const AIMS_MS: [(u32, f64); 2] = [(0, 2.0), (20, 20.0)];
/// A guest starts and ends within this time even on a slow machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// An hour: longer than any wait.
const SPIN: &str = r#"{"name":"spin","arguments":{"ms":3600000},"task":{"ttl":3600000}}"#;

/// Sends the time when it is dropped.
struct Witness(Option<oneshot::Sender<Instant>>);

impl ClientChannel for Witness {
    fn notify(&self, _: Option<TaskId>, _: Notice) {}

    fn route(&self, _: Option<TaskId>, _: RouteScope) -> Option<Arc<dyn ClientRoute>> {
        None
    }

    fn release(&self, _: Duration) {}
}

impl Drop for Witness {
    fn drop(&mut self) {
        let now = Instant::now();
        if let Some(tell) = self.0.take() {
            // The receiver is gone if the measurement was aborted.
            let _ = tell.send(now);
        }
    }
}

struct Bench {
    engine: Arc<Engine>,
    dispatch: Arc<Dispatch>,
    caller: Caller,
    _stop: DropGuard,
}

struct Row {
    others: u32,
    after_answer: Latencies,
    after_request: Latencies,
}

/// Runs the measurement. Blocks.
pub fn measure(effort: Effort, work: &Path) -> anyhow::Result<Section> {
    // The two runtimes of the host.
    let runtime = || Builder::new_multi_thread().enable_all().build();
    let (guests, serving): (Runtime, Runtime) = (runtime()?, runtime()?);
    let handle = guests.handle().clone();
    let work = work.to_owned();
    let done = serving.block_on(async move {
        // On a worker thread, like the host's requests.
        tokio::spawn(async move {
            let bench = Bench::start(&work, handle).await?;
            let mut rows = Vec::new();
            for others in OTHERS {
                rows.push(bench.row(others, effort.cancels).await?);
            }
            anyhow::Ok(rows)
        })
        .await?
    });
    serving.shutdown_background();
    guests.shutdown_background();
    Ok(section(&done?))
}

impl Bench {
    async fn start(work: &Path, guests: tokio::runtime::Handle) -> anyhow::Result<Self> {
        let folder = crate::server::folder(work, "cancel", &[guests::plugin("probe")])?;
        let engine = Engine::start(&toolyard_engine::Settings::default())?;
        let dispatch = inside::dispatch(guests);
        let snapshot = Plugins::open(engine.clone(), folder.join("plugins")).load().await;
        dispatch.publish(snapshot.catalog);
        let stop = CancellationToken::new();
        tokio::spawn(dispatch.clone().keep_time(stop.clone()));
        Ok(Self {
            engine,
            dispatch,
            caller: Caller::local(RawJson::empty_object()),
            _stop: stop.drop_guard(),
        })
    }

    async fn row(&self, others: u32, cancels: usize) -> anyhow::Result<Row> {
        let mut kept = Vec::new();
        for _ in 0..others {
            kept.push(self.spin(Arc::new(NoClientChannel)).await?);
        }
        let mut row = Row { others, after_answer: Latencies::new(), after_request: Latencies::new() };
        for number in 0..cancels {
            let (tell, told) = oneshot::channel();
            let task = self.spin(Arc::new(Witness(Some(tell)))).await?;
            self.until_running(others + 1).await?;
            // Spread over the ticks of the epoch, one millisecond each.
            tokio::time::sleep(Duration::from_micros(2_000 + (number as u64 * 619) % 2_000)).await;
            let asked = Instant::now();
            self.dispatch.cancel_task(&self.caller, &task).await?;
            let answered = Instant::now();
            let gone = tokio::time::timeout(PATIENCE, told).await.context("a cancelled guest goes on")??;
            anyhow::ensure!(self.engine.running() == others, "the store is gone when the run is");
            row.after_answer.record(gone.saturating_duration_since(answered));
            row.after_request.record(gone.saturating_duration_since(asked));
        }
        for task in kept {
            self.dispatch.cancel_task(&self.caller, &task).await?;
        }
        self.until_running(0).await?;
        Ok(row)
    }

    /// Starts a task that spins; returns its id.
    async fn spin(&self, channel: Arc<dyn ClientChannel>) -> anyhow::Result<String> {
        let params = CallParams::decode(Some(&RawJson::trusted(SPIN)))?;
        let call = ToolCall {
            params,
            terms: Terms::Sessions { has_tasks: true, bridge: None },
            stop: Arc::new(Stop::default()),
            channel: Arc::new(NoClientChannel),
            task_channel: channel,
            rate_key: RateKey::Local,
        };
        let CallReply::Created(created) = self.dispatch.call(&self.caller, call).await? else {
            anyhow::bail!("a call as a task gives a task");
        };
        Ok(created.view.id)
    }

    async fn until_running(&self, count: u32) -> anyhow::Result<()> {
        let until = Instant::now() + PATIENCE;
        while self.engine.running() != count {
            anyhow::ensure!(Instant::now() < until, "{} guests run, not {count}", self.engine.running());
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
        Ok(())
    }
}

fn section(rows: &[Row]) -> Section {
    let mut section = Section::new(
        "Cancelling a guest that computes",
        "From the acknowledgement of `tasks/cancel` (0 if the guest was gone by then) to the guest's store dropped; \
         dispatcher and engine with the memory store, in one process.",
        "other computing guests | cancels | p50 ms | p99 ms | most ms | from the request: p50 ms | p99 ms",
    );
    let mut data = Vec::new();
    for Row { others, after_answer, after_request } in rows {
        let figures = [
            after_answer.ms(0.5),
            after_answer.ms(0.99),
            after_answer.max_ms(),
            after_request.ms(0.5),
            after_request.ms(0.99),
        ];
        let mut row = vec![others.to_string(), after_answer.count().to_string()];
        row.extend(figures.map(shown));
        section.row(row);
        data.push(json!({
            "others": others, "cancels": after_answer.count(), "p50_ms": figures[0], "p99_ms": figures[1],
            "max_ms": figures[2], "from_request_p50_ms": figures[3], "from_request_p99_ms": figures[4],
        }));
        if let Some((_, aim)) = AIMS_MS.iter().find(|(beside, _)| beside == others) {
            section.aims.push(Aim {
                what: format!("cancel beside {others} computing guests, p99"),
                aim: format!("under {aim} ms"),
                reached: format!("{} ms", shown(figures[1])),
                met: figures[1] < *aim,
            });
        }
    }
    section.data = json!({ "cancel": data });
    section
}
