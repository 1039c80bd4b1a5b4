//! The components of the host, for runs and for the facade.

use crate::access::Access;
use crate::catalog::LiveCatalog;
use crate::client::Clients;
use crate::node::Node;
use crate::observe::Observers;
use crate::settings::Settings;
use crate::slots::Slots;
use crate::task::Tasks;
use std::sync::{Arc, OnceLock};
use toolyard_task::{Clock, Ids};

/// The components of the host, for runs and for the facade.
pub(crate) struct RunDeps {
    pub settings: Arc<Settings>,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn Ids>,
    pub access: Arc<Access>,
    pub observers: Arc<Observers>,
    pub clients: Arc<Clients>,
    pub slots: Arc<Slots>,
    pub node: Arc<Node>,
    pub tasks: Arc<Tasks>,
    pub catalog: Arc<LiveCatalog>,
    /// The address of the console, once it listens.
    pub console: OnceLock<String>,
}

impl RunDeps {
    /// The address of the console, if there is one.
    pub fn console(&self) -> Option<&str> {
        self.console.get().map(String::as_str)
    }
}
