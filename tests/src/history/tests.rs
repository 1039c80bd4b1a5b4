use super::*;

/// The ttl, in the time unit of these tests.
const TTL: Moment = 1_000;

fn state(status: Status, updated: u32) -> State {
    State { status, created: "0000".to_owned(), updated: format!("{updated:04}"), message: None }
}

fn saw(status: Status, updated: u32) -> Op {
    Op::Saw(state(status, updated))
}

fn result(bytes: &str) -> Op {
    Op::Result { form: Form::Session, bytes: bytes.to_owned(), by_tool: true }
}

fn answer(word: &str) -> Op {
    Op::Answer(word.to_owned())
}

fn heard(word: &str) -> Op {
    Op::Heard(word.to_owned())
}

fn call(sent: Moment, answered: Moment, op: Op) -> Call {
    Call { task: "t".to_owned(), sent, answered: Some(answered), op }
}

/// Sequential calls.
fn in_turn(ops: &[Op]) -> Vec<Call> {
    let at = |n: usize| n as Moment * 10;
    ops.iter().enumerate().map(|(n, op)| call(at(n), at(n) + 5, op.clone())).collect()
}

/// The broken rules, if the calls are added as one part, and if they are added one by one.
fn broken(calls: &[Call]) -> Vec<Rule> {
    let rules = |broken: Vec<Broken>| broken.into_iter().map(|broken| broken.rule).collect::<BTreeSet<_>>();
    let whole = rules(History::new(TTL).add(calls.to_vec()));
    let overlap = calls.windows(2).any(|pair| pair[0].answered.is_none_or(|end| end >= pair[1].sent));
    if !overlap {
        let mut history = History::new(TTL);
        let parts = calls.iter().flat_map(|call| history.add(vec![call.clone()])).collect();
        // The state of a version is remembered only within a part; across parts, the order of time says as
        // much, except about live states.
        let without = |rules: &BTreeSet<Rule>| {
            rules.iter().filter(|rule| **rule != Rule::OneState).copied().collect::<Vec<_>>()
        };
        assert_eq!(without(&rules(parts)), without(&whole), "told in parts: {calls:?}");
    }
    whole.into_iter().collect()
}

use Status::{Cancelled, Completed, Failed, InputRequired, Working};

#[test]
fn what_breaks_a_promise_is_found_by_its_rule() {
    let other = Op::Saw(State { created: "0001".to_owned(), ..state(Working, 2) });
    let rows: [(&str, &[Op], &[Rule]); 11] = [
        ("a task that is lost", &[Op::Create, Op::Missing], &[Rule::Found]),
        ("an older version", &[saw(Working, 2), saw(Working, 1)], &[Rule::Forward]),
        ("another creation", &[saw(Working, 2), other], &[Rule::Forward, Rule::OneState]),
        ("two faces of one version", &[saw(Working, 2), saw(InputRequired, 2)], &[Rule::OneState]),
        ("two ends", &[saw(Failed, 2), saw(Failed, 3)], &[Rule::OneOutcome, Rule::Final]),
        ("what goes on after its end", &[saw(Completed, 2), saw(Working, 3)], &[Rule::Final]),
        ("the result of what was cancelled", &[Op::Cancelled, result("{}")], &[Rule::CancelKept]),
        ("what may be cancelled or over", &[Op::CancelledOrOver, saw(Working, 4)], &[Rule::CancelKept]),
        ("a result that changed", &[result("{\"a\":1}"), result("{\"a\": 1}")], &[Rule::SameBytes]),
        ("sent after another was acknowledged", &[answer("a"), answer("b"), heard("b")], &[Rule::OneAnswer]),
        ("an answer that was never sent", &[heard("c")], &[Rule::OneAnswer]),
    ];
    for (what, ops, rules) in rows {
        assert_eq!(broken(&in_turn(ops)), rules, "{what}");
    }
    for status in [Working, InputRequired, Completed, Failed] {
        assert_eq!(broken(&in_turn(&[Op::Cancelled, saw(status, 4)])), [Rule::CancelKept], "{status:?}");
    }
}

#[test]
fn calls_that_overlap_break_what_no_order_allows() {
    let missing = |sent, answered| [call(0, 1, Op::Create), call(sent, answered, Op::Missing)];
    assert_eq!(broken(&missing(TTL - 1, TTL + 1)), [], "after its ttl");
    assert_eq!(broken(&missing(TTL - 2, TTL - 1)), [Rule::Found], "before");
    let said = State { message: Some("so".to_owned()), ..state(Working, 2) };
    let faces = [call(0, 10, saw(Working, 2)), call(5, 15, Op::Saw(said))];
    assert_eq!(broken(&faces), [Rule::OneState]);
    let ends = [call(0, 10, saw(Completed, 2)), call(5, 15, saw(Cancelled, 3))];
    assert_eq!(broken(&ends), [Rule::OneOutcome]);
    let answers = [call(0, 10, answer("a")), call(5, 6, answer("b"))];
    let both = [&answers[..], &[call(20, 21, heard("a")), call(30, 31, heard("b"))]].concat();
    assert_eq!(broken(&both), [Rule::OneAnswer], "a run went on with one, the next with the other");
}
