//! The events of a task, and the table of their properties: who sees them, and what the audit log and the timeline say.

use crate::approval::Decision;
use crate::audit::action::Action;
use crate::error::AskError;
use crate::id::{Digest, Incarnation};
use crate::recovery::{Departure, NotRerun};
use crate::task::{Fence, Outcome, Question, Sent};
use crate::timeline::kind::EventKind;
use crate::wire::{RawJson, Timestamp};

/// Something that happens to a task.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A guest begins to work on it.
    Started {
        /// The run.
        fence: Fence,
    },
    /// The run reports its status.
    Said {
        /// The run.
        fence: Fence,
        /// The new status message.
        message: String,
    },
    /// The run is about to have effects that must not be repeated.
    Effects {
        /// The run.
        fence: Fence,
    },
    /// The run asks the client.
    Asked {
        /// The run.
        fence: Fence,
        /// The questions. Keys that this attempt used are refused. The same question of an earlier
        /// attempt keeps its answer; a different one under its key replaces it, and gets another key
        /// for its client.
        questions: Vec<Question>,
    },
    /// A question is about to leave in a request.
    Sent {
        /// The question.
        key: String,
        /// The request.
        sent: Sent,
    },
    /// The client runs a question as a task of its own.
    Entrusted {
        /// The question.
        key: String,
        /// The client's task.
        client_task: String,
    },
    /// The client answered, or the question's time ran out.
    Answered {
        /// The question.
        key: String,
        /// The answer, or the reason why there is none.
        answer: Result<RawJson, AskError>,
    },
    /// The answer to a question does not fit it, so the host asks again under another key (26T-22).
    AskedAgain {
        /// The run that checked the answer; `None` if there was nothing for a run to check.
        fence: Option<Fence>,
        /// The question.
        key: String,
    },
    /// The caller has learned of the task, or of its outcome. The only event that a task
    /// accepts after its end.
    Delivered,
    /// The caller stopped waiting before it knew the task.
    CallerLeft,
    /// The run ended.
    Finished {
        /// The run.
        fence: Fence,
        /// The outcome.
        outcome: Outcome,
        /// Diagnostics for the status message, if it failed (T-19).
        message: Option<String>,
    },
    /// The run ended because it could not continue with its journal. The operator may have the task continued.
    Stuck {
        /// The run.
        fence: Fence,
        /// The outcome.
        outcome: Outcome,
        /// Why, for the status message.
        message: Option<String>,
    },
    /// The operator decides about the call.
    Decided {
        /// The fingerprint of what the operator was shown.
        fingerprint: String,
        /// The decision.
        decision: Decision,
    },
    /// The sender believes that the time for an approval is up.
    ApprovalExpired,
    /// The owner or the operator cancels (T-34).
    Cancelled {
        /// Why, for the status message.
        message: String,
    },
    /// The sender believes that the ttl has passed.
    Expired,
    /// The host of the task is gone, or is leaving, and no other host runs the task.
    Orphaned {
        /// The host that is gone or is leaving.
        incarnation: Incarnation,
        /// How it left the task.
        departure: Departure,
        /// Why it is not run again, if it had begun.
        why: NotRerun,
    },
    /// The host of the task is gone, and another one takes the task over.
    Claimed {
        /// The host that is gone.
        from: Incarnation,
        /// The new host of the task.
        by: Incarnation,
        /// The component that its tool now comes from. A task that resumes keeps its own.
        digest: Digest,
        /// The entries of its journal; 0 if it has none.
        reached: u64,
    },
    /// A host that has room takes it over from a living one, where it waits for its turn.
    Taken {
        /// The host where it waits.
        from: Incarnation,
        /// The new host of the task.
        by: Incarnation,
    },
    /// The host of the task is leaving, and leaves the task to the next one.
    Released {
        /// The leaving host.
        incarnation: Incarnation,
    },
    /// The run waits, and ends until the task is due. Everything that it recorded is durable.
    Parked {
        /// The run.
        fence: Fence,
        /// When the task is due. `None`: at the answer to its last open question, or at the first deadline of
        /// its open questions.
        wake: Option<Timestamp>,
        /// The entries of its journal.
        reached: u64,
    },
    /// A host takes a parked task, and has a slot in which its next run begins.
    Woken {
        /// The new host of the task.
        by: Incarnation,
    },
    /// The run has repeated what earlier runs had done, and goes on from there.
    Repeated {
        /// The run.
        fence: Fence,
    },
    /// The operator has a task continued that failed because its runs could not continue.
    Retried,
    /// The run hands its state over to another run of the same call. That run asks every question again.
    Continued {
        /// The run.
        fence: Fence,
    },
    /// The run goes on, but no other run can continue it.
    Unresumable {
        /// The run.
        fence: Fence,
        /// Why, in a sentence for people.
        why: String,
    },
}

/// The properties of an event that do not depend on its task.
pub(crate) struct EventRow {
    /// Whether clients see it. If not, the time of the last change stays the same (T-20).
    pub is_visible: bool,
    /// Whether the run of the task is stopped.
    pub stops_run: StopsRun,
    /// The entry of the audit log; `audit.rs` adds the details.
    pub audit: Option<Action>,
    /// The event of the timeline; `timeline.rs` adds the details.
    pub timeline: Option<EventKind>,
}

/// When the run of a task is stopped by an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopsRun {
    /// The run has ended by itself, or goes on.
    Never,
    /// If the task ends, because its run did not decide that.
    AtEnd,
    Always,
}

impl Event {
    /// The row of the event.
    pub(crate) const fn row(&self) -> EventRow {
        use StopsRun::{Always, AtEnd, Never};
        const SEEN: bool = true;
        const UNSEEN: bool = false;
        let (is_visible, stops_run, audit, timeline) = match self {
            Self::Started { .. } => (SEEN, AtEnd, None, Some(EventKind::Started)),
            Self::Said { .. } => (SEEN, AtEnd, None, Some(EventKind::Status)),
            Self::Effects { .. } => (UNSEEN, AtEnd, None, Some(EventKind::Effects)),
            Self::Asked { .. } => (SEEN, AtEnd, Some(Action::Asked), Some(EventKind::Asked)),
            Self::Sent { .. } => (UNSEEN, AtEnd, None, None),
            Self::Entrusted { .. } => (UNSEEN, AtEnd, None, None),
            Self::Answered { .. } => (SEEN, AtEnd, Some(Action::Answered), Some(EventKind::Answered)),
            Self::AskedAgain { .. } => (SEEN, AtEnd, Some(Action::Asked), Some(EventKind::Asked)),
            Self::Delivered => (UNSEEN, AtEnd, None, None),
            Self::CallerLeft => (SEEN, AtEnd, None, None),
            Self::Finished { .. } => (SEEN, Never, Some(Action::Ended), Some(EventKind::Ended)),
            Self::Stuck { .. } => (SEEN, Never, Some(Action::Ended), Some(EventKind::Ended)),
            // Given or refused, approved or denied: that depends on the decision.
            Self::Decided { .. } => (SEEN, AtEnd, None, None),
            Self::ApprovalExpired => (SEEN, AtEnd, Some(Action::ApprovalExpired), Some(EventKind::Ended)),
            Self::Cancelled { .. } => (SEEN, AtEnd, Some(Action::Cancelled), Some(EventKind::Ended)),
            Self::Expired => (SEEN, AtEnd, Some(Action::Expired), Some(EventKind::Ended)),
            Self::Orphaned { .. } => (SEEN, AtEnd, Some(Action::Orphaned), Some(EventKind::Ended)),
            Self::Claimed { .. } => (SEEN, AtEnd, Some(Action::Claimed), Some(EventKind::Claimed)),
            Self::Taken { .. } => (UNSEEN, AtEnd, None, Some(EventKind::Claimed)),
            Self::Released { .. } => (SEEN, Always, Some(Action::Released), Some(EventKind::Released)),
            Self::Parked { .. } => (UNSEEN, AtEnd, None, Some(EventKind::Parked)),
            Self::Woken { .. } => (UNSEEN, AtEnd, None, Some(EventKind::Woken)),
            Self::Repeated { .. } => (UNSEEN, AtEnd, None, None),
            Self::Retried => (SEEN, AtEnd, Some(Action::Resumed), Some(EventKind::Parked)),
            // The task is parked next.
            Self::Continued { .. } => (UNSEEN, AtEnd, None, None),
            Self::Unresumable { .. } => (UNSEEN, AtEnd, None, Some(EventKind::Unresumable)),
        };
        EventRow { is_visible, stops_run, audit, timeline }
    }
}
