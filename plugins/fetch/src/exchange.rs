//! One request. All functions here wait for the host.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use toolyard_plugin::http::{Request, RequestError};
use url::Url;

use crate::fault::Fault;
use crate::journey::Received;

/// Default headers, which the call may override. Without compression the body needs no decoding.
const DEFAULTS: [(&str, &str); 3] = [
    ("user-agent", concat!("toolyard-fetch/", env!("CARGO_PKG_VERSION"))),
    ("accept", "text/html, text/*;q=0.9, application/json;q=0.9, */*;q=0.5"),
    ("accept-encoding", "identity"),
];

/// The time of a call, for all its requests.
pub struct Timer {
    started: Instant,
    limit: Duration,
}

impl Timer {
    pub fn start(ms: u64) -> Self {
        Self { started: Instant::now(), limit: Duration::from_millis(ms) }
    }

    fn rest(&self) -> Duration {
        self.limit.saturating_sub(self.started.elapsed())
    }
}

/// Requests a page and reads at most `most` bytes of it. `heard` receives the number of bytes read and the
/// total, if known, and returns whether to stop.
pub fn get(
    url: &Url,
    headers: &BTreeMap<String, String>,
    most: usize,
    timer: &Timer,
    heard: &mut dyn FnMut(usize, Option<u64>) -> bool,
) -> Result<Received, Fault> {
    let mut request = Request::get(url.as_str()).timeout(timer.rest());
    for (name, value) in DEFAULTS {
        if !headers.keys().any(|given| given.eq_ignore_ascii_case(name)) {
            request = request.header(name, value);
        }
    }
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let mut response = request.send().map_err(fault)?;
    let (status, headers) = (response.status(), response.headers().to_vec());
    let mut received = Received { status, headers, body: Vec::new(), truncated: false };
    if (300..400).contains(&status) {
        return Ok(received);
    }
    let total = received.header("content-length").and_then(|length| length.parse().ok());
    while let Some(piece) = response.chunk().map_err(fault)? {
        let room = most - received.body.len();
        received.truncated = piece.len() > room;
        received.body.extend_from_slice(&piece[..piece.len().min(room)]);
        if heard(received.body.len(), total) {
            return Err(Fault::Cancelled);
        }
        if received.truncated {
            break;
        }
    }
    Ok(received)
}

fn fault(error: RequestError) -> Fault {
    match error {
        // The caller knows this argument, and can change it.
        RequestError::TimedOut { .. } => Fault::Time,
        error => Fault::Request(error),
    }
}
