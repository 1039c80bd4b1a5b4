//! The bridge: long calls of clients that know no tasks. Such a call goes on as a task, its result names
//! the task, and the client's model collects the outcome by a tool of the host.
//!
//! Here are the texts and the timeouts of clients. The settings and the client rows are in `settings/bridge.rs`, the calls in
//! `call/bridged.rs`, the host tools in `call/host_tools.rs`.

pub(crate) mod text;
pub(crate) mod timeouts;

use crate::access::caller::Caller;
use crate::settings::Settings;
use text::ToolNames;

/// A tool of the host for clients that know no tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostTool {
    Wait,
    List,
    Cancel,
    Answer,
}

impl HostTool {
    const ALL: [Self; 4] = [Self::Wait, Self::List, Self::Cancel, Self::Answer];

    const fn base_name(self) -> &'static str {
        match self {
            Self::Wait => text::WAIT,
            Self::List => text::LIST,
            Self::Cancel => text::CANCEL,
            Self::Answer => text::ANSWER,
        }
    }
}

/// The names of the host tools beside one catalog. A plugin's tool keeps its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostToolNames([String; 4]);

impl Default for HostToolNames {
    fn default() -> Self {
        Self::beside("", |_| false)
    }
}

impl HostToolNames {
    /// The prefix for a host tool whose name a plugin's tool has.
    const OWN: &'static str = "toolyard_";

    /// The names with this prefix, changed where another tool of the catalog has the name.
    pub fn beside(prefix: &str, is_taken: impl Fn(&str) -> bool) -> Self {
        Self(HostTool::ALL.map(|tool| Self::free(format!("{prefix}{}", tool.base_name()), &is_taken)))
    }

    /// A free name made of this one: changed if another tool of the catalog has it.
    pub fn free(mut name: String, is_taken: impl Fn(&str) -> bool) -> String {
        while is_taken(&name) {
            name.insert_str(0, Self::OWN);
        }
        name
    }

    /// The names that plugins have taken.
    pub fn taken<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = String> + 'a {
        let wanted = HostTool::ALL.map(|tool| format!("{prefix}{}", tool.base_name()));
        wanted.into_iter().zip(&self.0).filter(|(wanted, name)| wanted != *name).map(|(wanted, _)| wanted)
    }

    /// The host tool of this name.
    pub fn find(&self, name: &str) -> Option<HostTool> {
        HostTool::ALL.into_iter().zip(&self.0).find(|(_, own)| *own == name).map(|(tool, _)| tool)
    }

    /// The names that a client is offered. A client that can be asked by a request answers no question
    /// by a tool.
    pub fn for_client(&self, settings: &Settings, caller: &Caller) -> ToolNames {
        let [wait, list, cancel, answer] = self.0.clone();
        let answers = settings.bridge.as_ref().is_some_and(|bridge| bridge.answers);
        let answer = (answers && !caller.takes_forms()).then_some(answer);
        ToolNames { wait, list, cancel, answer, console: None }
    }
}

/// The beginning of the status message of a task that waits for its turn.
pub(crate) const QUEUED: &str = "Waiting for its turn";
