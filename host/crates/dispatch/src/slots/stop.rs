//! A stop signal: set once, for those that poll it and those that wait for it.

use parking_lot::Mutex;
use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
use tokio::sync::SetOnce;

/// A reason that clients give in `notifications/cancelled`.
#[derive(Debug, Clone, Copy)]
pub struct KnownReason {
    /// A part of the reason, in lower case.
    pub part: &'static str,
    /// The clients that send it.
    pub clients: &'static str,
    /// The cause that the reason means.
    pub cause: StopCause,
}

impl KnownReason {
    const fn timeout(part: &'static str, clients: &'static str) -> Self {
        Self { part, clients, cause: StopCause::Timeout }
    }
}

/// The reasons that real clients send other than for a person's Stop.
pub const REASONS: [KnownReason; 5] = [
    KnownReason::timeout("timed out", "TypeScript SDK, Python SDK 2"),
    KnownReason::timeout("timeout", "Rust SDK (`request timeout`)"),
    KnownReason::timeout("time out", "clients of their own making"),
    KnownReason::timeout("-32001", "TypeScript SDK, which names the code of its error"),
    // Codex sends it for Esc in its terminal and for its own timeout alike, so that only the age tells them apart.
    KnownReason { part: "cancelled by caller", clients: "Codex", cause: StopCause::Unsaid },
];

/// Why a request was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum StopCause {
    /// The client cancelled the request and did not say why.
    Unsaid = 1,
    /// The client cancelled the request because its timeout had passed.
    Timeout,
    /// The client did not say why, and its age speaks for a timeout.
    Presumed,
    /// The client cancelled the request for another reason, such as a person who pressed Stop.
    Wanted,
    /// The connection of its client ended.
    Disconnected,
    /// The pipe of its client ended, and this host goes on without it.
    Detached,
    /// The host or the run ends.
    Ended,
}

impl StopCause {
    const ALL: [Self; 7] = [
        Self::Unsaid,
        Self::Timeout,
        Self::Presumed,
        Self::Wanted,
        Self::Disconnected,
        Self::Detached,
        Self::Ended,
    ];

    /// The name of the cause in the log.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Unsaid | Self::Wanted => "cancelled",
            Self::Timeout | Self::Presumed => "client_timeout",
            Self::Disconnected => "disconnected",
            Self::Detached => "detached",
            Self::Ended => "ended_by_host",
        }
    }

    /// The cause of a `notifications/cancelled` with this reason. Reasons that [`REASONS`] does not have come from
    /// people and programs that want the call to stop.
    #[must_use]
    pub fn of_cancellation(reason: Option<&str>) -> Self {
        let reason = reason.unwrap_or_default().trim().to_ascii_lowercase();
        if reason.is_empty() {
            return Self::Unsaid;
        }
        let Some(known) = REASONS.iter().find(|known| reason.contains(known.part)) else {
            return Self::Wanted;
        };
        tracing::debug!(reason, clients = known.clients, cause = ?known.cause, "a known reason of a cancellation");
        known.cause
    }
}

/// A flag that can be waited for.
#[derive(Default)]
pub struct Stop {
    /// The cause; 0 before it is set.
    cause: AtomicU8,
    /// Set after the cause, for those that wait.
    signal: SetOnce<()>,
    /// Runs when it is set, and returns the cause that counts from then on.
    reaction: Mutex<Option<Reaction>>,
}

type Reaction = Box<dyn FnOnce(StopCause) -> StopCause + Send>;

/// Takes the reaction back when it is dropped.
pub(crate) struct OnStop<'a>(&'a Stop);

impl Drop for OnStop<'_> {
    fn drop(&mut self) {
        // The reaction is dropped without the lock.
        drop(self.0.reaction.lock().take());
    }
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stop").field(&self.cause()).finish()
    }
}

impl Stop {
    /// Sets it, because the host or the run ends. Says whether this was the first time.
    pub fn set(&self) -> bool {
        self.set_because(StopCause::Ended)
    }

    /// Sets it. The first cause stays. Says whether this was the first time.
    pub fn set_because(&self, cause: StopCause) -> bool {
        let mut reaction = self.reaction.lock();
        let first = !self.is_set();
        if first {
            // Published only once it is judged.
            let cause = reaction.take().map_or(cause, |reaction| reaction(cause));
            self.cause.store(cause as u8, Ordering::SeqCst);
        }
        drop(reaction);
        // Fails if it was set before.
        let _ = self.signal.set(());
        first
    }

    /// Runs this when it is set, before the call that sets it returns; the cause that it returns takes the place of the
    /// first. Runs it at once if it is already set. Replaces an earlier reaction.
    pub(crate) fn on_set(
        &self,
        reaction: impl FnOnce(StopCause) -> StopCause + Send + 'static,
    ) -> OnStop<'_> {
        let mut earlier = self.reaction.lock();
        let replaced = match self.cause() {
            Some(cause) => {
                self.cause.store(reaction(cause) as u8, Ordering::SeqCst);
                None
            }
            None => earlier.replace(Box::new(reaction)),
        };
        drop(earlier);
        // Dropped without the lock, as in `OnStop`.
        drop(replaced);
        OnStop(self)
    }

    /// Whether it is set.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.cause.load(Ordering::SeqCst) != 0
    }

    /// Why it is set, if it is.
    #[must_use]
    pub fn cause(&self) -> Option<StopCause> {
        let number = self.cause.load(Ordering::SeqCst);
        StopCause::ALL.into_iter().find(|cause| *cause as u8 == number)
    }

    /// Waits until it is set.
    pub async fn wait(&self) {
        self.signal.wait().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cancellation_is_judged_by_its_reason() {
        for (reason, cause) in [
            (None, StopCause::Unsaid),
            (Some("  "), StopCause::Unsaid),
            (Some("McpError: MCP error -32001: Request timed out"), StopCause::Timeout),
            (Some("Timeout of 30s reached"), StopCause::Timeout),
            (Some("AbortError: This operation was aborted"), StopCause::Wanted),
            (Some("User pressed stop"), StopCause::Wanted),
            (Some("MCP request cancelled by caller"), StopCause::Unsaid),
        ] {
            assert_eq!(StopCause::of_cancellation(reason), cause, "{reason:?}");
        }
    }

    #[test]
    fn the_page_has_the_reasons_of_clients() {
        let page = include_str!("../../../../docs/guides/use/clients-without-tasks.md");
        for KnownReason { part, clients, .. } in REASONS {
            let row = page.lines().find(|line| line.starts_with(&format!("| `{part}` |")));
            assert!(row.is_some_and(|row| row.contains(clients)), "{part}");
        }
    }

    #[test]
    fn a_reaction_is_done_once_and_only_while_it_is_wanted_and_the_first_cause_stays() {
        let seen = std::sync::Arc::new(Mutex::new(Vec::new()));
        let note = || {
            let seen = seen.clone();
            move |cause| {
                seen.lock().push(cause);
                StopCause::Presumed
            }
        };
        let stop = Stop::default();
        drop(stop.on_set(note()));
        let wanted = stop.on_set(note());
        stop.set_because(StopCause::Timeout);
        stop.set();
        drop(wanted);
        drop(stop.on_set(note()));
        assert_eq!(*seen.lock(), [StopCause::Timeout, StopCause::Presumed]);
        assert_eq!(stop.cause(), Some(StopCause::Presumed), "as the reaction judged it");
        // The first cause stays.
        let stop = Stop::default();
        assert_eq!((stop.is_set(), stop.cause()), (false, None));
        for (at, cause) in StopCause::ALL.into_iter().enumerate() {
            assert_eq!(stop.set_because(cause), at == 0);
        }
        assert_eq!(stop.cause(), Some(StopCause::Unsaid));
        assert!(!stop.set());
    }
}
