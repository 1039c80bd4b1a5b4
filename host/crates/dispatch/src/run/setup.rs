//! What a run is set up from.

use crate::observe::observer::Observation;
use crate::run::client::Client;
use crate::run::prospect::Prospect;
use crate::run::round_trip::Rounds;
use crate::slots::stop::Stop;
use crate::slots::work::Work;
use std::sync::Arc;
use toolyard_protocol::TraceContext;

/// What a run is set up from.
pub(crate) struct Setup {
    pub work: Work,
    pub stop: Arc<Stop>,
    pub client: Client,
    /// The trace that its call came with.
    pub trace: Option<TraceContext>,
    /// The call, if somebody looks on.
    pub observation: Option<Arc<Observation>>,
    /// How a stateless client is asked while this is a plain call.
    pub rounds: Option<Box<Rounds>>,
    /// What it takes to become a task, if it may.
    pub prospect: Option<Box<Prospect>>,
    /// Whether a person is asked for what the manifest leaves to a person.
    pub asks_permission: bool,
    /// Whether its arguments are known to fit; else it checks them before the guest begins.
    pub is_checked: bool,
    /// Whether it begins elsewhere than on the thread that serves its client.
    pub begins_elsewhere: bool,
}

impl Setup {
    /// A run of this for that client, whose arguments are known to fit.
    pub fn new(work: Work, stop: Arc<Stop>, client: Client) -> Self {
        Self {
            work,
            stop,
            client,
            trace: None,
            observation: None,
            rounds: None,
            prospect: None,
            asks_permission: true,
            is_checked: true,
            begins_elsewhere: false,
        }
    }
}
