//! The tools and clients of the bridge, the settings of its host, and the promises that follow from them.

use crate::dice::Dice;
use std::sync::Arc;
use std::time::Duration;
use toolyard_dispatch::{
    BridgeSettings, BridgedClient, ClientPattern, OnClientTimeout, Settings, StopCause, TaskSupport,
};
use toolyard_kit::{bounds, bridge};
use toolyard_task::Durability;

/// With sessions: the local user, a subject, an anonymous client. Without: a subject, an anonymous client.
pub const CLIENTS: usize = 5;
/// The local user.
pub const LOCAL: usize = 0;

/// Whether the tasks of this client belong to anyone.
pub fn is_anyone(client: usize) -> bool {
    client == 2 || client == 4
}

/// Whether this client has no session.
pub fn is_stateless(client: usize) -> bool {
    client >= 3
}

/// How a client leaves its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaving {
    /// It cancels, and gives a timeout as the reason.
    Timeout,
    /// It cancels, and gives no reason.
    Unsaid,
    /// It cancels because a person wants that.
    Person,
    /// The connection of a request without a session ends.
    Disconnect,
    /// The pipe of a client closes, and the host continues without it.
    Detach,
    /// The connection of a request in a session ends, which the host ignores.
    Broken,
    /// It stops waiting, and sends nothing.
    Silence,
}

impl Leaving {
    pub const ALL: [Self; 7] = {
        use Leaving::*;
        [Timeout, Unsaid, Person, Disconnect, Detach, Broken, Silence]
    };

    /// Whether this client can leave in this way.
    pub fn fits(self, client: usize) -> bool {
        match self {
            Self::Disconnect => is_stateless(client),
            Self::Detach => client == LOCAL,
            Self::Broken => client == 1 || client == 2,
            // The only cancellation of a request without a session is the end of its connection.
            Self::Timeout | Self::Unsaid | Self::Person => !is_stateless(client),
            Self::Silence => true,
        }
    }

    /// The cause that the host gets.
    pub fn cause(self) -> Option<StopCause> {
        match self {
            Self::Timeout => Some(StopCause::Timeout),
            Self::Unsaid => Some(StopCause::Unsaid),
            Self::Person => Some(StopCause::Wanted),
            Self::Disconnect => Some(StopCause::Disconnected),
            Self::Detach => Some(StopCause::Detached),
            Self::Broken | Self::Silence => None,
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Timeout => "timeouts",
            Self::Unsaid => "cancellations without a reason",
            Self::Person => "stops by a person",
            Self::Disconnect => "disconnects without a session",
            Self::Detach => "detached pipes",
            Self::Broken => "disconnects in a session",
            Self::Silence => "clients that gave up without a word",
        }
    }

    /// Whether it stops a call as the end of a connection does.
    pub fn is_cut(self) -> bool {
        matches!(self, Self::Disconnect | Self::Detach)
    }

    /// Whether no reply arrives after it.
    pub fn breaks(self) -> bool {
        matches!(self, Self::Disconnect | Self::Detach | Self::Broken)
    }
}

/// A tool whose guests count an effect.
pub struct CountedTool {
    pub name: &'static str,
    pub reruns: bool,
    pub support: TaskSupport,
}

/// One tool for each durability and each task support that allows a hand-off.
pub const TOOLS: [CountedTool; 4] = [
    CountedTool { name: "look", reruns: true, support: TaskSupport::Optional },
    CountedTool { name: "pay", reruns: false, support: TaskSupport::Optional },
    CountedTool { name: "scan", reruns: true, support: TaskSupport::Required },
    CountedTool { name: "order", reruns: false, support: TaskSupport::Required },
];

/// The duration and the manner of a run, as arguments. Equal arguments are written in two ways.
pub fn arguments((time, manner): (u64, u64), number: usize) -> String {
    match number % 2 {
        0 => format!(r#"{{"time":{time},"manner":{manner}}}"#),
        _ => format!(r#"{{ "manner": {manner}, "time": {time} }}"#),
    }
}

/// The agent of a stateless client whose calls outlive its connection.
pub const KEEPER: &str = "keeper";

/// A fault of the host, planted to show that the check finds it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Fault {
    /// No fault.
    #[default]
    None,
    /// No call joins an ended task.
    NoRejoin,
    /// The host does not rebuild its index of kept tasks from the store.
    IndexLost,
    /// The transport reports that a lost reply was written.
    LostIsWritten,
    /// All tools run again after the death of their host.
    AllRerun,
    /// A timeout stops the call.
    TimeoutStops,
}

/// The promises that follow from the settings of a timeline.
#[derive(Debug, Clone, Copy, Default)]
pub struct Promises {
    pub fault: Fault,
    pub after: u64,
    /// Whether a timeout keeps a call.
    pub keeps_timeouts: bool,
    /// Whether the stateless clients are keepers.
    pub keeps_disconnects: bool,
    pub grace: i64,
    pub rejoin: i64,
    pub queues: bool,
    /// The chance in percent that a call of the store is slow.
    pub slow: u64,
}

impl Promises {
    pub fn any(fault: Fault, dice: &mut Dice) -> Self {
        Self {
            fault,
            after: dice.pick(&[0, 2_000, 6_000, 6_000]),
            keeps_timeouts: dice.percent(85),
            keeps_disconnects: dice.percent(50),
            grace: 5_000,
            rejoin: 60_000,
            queues: dice.percent(80),
            slow: if dice.percent(30) { 60 } else { 0 },
        }
    }

    /// Whether the host keeps a call, if its owner can find it. `is_presumed`: the host takes it for a timeout.
    pub fn keeps(&self, leaving: Leaving, is_presumed: bool) -> bool {
        match leaving {
            Leaving::Timeout => self.keeps_timeouts,
            Leaving::Unsaid => self.keeps_timeouts && is_presumed,
            Leaving::Disconnect => self.keeps_disconnects,
            Leaving::Detach => true,
            Leaving::Person | Leaving::Broken | Leaving::Silence => false,
        }
    }

    /// The fate of the unfinished runs of this tool.
    pub fn durability(&self, tool: &CountedTool) -> Durability {
        if tool.reruns || self.fault == Fault::AllRerun { Durability::Rerun } else { Durability::None }
    }

    pub fn settings(&self) -> Settings {
        let keeps = self.keeps_timeouts && self.fault != Fault::TimeoutStops;
        let keeper = BridgedClient {
            name: ClientPattern::new(KEEPER).expect("a pattern"),
            after: None,
            wait: None,
            keeps_on_disconnect: true,
        };
        let rejoin = if self.fault == Fault::NoRejoin { 0 } else { self.rejoin };
        let bridge = BridgeSettings {
            wait: Duration::from_secs(5),
            on_client_timeout: if keeps { OnClientTimeout::Keep } else { OnClientTimeout::Stop },
            grace: Duration::from_millis(self.grace.unsigned_abs()),
            rejoin: Duration::from_millis(rejoin.unsigned_abs()),
            clients: vec![keeper],
            ..bridge(Duration::from_millis(self.after))
        };
        Settings {
            admission: bounds(5, 3, 20),
            rerun_after_ms: 500,
            bridge: Some(Arc::new(bridge)),
            queue_when_busy: self.queues,
            ..toolyard_kit::SETTINGS
        }
    }
}
