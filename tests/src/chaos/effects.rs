//! Checks the effects of the guests of a run against the states of their tasks.

use super::report::Counts;
use super::sagas;
use super::shared_state::{CreatedTask, Kind, SharedState};
use crate::Sink;
use crate::history::{Broken, Rule, Status};
use crate::sink::Effects;
use std::collections::BTreeMap;

/// Calls that had effects, of tools that must not run twice.
pub(super) const ONCE: &str = "effects of tools that must not run twice, none of them twice";
/// Calls that had effects, of tools that may be run again.
pub(super) const AGAIN: &str = "effects of tools that may run again";
/// How many of these were run again.
pub(super) const RERUN: &str = "effects of tools that were run again";

/// The forbidden effects.
pub(super) fn violations(shared: &SharedState, sink: &Sink) -> Vec<Broken> {
    let mut broken = forbidden(&shared.all(), &sink.all());
    broken.extend(sagas::violations(sink));
    broken
}

fn forbidden(made: &[CreatedTask], effects: &BTreeMap<String, Effects>) -> Vec<Broken> {
    let mut broken = Vec::new();
    let mut breaks = |task: &str, how: String| {
        broken.push(Broken { rule: Rule::Effects, task: task.to_owned(), how });
    };
    for (key, effects) in effects {
        if key.starts_with("once-") && effects.begun.len() > 1 {
            breaks(key, format!("it must not run twice: {effects:?}"));
        }
        if effects.repeats() && !is_saga(key) {
            breaks(key, format!("one attempt had effects twice: {effects:?}"));
        }
    }
    let none = Effects::default();
    for made in made {
        let effects = effects.get(&made.key).unwrap_or(&none);
        let Some((status, message)) = &made.over else { continue };
        let message = message.as_deref().unwrap_or_default();
        if *status == Status::Completed && made.sends && effects.begun.is_empty() {
            breaks(&made.id, "it is completed and had no effect".to_owned());
        }
        if message.contains("had not begun") && !effects.begun.is_empty() {
            breaks(&made.id, format!("{message:?}, and {effects:?}"));
        }
    }
    broken
}

/// The steps of sagas have numbers instead of attempts.
fn is_saga(key: &str) -> bool {
    [Kind::Saga, Kind::StrictSaga].iter().any(|kind| key.starts_with(kind.tool()))
}

/// The answers with which runs continued.
pub(super) fn received_answers(shared: &SharedState, sink: &Sink) -> Vec<(CreatedTask, String)> {
    let effects = sink.all();
    let words = |made: &CreatedTask| -> Vec<String> {
        let words = effects.get(&made.key).map(Effects::distinct_words).unwrap_or_default();
        words.into_iter().map(str::to_owned).collect()
    };
    let made = shared.all().into_iter();
    made.flat_map(|made| words(&made).into_iter().map(move |word| (made.clone(), word))).collect()
}

/// Counts the runs of the guests.
pub(super) fn counts(shared: &SharedState, sink: &Sink) -> Counts {
    let acknowledged: std::collections::HashSet<_> = shared.all().into_iter().map(|made| made.key).collect();
    let mut counts = Counts::new();
    let mut count = |what, holds: bool| *counts.entry(what).or_default() += u64::from(holds);
    for (key, effects) in sink.all() {
        if key.starts_with("once-") {
            count(ONCE, true);
            count("effects of calls that were never acknowledged", !acknowledged.contains(&key));
        } else if !is_saga(&key) {
            count(AGAIN, true);
            count(RERUN, effects.begun.len() > 1);
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(key: &str, over: Option<(Status, &str)>, begun: &[u32]) -> usize {
        let over = over.map(|(status, message)| (status, Some(message.to_owned())));
        let (id, key) = ("t".to_owned(), key.to_owned());
        let made =
            CreatedTask { id, at: 1, key: key.clone(), principal: 0, kind: Kind::Long, sends: true, over };
        let effects = Effects { begun: begun.to_vec(), words: Vec::new() };
        forbidden(&[made], &BTreeMap::from([(key, effects)])).len()
    }

    #[test]
    fn what_was_done_too_often_or_denied_is_found() {
        assert_eq!(of("once-1", Some((Status::Completed, "")), &[1]), 0);
        assert_eq!(of("once-1", Some((Status::Failed, "it may have had effects")), &[1]), 0);
        assert_eq!(of("again-1", Some((Status::Completed, "")), &[1, 2, 3]), 0);
        assert_eq!(of("once-1", None, &[1, 2]), 1, "run twice");
        assert_eq!(of("again-1", None, &[1, 2, 2]), 1, "one attempt twice");
        assert_eq!(of("once-1", Some((Status::Completed, "")), &[]), 1, "it never ran");
        assert_eq!(of("once-1", Some((Status::Failed, "the task had not begun")), &[1]), 1, "it had");
    }
}
