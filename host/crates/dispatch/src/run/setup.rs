//! The values that a run is set up from.

use crate::observe::observer::Observation;
use crate::run::client::Client;
use crate::run::promotion::Promotion;
use crate::run::questions::round_trip::RoundTrip;
use crate::slots::stop::Stop;
use crate::slots::work::RunTarget;
use std::sync::Arc;
use toolyard_protocol::TraceContext;

/// The values that a run is set up from.
pub(crate) struct Setup {
    pub work: RunTarget,
    pub stop: Arc<Stop>,
    pub client: Client,
    /// The trace that its call came with.
    pub trace: Option<TraceContext>,
    /// The observed call, if there is an observer.
    pub observation: Option<Arc<Observation>>,
    /// How a stateless client is asked while this is a plain call.
    pub round_trip: Option<Box<RoundTrip>>,
    /// The parts that it needs to become a task, if it may.
    pub promotion: Option<Box<Promotion>>,
    /// Whether the host asks a person for what the manifest leaves to a person.
    pub asks_permission: bool,
}

impl Setup {
    /// A run of this target for that client.
    pub fn new(work: RunTarget, stop: Arc<Stop>, client: Client) -> Self {
        Self {
            work,
            stop,
            client,
            trace: None,
            observation: None,
            round_trip: None,
            promotion: None,
            asks_permission: true,
        }
    }
}
