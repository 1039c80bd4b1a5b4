//! Audit entries that belong to no change of a task (T-43): results handed out, look-ups that found
//! nothing, refusals. No caller waits for a disk.

use crate::access::Access;
use crate::access::caller::Caller;
use crate::access::rate_limit::Operation;
use crate::access::rules::Object;
use toolyard_task::audit::{Action, By, Entry, fingerprint, name_of};
use toolyard_task::run_journal::{DecidedBy, DoubtDecision};
use toolyard_task::session::Session;
use toolyard_task::wire::Timestamp;
use toolyard_task::{Task, TaskId};

/// Refusals that one second records. A refused client can try as often as the network allows;
/// beyond this number the log keeps a count only, so that a flood of refusals cannot rotate
/// important entries away.
const MAX_REFUSALS_PER_SECOND: u64 = 100;

/// The refusals of the current second.
#[derive(Default)]
pub(crate) struct RefusalCount {
    number: i64,
    noted: u64,
    left_out: u64,
}

impl RefusalCount {
    /// Whether to record another refusal, and how many refusals the previous second left out, if it
    /// has just ended.
    fn admit(&mut self, now: Timestamp) -> (bool, u64) {
        let left_out = self.turn(now);
        let admitted = self.noted < MAX_REFUSALS_PER_SECOND;
        if admitted {
            self.noted += 1;
        } else {
            self.left_out += 1;
        }
        (admitted, left_out)
    }

    /// Starts a new second if the current one has passed. Returns how many refusals the old one
    /// left out.
    fn turn(&mut self, now: Timestamp) -> u64 {
        let number = now.0.div_euclid(1_000);
        if number == self.number {
            return 0;
        }
        std::mem::replace(self, Self { number, noted: 0, left_out: 0 }).left_out
    }
}

impl Access {
    /// Records that a principal may not use an object, which a rule denied or a scope would allow.
    pub(crate) fn note_denied(
        &self,
        caller: &Caller,
        object: Object<'_>,
        action: Action,
        rule: Option<&str>,
        reason: &str,
    ) {
        let entry = Entry::new(action, &caller.by()).for_reason(reason);
        let entry = match object {
            Object::Tool(name) => entry.of_tool(name),
            Object::Prompt(name) => entry.of_prompt(name),
            Object::Resource(uri) => entry.of_resource(uri),
        };
        self.note_refusal(match rule {
            Some(rule) => entry.by_rule(rule),
            None => entry,
        });
    }

    /// Records an exceeded rate limit: once for each principal, kind and window, not once for each
    /// request.
    pub(crate) fn note_limited(&self, who: &str, operation: Operation, limit: &str) {
        let action = match operation {
            Operation::Polling => Action::LimitedPolling,
            Operation::FailedLookup => Action::LimitedLookups,
            Operation::Request | Operation::Call | Operation::Creation | Operation::Session => {
                Action::LimitedRequests
            }
        };
        self.note_refusal(Entry::new(action, &By::principal(who, None)).for_reason(limit));
    }

    /// Records a request with invalid credentials or none. The reason is a fixed text of the host:
    /// never the credentials, nor any part of them.
    pub fn note_unauthenticated(&self, reason: &str) {
        self.note_refusal(
            Entry::new(Action::Unauthenticated, &By::principal("unknown", None)).for_reason(reason),
        );
    }

    /// Records an event of the console: a login, its end, or a refusal and its reason.
    pub fn note_console(&self, caller: &Caller, action: Action, reason: Option<&str>) {
        let entry = Entry::new(action, &caller.by());
        match (action, reason) {
            (Action::ConsoleRefused, reason) => {
                self.note_refusal(entry.for_reason(reason.unwrap_or_default()))
            }
            _ => self.audit.note(entry),
        }
    }

    /// Records that the operator ended a session.
    pub(crate) fn note_session_ended(&self, by: &By, session: &Session) {
        let entry = Entry::new(Action::SessionEnded, by);
        self.audit.note(Entry {
            owner: Some(name_of(&session.owner)),
            session: Some(fingerprint(&session.id)),
            ..entry
        });
    }

    /// Records what was decided about a request that was under way when the host of its task stopped.
    pub(crate) fn note_doubt(&self, task: &Task, request: &str, decision: DoubtDecision, by: DecidedBy<'_>) {
        self.audit.note(Entry::doubt(task, request, decision, by));
    }

    /// Records that the outcome of a task was handed out.
    pub(crate) fn note_retrieved(&self, caller: &Caller, task: &Task) {
        self.audit.note(Entry::retrieved(task, &caller.by()));
    }

    /// Records that the caller asked for a task that it does not have. Text that is not a task id is
    /// not repeated.
    pub(crate) fn note_unknown(&self, caller: &Caller, id: Option<TaskId>) {
        self.note_refusal(Entry { task: id, ..Entry::new(Action::Unknown, &caller.by()) });
    }

    /// Records how many refusals were left out, once their second has passed.
    pub(crate) fn settle_refusals(&self) {
        let left_out = self.refusals.lock().turn(self.clock.now());
        self.note_left_out(left_out);
    }

    fn note_refusal(&self, entry: Entry) {
        let (admitted, left_out) = self.refusals.lock().admit(self.clock.now());
        self.note_left_out(left_out);
        if admitted {
            self.audit.note(entry);
        }
    }

    fn note_left_out(&self, count: u64) {
        if count > 0 {
            self.audit.note(Entry::lost(count, "too_many_refusals"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t_43_refusals_without_end_are_counted_and_not_written() {
        let mut refusals = RefusalCount::default();
        let mut in_second = |second: i64, count: u64| {
            let admit = |number: u64| refusals.admit(Timestamp(second * 1_000 + number as i64 % 1_000));
            let got: Vec<_> = (0..count).map(admit).collect();
            let admitted = got.iter().filter(|(admitted, _)| *admitted).count() as u64;
            (admitted, got.iter().map(|(_, left)| left).sum())
        };
        assert_eq!(in_second(7, 3), (3, 0_u64));
        assert_eq!(in_second(8, MAX_REFUSALS_PER_SECOND + 25), (MAX_REFUSALS_PER_SECOND, 0));
        assert_eq!(in_second(9, 1), (1, 25));
        assert_eq!(in_second(10, 1), (1, 0));
    }
}
