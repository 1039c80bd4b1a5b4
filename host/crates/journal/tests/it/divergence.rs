//! A guest that does something else is stopped at the first difference.

use crate::script::{BASE, Run, Step, World, again, begin, load, recorded, recorder, steps};
use proptest::prelude::*;
use toolyard_journal::{Divergence, QuestionName, RecordError, Recorder};

/// The same step with another argument, or another step if it has none.
fn changed(step: &Step) -> Option<Step> {
    Some(match step {
        Step::Clock(_) => Step::Ready,
        Step::Poll(len, times) => Step::Poll(len + 1, *times),
        Step::Ready => Step::Clock(1),
        Step::Call(function, arguments) => Step::Call(function.clone(), arguments ^ 1),
        Step::Ask(arguments, keys) => {
            let mut keys = keys.clone();
            keys.push("more".to_owned());
            Step::Ask(*arguments, keys)
        }
        Step::Sleep(ms) => Step::Sleep(ms + 1),
        Step::Request(head, uri) => Step::Request(*head, format!("{uri}x")),
        Step::Await | Step::Flush => return None,
    })
}

proptest! {
    #[test]
    fn a_changed_argument_diverges_at_its_entry(script in steps(), place in any::<prop::sample::Index>()) {
        prop_assume!(!script.is_empty());
        let place = place.index(script.len());
        let Some(other) = changed(&script[place]) else { return Ok(()) };
        let (chunks, _) = recorded(&script);
        let mut run = Run::new(load(&chunks), World::new(3), &[]);
        let mut seen = Vec::new();
        for step in &script[..place] {
            run.act(step, &mut seen).expect("the same so far");
        }
        let entry = run.recorder.position();
        let error = run.act(&other, &mut seen).expect_err("a difference");
        let RecordError::Diverged(divergence) = &error else { panic!("{error:?}") };
        prop_assert_eq!(divergence.entry, entry);
        prop_assert_ne!(&divergence.recorded, &divergence.now);
        for step in script.iter().filter(|step| !matches!(step, Step::Flush)) {
            if *step != Step::Await {
                prop_assert_eq!(run.act(step, &mut seen), Err(error.clone()), "every other operation");
            }
        }
        prop_assert_eq!(run.recorder.end(&[0; 32]), Err(error.clone()));
        prop_assert_eq!(run.recorder.record_ready(true), Err(error.clone()));
        prop_assert_eq!(run.recorder.abandon(), Err(error));
        prop_assert!(!run.recorder.is_live());
    }

    #[test]
    fn a_shorter_and_a_longer_run_diverge(script in steps()) {
        let (chunks, _) = recorded(&script);
        let mut run = Run::new(load(&chunks), World::new(3), &[]);
        let longer = [&script[..], &[Step::Clock(1)]].concat();
        prop_assert!(matches!(run.follow(&longer), Err(RecordError::Diverged(_))));
        let is_step = |step: &&Step| !matches!(step, Step::Flush | Step::Await);
        if script.iter().rfind(is_step).is_some() {
            let mut run = Run::new(load(&chunks), World::new(3), &[]);
            let divergence = run.recorder.end(&[0; 32]).expect_err("too early");
            let is_first = matches!(divergence, RecordError::Diverged(Divergence { entry: 1, .. }));
            prop_assert!(is_first);
        }
    }
}

const SIZE: QuestionName<'static> = QuestionName { key: "size", method: "elicitation/create" };

/// The text of the divergence between one operation and another.
fn between(
    first: impl FnOnce(&mut Recorder),
    second: impl FnOnce(&mut Recorder) -> Result<(), RecordError>,
) -> String {
    let mut run = recorder();
    first(&mut run);
    second(&mut again(&mut run)).expect_err("a difference").to_string()
}

#[test]
fn a_divergence_says_what_was_recorded_and_what_happens_now() {
    let clock = |run: &mut Recorder| _ = run.clock(BASE);
    let request = |run: &mut Recorder| {
        run.request(1, "POST", "https://api.example.com/orders").expect("recorded");
    };
    let before = "the run did not repeat what was recorded: entry 1: recorded ";
    let texts = [
        between(request, |run| run.request(2, "POST", "https://api.example.com/order").map(drop)),
        between(request, |run| run.request(2, "POST", "https://api.example.com/orders").map(drop)),
        between(request, |run| run.clock(BASE).map(drop)),
        between(request, |run| run.ask(1, &[SIZE]).map(drop)),
        between(|run| _ = run.ask(1, &[SIZE]), |run| run.ask(2, &[SIZE]).map(drop)),
        between(clock, |run| run.poll(3).map(drop)),
        between(|run| _ = run.sleep(5, BASE), |run| run.call("call-info", 0).map(drop)),
        between(|run| _ = run.end(&[0xab; 32]), |run| run.ready().map(drop)),
        between(|run| _ = run.end(&[0xab; 32]), |run| run.end(&[0xcd; 32]).map(drop)),
        between(|run| run.record_poll(2, &[]).expect("recorded"), |run| run.answer().map(drop)),
        between(request, |run| Err(run.diverge("a trap: unreachable\u{1b}[2J".to_owned()))),
        // A call with other arguments, before its guest begins.
        between(clock, |run| run.check_arguments(begin().arguments).and_then(|()| run.check_arguments(1))),
        // Fewer repetitions than were recorded.
        between(
            |run| (0..3).for_each(|_| clock(run)),
            |run| run.clock(BASE).and_then(|_| run.ready().map(drop)),
        ),
        // After the recorded end, nothing becomes live.
        between(|run| _ = run.end(&[1; 32]), |run| run.end(&[1; 32]).and_then(|_| run.clock(BASE).map(drop))),
    ];
    let expected = [
        "request 1 POST https://api.example.com/orders, now request 1 POST https://api.example.com/order",
        "request 1 POST https://api.example.com/orders, now request 1 POST https://api.example.com/orders with \
         other headers",
        "request 1 POST https://api.example.com/orders, now clock",
        "request 1 POST https://api.example.com/orders, now ask size (elicitation/create)",
        "ask size (elicitation/create), now ask size (elicitation/create) with other params",
        "clock, now poll of 3",
        "sleep 5 ms, now call call-info",
        "ended with sha256 abababab…, now ready",
        "ended with sha256 abababab…, now ended with sha256 cdcdcdcd…",
        "poll of 2, now answer",
        "request 1 POST https://api.example.com/orders, now a trap: unreachable\\u{1b}[2J",
        "the run did not repeat what was recorded: entry 0: recorded begin of order, now begin of order with other \
         arguments",
        "clock, now ready",
        "the run did not repeat what was recorded: entry 2: recorded the end of the run, now clock",
    ];
    assert_eq!(texts.map(|text| text.replace(before, "")), expected);
}
