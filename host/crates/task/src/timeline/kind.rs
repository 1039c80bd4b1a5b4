//! The kinds of events of a timeline.

/// Declares the kinds of events once, with their numbers and names.
macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $kind:ident = $number:literal, $name:literal;)+) => {
        /// The kind of an event.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum EventKind {
            $($(#[doc = $doc])+ $kind,)+
        }

        impl EventKind {
            /// Every kind.
            pub const ALL: &'static [Self] = &[$(Self::$kind),+];

            /// The number of the kind in a store. A number is never reused.
            #[must_use]
            pub const fn number(self) -> i16 {
                match self { $(Self::$kind => $number),+ }
            }

            /// The name of the kind.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$kind => $name),+ }
            }
        }
    };
}

kinds! {
    /// The task was created.
    Created = 1, "created";
    /// The task waits for a slot.
    Queued = 2, "queued";
    /// A guest begins to work on it.
    Started = 3, "started";
    /// The guest reports how far it is, at most once a second.
    Progress = 4, "progress";
    /// The status message changed.
    Status = 5, "status";
    /// A log message of the guest.
    Log = 6, "log";
    /// Text on the guest's standard output.
    Stdout = 7, "stdout";
    /// Text on the guest's standard error.
    Stderr = 8, "stderr";
    /// The guest asks the client.
    Asked = 9, "asked";
    /// A question is no longer open.
    Answered = 10, "answered";
    /// A person approved the call.
    Approved = 11, "approved";
    /// A person denied the call.
    Denied = 12, "denied";
    /// The host did something for the guest.
    HostCall = 13, "host_call";
    /// The guest says that effects begin which must not be repeated.
    Effects = 14, "effects";
    /// A leaving host left the task to the next one.
    Released = 15, "released";
    /// Another host took the task over.
    Claimed = 16, "claimed";
    /// The task has ended.
    Ended = 17, "ended";
    /// Events are missing here. The body is a [`LeftOut`](super::LeftOut).
    LeftOut = 18, "left_out";
    /// The run waits and gave up its place, which ends the attempt.
    Parked = 19, "parked";
    /// A host took the parked task, to continue it.
    Woken = 20, "woken";
    /// No other run can continue this one. The message says why.
    Unresumable = 21, "unresumable";
    /// A request was under way when the host stopped, and it was decided what happens to it.
    Doubt = 22, "doubt";
}

impl EventKind {
    /// The kind with this number.
    #[must_use]
    pub fn of_number(number: i16) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.number() == number)
    }
}
