//! Traces of calls, sent to an OpenTelemetry collector over OTLP.
//!
//! Spans are made when a call ends, and sent in batches by a thread of their own. Its queue is bounded: a
//! slow or absent collector loses spans, never calls.

mod host_calls;

use crate::config::Config;
use crate::http_client;
use crate::system::{RandomIds, unix_nanos};
use anyhow::{Context as _, bail};
use opentelemetry::trace::{Link, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{RetryPolicy, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SpanData, SpanEvents, SpanLinks, SpanProcessor as _,
};
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::runtime::Handle;
use toolyard_dispatch::{CallEnd, EndedCall, Ids as _, TimedHostCall, TraceContext, Traces};

/// The time limit for sending one batch.
const EXPORT_TIME: Duration = Duration::from_secs(5);
/// The interval between batches. A person who waits for a trace finds it soon, and a busy host still sends
/// many spans in one request.
const SEND_EVERY: Duration = Duration::from_secs(1);
/// The time limit for sending the last spans at shutdown. Orchestrators kill a host that ends slowly, and a
/// working collector takes less than a second.
const FLUSH_TIME: Duration = Duration::from_secs(3);
/// The most spans that wait to be sent, about 2 MiB; further ones are dropped.
const MAX_QUEUE: usize = 2_048;
/// The most spans in one request to the collector.
const MAX_BATCH: usize = 512;
/// The largest answer of a collector, in bytes.
const MAX_ANSWER: usize = 64 << 10;
/// The interval between warnings about lost spans.
const COMPLAIN_EVERY: Duration = Duration::from_secs(60);
/// The path for traces in OTLP over HTTP, used if the endpoint names none.
const PATH: &str = "/v1/traces";

/// Keeps the traces of this host.
pub struct Otlp {
    processor: BatchSpanProcessor,
    /// The sampling ratio of traces that begin here, as an upper bound on trace ids.
    below: u128,
    scope: InstrumentationScope,
    /// Whether host calls are spans.
    has_host_calls: bool,
    recorded: Counter,
    watched: Watched,
    /// The state of the generator of span ids, seeded once.
    ids: AtomicU64,
}

/// The counts of spans by outcome.
#[derive(Debug, Clone, Default)]
struct Watched {
    sent: Counter,
    lost: Counter,
}

impl Otlp {
    /// The address of the collector; `None` without `trace.endpoint`.
    ///
    /// # Errors
    /// If the host cannot send there.
    pub fn endpoint(config: &Config) -> anyhow::Result<Option<String>> {
        let Some(endpoint) = &config.trace.endpoint else { return Ok(None) };
        let uri: http::Uri =
            endpoint.parse().context("`trace.endpoint` is not a URL such as http://127.0.0.1:4318")?;
        if uri.scheme_str() != Some("http") || uri.authority().is_none() {
            bail!(
                "`trace.endpoint`: expected http://HOST:PORT of a collector near by, which may pass traces on \
                 over TLS, not `{endpoint}`"
            );
        }
        Ok(Some(match uri.path() {
            "" | "/" => format!("{}{PATH}", endpoint.trim_end_matches('/')),
            _ => endpoint.clone(),
        }))
    }

    /// Traces as the operator configured them; `None` without an endpoint. `runtime` carries the requests to
    /// the collector.
    ///
    /// # Errors
    /// If the host cannot send to the endpoint.
    pub fn start(config: &Config, runtime: Handle) -> anyhow::Result<Option<Arc<Self>>> {
        let Some(endpoint) = Self::endpoint(config)? else { return Ok(None) };
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Courier { runtime })
            .with_endpoint(endpoint)
            .with_timeout(EXPORT_TIME)
            .with_retry_policy(RetryPolicy::disabled())
            .build()
            .context("cannot use `trace.endpoint`")?;
        let watched = Watched::default();
        let counting = Counting { exporter, watched: watched.clone(), complained: Mutex::default() };
        let limits = &config.limits;
        let batch = BatchConfigBuilder::default()
            .with_max_queue_size(MAX_QUEUE)
            .with_max_export_batch_size(MAX_BATCH)
            .with_scheduled_delay(SEND_EVERY)
            .build();
        let mut processor = BatchSpanProcessor::new(counting, batch);
        let resource = Resource::builder_empty().with_attributes([
            KeyValue::new("service.name", config.trace.service.clone()),
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            KeyValue::new("service.instance.id", RandomIds.uuid().to_string()),
        ]);
        processor.set_resource(&resource.build());
        let (high, low) = RandomIds.uuid().as_u64_pair();
        Ok(Some(Arc::new(Self {
            processor,
            below: limits.trace_sample.of(u128::from(u64::MAX)),
            scope: InstrumentationScope::builder("toolyard").with_version(env!("CARGO_PKG_VERSION")).build(),
            has_host_calls: limits.trace_host_calls,
            recorded: Counter::default(),
            watched,
            ids: AtomicU64::new(high ^ low.rotate_left(1)),
        })))
    }

    /// Registers the metrics of spans.
    pub fn register_metrics(&self, registry: &mut Registry) {
        registry.register("toolyard_spans_recorded", "Spans that were made", self.recorded.clone());
        registry.register("toolyard_spans_sent", "Spans that a collector took", self.watched.sent.clone());
        registry.register(
            "toolyard_spans_lost",
            "Spans that could not be sent; those that found the queue full are not among them",
            self.watched.lost.clone(),
        );
    }

    /// Sends the remaining spans within a time limit, and ends.
    pub async fn end(self: Arc<Self>) {
        let ended =
            tokio::task::spawn_blocking(move || self.processor.shutdown_with_timeout(FLUSH_TIME)).await;
        if !matches!(ended, Ok(Ok(()))) {
            tracing::warn!(event = "trace.last_spans_lost", "cannot send the last spans in time");
        }
    }

    /// Returns a number that does not repeat: the sequence is a permutation of all 64-bit numbers (Weyl
    /// steps, mixed) from a random start.
    fn id(&self) -> u64 {
        loop {
            let step = self.ids.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
            let mixed = (step ^ (step >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            let id = mixed ^ (mixed >> 31);
            if id != 0 {
                return id;
            }
        }
    }

    /// Makes the host calls of a guest its children.
    fn end_host_calls(&self, call: &EndedCall<'_>, guest: &SpanContext) {
        for TimedHostCall { before_end, call: host_call } in &call.host_calls.listed {
            let began = call.ended.saturating_sub(nanos(*before_end));
            let id = SpanId::from(self.id());
            let state = guest.trace_state().clone();
            let own = SpanContext::new(guest.trace_id(), id, guest.trace_flags(), false, state);
            let (name, span_kind, attributes) = host_calls::described(&host_call.what);
            let span = SpanData {
                name,
                span_kind,
                start_time: time(began),
                end_time: time(began.saturating_add(nanos(host_call.took))),
                attributes,
                status: host_calls::status(&host_call.what),
                ..self.span(own, guest.span_id(), false)
            };
            self.recorded.inc();
            self.processor.on_end(span);
        }
    }

    fn span(&self, context: SpanContext, parent: SpanId, remote: bool) -> SpanData {
        SpanData {
            span_context: context,
            parent_span_id: parent,
            parent_span_is_remote: remote,
            span_kind: SpanKind::Server,
            name: "".into(),
            start_time: UNIX_EPOCH,
            end_time: UNIX_EPOCH,
            attributes: Vec::new(),
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: Status::Unset,
            instrumentation_scope: self.scope.clone(),
        }
    }
}

impl Traces for Otlp {
    fn now(&self) -> u64 {
        unix_nanos()
    }

    fn begin(&self, parent: Option<&TraceContext>) -> TraceContext {
        match parent {
            Some(parent) => TraceContext { span: self.id(), ..parent.clone() },
            None => {
                let low = self.id();
                let trace = u128::from(self.id()) << 64 | u128::from(low);
                TraceContext { trace, span: self.id(), sampled: u128::from(low) < self.below, state: None }
            }
        }
    }

    fn ended(&self, call: EndedCall<'_>) {
        let own = context(call.context, false);
        let parent = call.parent.map_or(SpanId::INVALID, |parent| SpanId::from(parent.span));
        let mut links = SpanLinks::default();
        if let (Some(parent), Some(_)) = (call.parent, call.task) {
            // The request that made the task ended long before the task did.
            links.links.push(Link::with_context(context(parent, true)));
        }
        let span = SpanData {
            name: format!("tools/call {}", call.tool.name()).into(),
            start_time: time(call.began),
            end_time: time(call.ended),
            attributes: attributes(&call),
            links,
            status: status(call.end),
            ..self.span(own.clone(), parent, call.parent.is_some())
        };
        self.recorded.inc();
        self.processor.on_end(span);
        if let Some(started) = call.started {
            let id = SpanId::from(self.id());
            let child =
                SpanContext::new(own.trace_id(), id, own.trace_flags(), false, own.trace_state().clone());
            let guest = SpanData {
                name: "guest".into(),
                span_kind: SpanKind::Internal,
                start_time: time(started),
                end_time: time(call.ended),
                attributes: share(&call),
                ..self.span(child.clone(), own.span_id(), false)
            };
            self.recorded.inc();
            self.processor.on_end(guest);
            if self.has_host_calls {
                self.end_host_calls(&call, &child);
            }
        }
    }
}

/// Attributes named as in the semantic conventions for MCP, with our own names for the rest. They contain no
/// argument, result or session: a session's id works like a credential.
fn attributes(call: &EndedCall<'_>) -> Vec<KeyValue> {
    let mut attributes = vec![
        KeyValue::new("mcp.method.name", "tools/call"),
        KeyValue::new("gen_ai.operation.name", "execute_tool"),
        KeyValue::new("gen_ai.tool.name", call.tool.name().to_owned()),
        KeyValue::new("toolyard.plugin", call.tool.plugin.clone()),
        KeyValue::new("toolyard.outcome", outcome(call.end)),
        KeyValue::new("toolyard.waited", seconds(call.began, call.started.unwrap_or(call.ended))),
    ];
    if let Some(task) = call.task {
        attributes.push(KeyValue::new("toolyard.task.id", task.to_string()));
    }
    match call.end {
        CallEnd::Ok | CallEnd::InputRequired => {}
        CallEnd::ToolError => attributes.push(KeyValue::new("error.type", "tool_error")),
        CallEnd::Error(code) => {
            attributes.push(KeyValue::new("error.type", code.to_string()));
            attributes.push(KeyValue::new("rpc.response.status_code", code.to_string()));
        }
        CallEnd::Stopped => attributes.push(KeyValue::new("error.type", "stopped")),
    }
    attributes
}

/// The attributes of the guest's part of a call.
fn share(call: &EndedCall<'_>) -> Vec<KeyValue> {
    let mut attributes = vec![KeyValue::new("toolyard.component.digest", call.tool.digest.0.clone())];
    if let Some(spent) = call.spent {
        attributes.push(KeyValue::new("toolyard.guest.cpu", spent.cpu.as_secs_f64()));
        attributes.push(KeyValue::new("toolyard.guest.elapsed", spent.wall.as_secs_f64()));
        if let Some(bytes) = spent.memory {
            attributes.push(KeyValue::new("toolyard.guest.memory", i64::try_from(bytes).unwrap_or(i64::MAX)));
        }
    }
    for (kind, count) in call.host_calls.further.iter() {
        // Host calls beyond those that are spans.
        attributes.push(KeyValue::new(
            format!("toolyard.host_calls.further.{kind}"),
            i64::try_from(count).unwrap_or(i64::MAX),
        ));
    }
    attributes
}

const fn outcome(end: CallEnd) -> &'static str {
    match end {
        CallEnd::Ok => "ok",
        CallEnd::ToolError => "tool_error",
        CallEnd::Error(_) => "error",
        CallEnd::InputRequired => "input_required",
        CallEnd::Stopped => "stopped",
    }
}

fn status(end: CallEnd) -> Status {
    match end {
        CallEnd::Ok | CallEnd::InputRequired => Status::Unset,
        CallEnd::ToolError | CallEnd::Error(_) | CallEnd::Stopped => Status::error(outcome(end)),
    }
}

fn context(of: &TraceContext, remote: bool) -> SpanContext {
    let flags = if of.sampled { TraceFlags::SAMPLED } else { TraceFlags::default() };
    let state = of.state.as_deref().and_then(|state| state.parse::<TraceState>().ok()).unwrap_or_default();
    SpanContext::new(TraceId::from(of.trace), SpanId::from(of.span), flags, remote, state)
}

fn time(nanos: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(nanos)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn seconds(from: u64, to: u64) -> f64 {
    Duration::from_nanos(to.saturating_sub(from)).as_secs_f64()
}

/// Counts sent and lost spans, and warns of lost ones at most once per [`COMPLAIN_EVERY`].
#[derive(Debug)]
struct Counting {
    exporter: SpanExporter,
    watched: Watched,
    complained: Mutex<Option<Instant>>,
}

impl opentelemetry_sdk::trace::SpanExporter for Counting {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len() as u64;
        let done = self.exporter.export(batch).await;
        match &done {
            Ok(()) => {
                self.watched.sent.inc_by(spans);
            }
            Err(error) => {
                self.watched.lost.inc_by(spans);
                let now = Instant::now();
                let mut complained = self.complained.lock();
                if complained.is_none_or(|last| now.duration_since(last) >= COMPLAIN_EVERY) {
                    *complained = Some(now);
                    tracing::warn!(
                        event = "trace.spans_lost", setting = "trace.endpoint", count = spans, %error,
                        "collector did not accept spans"
                    );
                }
            }
        }
        done
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

/// Sends batches: one request on a connection of its own, every second.
#[derive(Debug)]
struct Courier {
    runtime: Handle,
}

#[async_trait::async_trait]
impl HttpClient for Courier {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        // The thread that waits here does not belong to the runtime.
        let send = async { tokio::time::timeout(EXPORT_TIME, http_client::send(request, MAX_ANSWER)).await };
        let sent = self.runtime.spawn(send);
        Ok(sent.await???)
    }
}

#[cfg(test)]
mod tests;
