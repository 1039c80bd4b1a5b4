use super::*;
use crate::id::Incarnation;
use crate::task::{Fence, Resume};
use crate::wire::Timestamp;

fn task(attempt: u32, begun: bool) -> Task {
    let fence = Fence { incarnation: Incarnation(1), attempt };
    Task { fence, started_at: begun.then_some(Timestamp(0)), rerun: true, ..crate::tests::task() }
}

/// A5: which tasks are run again, and which are not.
#[test]
fn only_what_the_operator_allows_is_run_again_and_only_so_often() {
    use NotRerun::{Attempts, Effects, NotDeclared};
    let plain = Task { rerun: false, ..task(1, true) };
    let affected = Task { effects: true, ..task(1, true) };
    let cases = [
        // A task that never began is run, whatever its tool is.
        (Task { rerun: false, ..task(1, false) }, Some(Durability::None), Recovery::Run),
        (plain.clone(), None, Recovery::End(NotDeclared)),
        // A later setting of the operator does not make an earlier task run again.
        (plain, Some(Durability::Rerun), Recovery::End(NotDeclared)),
        (task(1, true), None, Recovery::Run),
        (task(1, true), Some(Durability::Rerun), Recovery::Run),
        // The operator can revoke the setting.
        (task(1, true), Some(Durability::None), Recovery::End(NotDeclared)),
        (affected, Some(Durability::Rerun), Recovery::End(Effects)),
        (task(2, true), None, Recovery::Run),
        (task(3, true), None, Recovery::End(Attempts(3))),
        // The third was claimed and did not begin.
        (task(3, false), None, Recovery::Run),
        (task(4, false), None, Recovery::End(Attempts(3))),
    ];
    for (task, declared, expected) in cases {
        assert_eq!(recovery(&task, declared, 3), expected, "{task:?} {declared:?}");
    }
    assert_eq!(recovery(&task(1, true), None, 1), Recovery::End(Attempts(1)));
}

#[test]
fn a_recorded_task_is_resumed_while_the_operator_wants_it_and_it_gets_further() {
    use NotRerun::{NotDeclared, Stalled};
    let recorded = |stalled, begun| {
        let resume = Some(Resume { stalled, ..Resume::default() });
        Task { resume, rerun: false, effects: true, ..task(9, begun) }
    };
    let (declared, unknown) = (Some(Durability::Resume), None);
    let cases = [
        // Neither effects nor the number of attempts matter.
        (recorded(0, true), declared, Recovery::Resume),
        (recorded(2, true), unknown, Recovery::Resume),
        // Claimed, and not begun.
        (recorded(0, false), declared, Recovery::Resume),
        (recorded(3, true), declared, Recovery::End(Stalled)),
        (recorded(4, true), unknown, Recovery::End(Stalled)),
        // The operator can revoke the setting.
        (recorded(0, true), Some(Durability::None), Recovery::End(NotDeclared)),
        (recorded(0, true), Some(Durability::Rerun), Recovery::End(NotDeclared)),
        // A task that never began is run.
        (Task { resume: Some(Resume::default()), ..task(1, false) }, Some(Durability::None), Recovery::Run),
        // A task that lost its journal is as one that is not declared.
        (Task { rerun: false, ..task(1, true) }, declared, Recovery::End(NotDeclared)),
    ];
    for (task, declared, expected) in cases {
        assert_eq!(recovery(&task, declared, 3), expected, "{task:?} {declared:?}");
    }
}
