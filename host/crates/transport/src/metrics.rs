//! Metrics of the transports.
//!
//! No label takes its value from a client: a method is a known client request or `other`; reasons and limits
//! are constants of this file and of [`Fault`].

use http::{Method as Verb, StatusCode};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::array;
use toolyard_dispatch::Fault;
use toolyard_protocol::{Method, RpcError};

const METHOD: &str = "method";
const STATUS: &str = "status";
const REASON: &str = "reason";
const LIMIT: &str = "limit";

const OTHER: &str = "other";

const VERBS: [&str; 4] = ["GET", "POST", "DELETE", OTHER];
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// The reasons for refusals. The first ones occur only over HTTP.
const REASONS: [&str; 14] = [
    "bad_request",
    "unauthenticated",
    "forbidden",
    "not_found",
    "too_large",
    "too_slow",
    "unavailable",
    "unknown",
    "invalid",
    "busy",
    "rate",
    "scope",
    "closing",
    "store",
];

type Labels<const N: usize> = [(&'static str, &'static str); N];

/// The metrics of one server.
pub struct Metrics {
    requests: Family<Labels<1>, Counter>,
    /// The handles of `requests` by [`Method::index`].
    by_method: [Counter; Method::ALL.len() + 1],
    answers: Family<Labels<2>, Counter>,
    /// The handles of `answers`, in the order of `VERBS` and `CLASSES`.
    by_answer: [[Counter; CLASSES.len()]; VERBS.len()],
    refusals: Family<Labels<2>, Counter>,
    pub(crate) connections: Gauge,
    pub(crate) streams: Gauge,
    pub(crate) sessions: Gauge,
    pub(crate) opened: Counter,
}

impl Default for Metrics {
    fn default() -> Self {
        let requests = Family::<Labels<1>, Counter>::default();
        let answers = Family::<Labels<2>, Counter>::default();
        let answer = |verb, class| answers.get_or_create_owned(&[(METHOD, verb), (STATUS, class)]);
        Self {
            by_answer: VERBS.map(|verb| CLASSES.map(|class| answer(verb, class))),
            by_method: array::from_fn(|index| {
                let known = Method::ALL.get(index).filter(|method| method.is_client_request());
                requests.get_or_create_owned(&[(METHOD, known.map_or(OTHER, Method::as_str))])
            }),
            requests,
            answers,
            refusals: Family::default(),
            connections: Gauge::default(),
            streams: Gauge::default(),
            sessions: Gauge::default(),
            opened: Counter::default(),
        }
    }
}

/// Marks an HTTP answer whose refusal was already counted with its fault.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CountedRefusal;

/// Counts one open object until it is dropped.
pub(crate) struct OpenGauge(Gauge);

impl OpenGauge {
    pub fn one(of: &Gauge) -> Self {
        of.inc();
        Self(of.clone())
    }
}

impl Drop for OpenGauge {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Metrics {
    /// Registers these metrics.
    pub fn register(&self, registry: &mut Registry) {
        for reason in REASONS {
            drop(self.refusals.get_or_create(&[(REASON, reason), (LIMIT, "")]));
        }
        registry.register("toolyard_requests", "Requests of MCP, by method", self.requests.clone());
        registry.register(
            "toolyard_http_requests",
            "Requests of HTTP, by method and class of the answer's status",
            self.answers.clone(),
        );
        registry.register(
            "toolyard_refusals",
            "Requests that were refused, by reason and by the limit that was met, if any",
            self.refusals.clone(),
        );
        registry.register("toolyard_connections", "Open connections of HTTP", self.connections.clone());
        registry.register("toolyard_streams", "Open event streams", self.streams.clone());
        registry.register("toolyard_sessions", "Sessions held in memory", self.sessions.clone());
        registry.register("toolyard_sessions_opened", "Sessions that were opened", self.opened.clone());
    }

    /// Counts a request.
    pub(crate) fn count_request(&self, method: &Method) {
        self.by_method[method.index()].inc();
    }

    /// Counts an answered HTTP request.
    pub(crate) fn count_answer(&self, method: &Verb, status: StatusCode, counted: bool) {
        let verb = VERBS.into_iter().position(|verb| verb == method.as_str()).unwrap_or(VERBS.len() - 1);
        let class = usize::from(status.as_u16() / 100).clamp(1, CLASSES.len()) - 1;
        self.by_answer[verb][class].inc();
        if !counted && let Some(reason) = told_by_status(status) {
            self.count_refusal(reason, "");
        }
    }

    /// Counts a fault, if it is a refusal.
    pub(crate) fn count_fault(&self, fault: &Fault) {
        if let Some((reason, limit)) = told_by_fault(fault) {
            self.count_refusal(reason, limit);
        }
    }

    /// Counts a request that was refused with this error before it was carried out.
    pub(crate) fn count_rejection(&self, error: &RpcError) {
        let reason =
            if error.code == toolyard_protocol::error::METHOD_NOT_FOUND { "unknown" } else { "invalid" };
        self.count_refusal(reason, "");
    }

    /// Both are constants, so that the number of series is bounded.
    fn count_refusal(&self, reason: &'static str, limit: &'static str) {
        self.refusals.get_or_create(&[(REASON, reason), (LIMIT, limit)]).inc();
    }
}

fn told_by_status(status: StatusCode) -> Option<&'static str> {
    match status.as_u16() {
        401 => Some("unauthenticated"),
        403 => Some("forbidden"),
        404 => Some("not_found"),
        408 => Some("too_slow"),
        413 => Some("too_large"),
        400..=499 => Some("bad_request"),
        500..=599 => Some("unavailable"),
        _ => None,
    }
}

fn told_by_fault(fault: &Fault) -> Option<(&'static str, &'static str)> {
    match fault {
        Fault::UnknownTool(_)
        | Fault::UnknownTask
        | Fault::UnknownPrompt(_)
        | Fault::NothingToComplete(_)
        | Fault::TasksOff => Some(("unknown", "")),
        Fault::TaskForbidden(_)
        | Fault::TaskRequired(_)
        | Fault::InvalidParams(_)
        | Fault::ArgumentsDenied(_)
        | Fault::NeedsApproval { .. }
        | Fault::NeverApproved(_)
        | Fault::NotDecided(_)
        | Fault::AlreadyOver(_)
        | Fault::TaskExtensionRequired
        | Fault::RequestState(_)
        | Fault::InvalidCursor => Some(("invalid", "")),
        Fault::Busy { limit, .. } => Some(("busy", limit)),
        Fault::TooOften { limit, .. } => Some(("rate", limit)),
        Fault::InsufficientScope(_) => Some(("scope", "")),
        Fault::Closing => Some(("closing", "")),
        Fault::Store(_) => Some(("store", "")),
        // Errors of plugins and requests that their clients cancelled are not refusals.
        Fault::Answered(_) | Fault::Cancelled => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(metrics: &Metrics) -> String {
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("text");
        text
    }

    #[test]
    fn what_clients_name_adds_no_series() {
        let metrics = Metrics::default();
        let before = text(&metrics).lines().count();
        for number in 0..1_000 {
            metrics.count_request(&Method::from(&*format!("tools/call{number}")));
            let verb = Verb::from_bytes(format!("M{number}").as_bytes()).expect("a token");
            metrics.count_answer(&verb, StatusCode::from_u16(100 + number % 900).expect("a status"), false);
            metrics.count_fault(&Fault::UnknownTool(number.to_string()));
        }
        let text = text(&metrics);
        assert_eq!(text.lines().count(), before, "{text}");
        assert!(text.contains("toolyard_requests_total{method=\"other\"} 1000"), "{text}");
    }

    #[test]
    fn requests_of_clients_are_told_apart() {
        let metrics = Metrics::default();
        for method in Method::ALL {
            metrics.count_request(method);
        }
        let text = text(&metrics);
        assert!(text.contains("toolyard_requests_total{method=\"tools/call\"} 1"), "{text}");
        let others = Method::ALL.iter().filter(|method| !method.is_client_request()).count();
        assert!(text.contains(&format!("toolyard_requests_total{{method=\"other\"}} {others}")), "{text}");
    }
}
