//! The traces that a collector receives: a small collector over real HTTP, which decodes them with the
//! library of the format.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value as Any};
use opentelemetry_proto::tonic::trace::v1::{Span, span::SpanKind, status::StatusCode};
use prost::Message as _;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;
use toolyard_tests::site::listen;
use toolyard_tests::{Host, Session, Setup, Site, eventually, guests};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const UNSAMPLED: &str = "00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

#[derive(Clone, Default)]
struct Collector {
    requests: Arc<Mutex<Vec<ExportTraceServiceRequest>>>,
}

impl Collector {
    /// Starts to listen; returns the collector and its URL.
    async fn start() -> (Self, String) {
        let collector = Self::default();
        let receiver = collector.clone();
        let (port, _) = listen(move |stream| {
            let receiver = receiver.clone();
            let service = service_fn(move |request| receiver.clone().receive(request));
            async move { drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await) }
        })
        .await;
        (collector, format!("http://127.0.0.1:{port}"))
    }

    async fn receive(self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
        assert_eq!((request.method(), request.uri().path()), (&Method::POST, "/v1/traces"));
        assert_eq!(request.headers()["content-type"], "application/x-protobuf");
        let body = request.into_body().collect().await?.to_bytes();
        let decoded = ExportTraceServiceRequest::decode(body).expect("an export request");
        self.requests.lock().expect("free").push(decoded);
        Ok(Response::new(Full::default()))
    }

    fn spans(&self) -> Vec<Span> {
        let requests = self.requests.lock().expect("free");
        let resources = requests.iter().flat_map(|request| &request.resource_spans);
        resources.flat_map(|resource| &resource.scope_spans).flat_map(|scope| scope.spans.clone()).collect()
    }

    async fn span(&self, name: &str) -> Span {
        eventually(&format!("a span `{name}`"), || async {
            self.spans().into_iter().find(|span| span.name == name)
        })
        .await
    }
}

async fn traced(setup: Setup) -> (Host, Collector) {
    let (collector, url) = Collector::start().await;
    (setup.set("trace.endpoint", &url).start().await, collector)
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn text(attributes: &[KeyValue], key: &str) -> String {
    match attribute(attributes, key) {
        Any::StringValue(text) => text,
        other => panic!("{key}: {other:?}"),
    }
}

fn number(attributes: &[KeyValue], key: &str) -> f64 {
    match attribute(attributes, key) {
        Any::DoubleValue(number) => number,
        other => panic!("{key}: {other:?}"),
    }
}

fn attribute(attributes: &[KeyValue], key: &str) -> Any {
    let found = attributes.iter().find(|attribute| attribute.key == key);
    let value = found.and_then(|attribute| attribute.value.clone()?.value);
    value.unwrap_or_else(|| panic!("{key} is not among {attributes:?}"))
}

/// The span of the guest within a call.
fn guest_of(spans: &[Span], call: &Span) -> Span {
    let mut of_call = spans.iter().filter(|span| span.parent_span_id == call.span_id);
    let guest = of_call.next().expect("a share").clone();
    assert!(of_call.next().is_none() && guest.name == "guest" && guest.trace_id == call.trace_id);
    guest
}

/// Calls a tool with these headers, on a new connection.
async fn call_with(host: &Host, session: &Session, headers: &[(&str, &str)], params: Value) -> Value {
    let mut all = session.headers();
    all.extend(headers);
    let request = session.message("tools/call", params);
    let answer = host.send(Method::POST, "/mcp", &all, &request.to_string()).await;
    answer.response().await.expect("an answer").0
}

#[tokio::test]
async fn a_call_is_one_span_of_its_callers_trace_with_the_guests_share() {
    let (host, collector) = traced(Setup::probe()).await;
    let session = Session::open(host.port()).await;
    let headers = [("traceparent", PARENT), ("tracestate", "a=1"), ("tracestate", "b=2")];
    call_with(&host, &session, &headers, json!({"name": "spin", "arguments": {"ms": 60}})).await;
    let call = collector.span("tools/call spin").await;
    assert_eq!(hexadecimal(&call.trace_id), TRACE);
    assert_eq!(hexadecimal(&call.parent_span_id), "b7ad6b7169203331");
    assert_eq!(call.trace_state, "a=1,b=2");
    assert_eq!(call.kind(), SpanKind::Server);
    assert_eq!(text(&call.attributes, "mcp.method.name"), "tools/call");
    assert_eq!(text(&call.attributes, "gen_ai.tool.name"), "spin");
    assert_eq!(text(&call.attributes, "toolyard.plugin"), "probe.wasm");
    assert_eq!(text(&call.attributes, "toolyard.outcome"), "ok");
    let spans = collector.spans();
    let guest = guest_of(&spans, &call);
    assert!(number(&guest.attributes, "toolyard.guest.cpu") > 0.0, "{guest:?}");
    assert!(guest.start_time_unix_nano >= call.start_time_unix_nano);
    assert!(guest.end_time_unix_nano <= call.end_time_unix_nano);
    assert!(guest.end_time_unix_nano - guest.start_time_unix_nano >= 50_000_000, "{guest:?}");
    assert_eq!(spans.iter().filter(|span| span.name.starts_with("tools/call")).count(), 1, "one a call");
    call_with(&host, &session, &[], json!({"name": "fail", "arguments": {"message": "x"}})).await;
    let failed = collector.span("tools/call fail").await;
    assert!(failed.parent_span_id.is_empty(), "{failed:?}");
    assert_eq!(failed.status.as_ref().map(|status| status.code()), Some(StatusCode::Error));
    assert_eq!(text(&failed.attributes, "error.type"), "tool_error");
    let requests = collector.requests.lock().expect("free").clone();
    let resource = requests[0].resource_spans[0].resource.clone().expect("a resource");
    assert_eq!(text(&resource.attributes, "service.name"), "toolyard");
}

#[tokio::test]
async fn a_task_is_one_span_from_its_creation_to_its_end() {
    let setup = Setup::probe().manifest("probe", "[limits]\nconcurrency = 1");
    let (host, collector) = traced(setup).await;
    let session = Session::open(host.port()).await;
    let first = session.create("wait", json!({"ms": 600_000})).await;
    let params = json!({"name": "count", "arguments": {"steps": 1, "ms": 1}, "task": {}, "_meta": {"traceparent": PARENT}});
    let created = session.result("tools/call", params).await;
    let id = created["task"]["taskId"].as_str().expect("a task").to_owned();
    session.result("tasks/cancel", json!({"taskId": first})).await;
    session.until(&id, "completed").await;
    let stopped = collector.span("tools/call wait").await;
    assert_eq!(text(&stopped.attributes, "toolyard.outcome"), "stopped");
    let call = collector.span("tools/call count").await;
    assert_eq!(text(&call.attributes, "toolyard.task.id"), id);
    assert_eq!(hexadecimal(&call.links[0].span_id), "b7ad6b7169203331");
    let spans = collector.spans();
    let guest = guest_of(&spans, &call);
    assert!(number(&call.attributes, "toolyard.waited") > 0.0);
    assert!(guest.start_time_unix_nano > call.start_time_unix_nano, "it waited for its turn");
    assert!(guest.start_time_unix_nano >= stopped.end_time_unix_nano);
}

#[tokio::test]
async fn a_guest_learns_of_the_span_that_its_requests_belong_to() {
    let info = json!({"name": "script", "arguments": {"steps": [{"info": null}]},
                      "_meta": {"traceparent": PARENT, "tracestate": "a=1"}});
    let told = |answer: &Value| {
        let text = answer["result"]["content"][0]["text"].as_str().expect("a text").to_owned();
        let steps: Value = serde_json::from_str(&text).expect("JSON");
        (steps[0]["traceparent"].as_str().expect("a parent").to_owned(), steps[0]["tracestate"].clone())
    };
    let (host, collector) = traced(Setup::new().with(&[guests::fixture("script")])).await;
    let session = Session::open(host.port()).await;
    // The parent in the message comes before the one in the header.
    let header = [("traceparent", UNSAMPLED)];
    let (parent, state) = told(&call_with(&host, &session, &header, info.clone()).await);
    let call = collector.span("tools/call script").await;
    assert_eq!(parent, format!("00-{TRACE}-{}-01", hexadecimal(&call.span_id)));
    assert_eq!(state, "a=1");

    let untraced = Host::with(&[guests::fixture("script")]).await;
    let session = Session::open(untraced.port()).await;
    let (parent, _) = told(&call_with(&untraced, &session, &[], info).await);
    assert_eq!(parent, PARENT, "where nothing is traced the caller's trace goes on");
}

#[tokio::test]
async fn host_calls_are_children_of_the_guests_span_unless_they_are_turned_off() {
    let site = Site::start().await;
    let manifest = format!("[http]\nallow = [\"localhost:{}\"]", site.port());
    let setup = || Setup::new().with(&[guests::fixture("net_try")]).manifest("net_try", &manifest);
    let request = json!({"name": "request", "arguments": {"url": site.url("/page?a=b")}});
    let mut of_trace = request.clone();
    of_trace["_meta"] = json!({"traceparent": PARENT, "tracestate": "a=b"});
    let (host, collector) = traced(setup()).await;
    let session = Session::open(host.port()).await;
    call_with(&host, &session, &[], of_trace.clone()).await;
    let sent = collector.span("GET").await;
    let call = collector.span("tools/call request").await;
    assert_eq!(sent.parent_span_id, guest_of(&collector.spans(), &call).span_id);
    assert_eq!(sent.kind(), SpanKind::Client);
    assert_eq!(text(&sent.attributes, "server.address"), "localhost");
    assert_eq!(attribute(&sent.attributes, "server.port"), Any::IntValue(site.port().into()));
    assert_eq!(attribute(&sent.attributes, "http.response.status_code"), Any::IntValue(200));
    assert!(!format!("{sent:?}").contains("page"), "no path: {sent:?}");
    assert!(sent.start_time_unix_nano >= call.start_time_unix_nano);
    assert!(sent.end_time_unix_nano <= call.end_time_unix_nano);
    // The request is part of the trace, unless the guest gives it another one.
    let head = site.seen().remove(0);
    let parent = format!("traceparent: 00-{TRACE}-");
    assert!(head.contains(&parent) && head.contains("tracestate: a=b"), "{head}");
    of_trace["arguments"]["headers"] = json!([["traceparent", "mine"]]);
    call_with(&host, &session, &[], of_trace).await;
    let head = site.seen().remove(1);
    assert!(head.contains("traceparent: mine") && !head.contains("tracestate"), "{head}");

    let (mut host, collector) = traced(setup().set("trace.host-calls", "false")).await;
    let session = Session::open(host.port()).await;
    call_with(&host, &session, &[("traceparent", UNSAMPLED)], request.clone()).await;
    call_with(&host, &session, &[], request).await;
    // The last spans leave before the end.
    host.signal(Signal::TERM);
    assert!(host.ended().await.success());
    assert_eq!(
        collector.spans().len(),
        2,
        "one call and its guest, without that of a caller that does not sample"
    );
}

#[tokio::test]
async fn a_collector_that_is_away_costs_spans_and_nothing_else() {
    let nobody = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", nobody.local_addr().expect("an address"));
    drop(nobody);
    let (mut host, session) = Setup::probe().set("trace.endpoint", &url).open().await;
    for _ in 0..50 {
        assert_eq!(session.call("echo", json!({"text": "x"})).await["isError"], false);
    }
    host.logs("event=\"trace.spans_lost\"").await;
    assert_eq!(host.log().matches("event=\"trace.spans_lost\"").count(), 1, "once a while");
    host.signal(Signal::TERM);
    assert!(host.ended().await.success());
}
