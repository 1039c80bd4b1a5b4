//! HTTP exchanges: responses by number, and requests in doubt.

use crate::script::{again, load, recorder, text_body};
use toolyard_journal::{DecidedBy, DoubtDecision, Exchange, RecordError, Response, ResponseOutcome};

#[test]
fn responses_are_found_by_number_whenever_they_came() {
    let mut run = recorder();
    for place in 1..=3 {
        assert_eq!(run.request(7, "GET", &format!("https://a/{place}")), Ok(Exchange::Live(place)));
    }
    let failed = Response { request_body: 0, outcome: ResponseOutcome::Error("dns".to_owned()) };
    run.record_response(3, &failed).expect("recorded");
    run.record_response(1, &text_body("one")).expect("recorded");
    let chunk = run.take_chunk(0, 0).expect("a chunk");
    let mut again = load(std::slice::from_ref(&chunk));
    assert_eq!(again.request(7, "GET", "https://a/1"), Ok(Exchange::Past(1)));
    assert_eq!(again.response(1), Ok(Some(text_body("one"))));
    assert_eq!(again.response(3), Ok(Some(failed)));
    assert_eq!([0, 2, 4, u32::MAX].map(|number| again.response(number)), [(); 4].map(|()| Ok(None)));
    let Ok(Some(Response { outcome: ResponseOutcome::Complete { body, .. }, .. })) = again.response(1) else {
        panic!("a response")
    };
    let memory = chunk.body.as_ptr_range();
    assert!(memory.contains(&body.as_ptr()), "the body is not copied");
}

#[test]
fn requests_without_a_response_are_in_doubt() {
    let mut run = recorder();
    for place in 1..=3 {
        run.request(7, "POST", &format!("https://a/{place}")).expect("recorded");
    }
    run.record_response(2, &text_body("two")).expect("recorded");
    let first = run.take_chunk(0, 0).expect("a chunk");
    let mut again = load(std::slice::from_ref(&first));
    for place in 1..=3 {
        assert!(!again.is_live());
        again.request(7, "POST", &format!("https://a/{place}")).expect("the same");
    }
    assert!(again.is_live());
    let has_response = [1, 2, 3].map(|number| again.response(number).expect("a journal").is_some());
    assert_eq!(has_response, [false, true, false]);
    again.record_doubt(3, DoubtDecision::Resend, DecidedBy::Person("ann")).expect("recorded");
    again.record_response(1, &text_body("one")).expect("recorded");
    let second = again.take_chunk(0, 0).expect("a chunk");
    let third = load(&[first, second]);
    assert_eq!([1, 2, 3].map(|number| third.doubts(number)), [0, 0, 1]);
    assert_eq!((third.response(1), third.response(3)), (Ok(Some(text_body("one"))), Ok(None)));
}

#[test]
fn a_request_keeps_the_key_that_it_left_with_and_its_number_in_the_task() {
    let begin = toolyard_journal::Begin { requests_before: 7, ..crate::script::begin() };
    let mut run = toolyard_journal::Recorder::new(begin, 1 << 20).expect("a recorder");
    for place in ["https://a/1", "https://a/2"] {
        run.request(7, "POST", place).expect("recorded");
    }
    assert_eq!((run.number_in_task(2), run.requests_in_task()), (9, 9));
    run.record_key(2, "t:9").expect("recorded");
    let mut again = again(&mut run);
    assert_eq!((again.key(1), again.key(2)), (None, Some("t:9")));
    assert_eq!(again.begin().requests_before, 7);
    let late = again.record_key(1, "t:8");
    assert!(matches!(late, Err(RecordError::Misuse(_))), "{late:?}");
}

#[test]
fn a_response_may_come_after_the_end() {
    let mut run = recorder();
    run.request(7, "POST", "https://a/").expect("recorded");
    run.end(&[0; 32]).expect("recorded");
    let first = run.take_chunk(0, 0).expect("a chunk");
    run.record_response(1, &text_body("late")).expect("it may come after the end");
    let second = run.take_chunk(0, 0).expect("a chunk");
    let mut again = load(std::slice::from_ref(&first));
    again.request(7, "POST", "https://a/").expect("the same");
    assert_eq!(again.end(&[0; 32]), Ok(toolyard_journal::Source::Past(())));
    load(&[first, second]);
}

#[test]
fn another_body_of_a_request_diverges_at_the_request() {
    let mut run = recorder();
    run.record_ready(true).expect("recorded");
    run.request(7, "POST", "https://a/").expect("recorded");
    run.record_response(1, &text_body("one")).expect("recorded");
    let mut again = again(&mut run);
    assert_eq!(again.check_body(1, 9), Ok(()));
    assert_eq!(again.check_body(2, 9), Ok(()), "without a response nothing can be compared");
    let error = again.check_body(1, 8).expect_err("another body");
    let RecordError::Diverged(divergence) = &error else { panic!("{error:?}") };
    assert_eq!((divergence.entry, &*divergence.now), (2, "request 1 POST https://a/ with another body"));
    assert_eq!(again.ready(), Err(error));
}

#[test]
fn faults_of_the_caller_are_errors_and_change_nothing() {
    let mut run = recorder();
    let misuse = |result: Result<(), RecordError>| assert!(matches!(result, Err(RecordError::Misuse(_))));
    misuse(run.record_response(1, &text_body("")));
    misuse(run.record_doubt(1, DoubtDecision::Fail, DecidedBy::Manifest));
    misuse(run.record_poll(1, &[1]));
    run.request(7, "POST", "https://a/").expect("recorded");
    run.record_response(1, &text_body("")).expect("recorded");
    misuse(run.record_response(1, &text_body("")));
    let mut again = again(&mut run);
    misuse(again.record_ready(true));
    misuse(again.record_response(1, &text_body("")));
    misuse(again.record_doubt(1, DoubtDecision::Fail, DecidedBy::Manifest));
    misuse(again.abandon());
    assert_eq!(again.request(7, "POST", "https://a/"), Ok(Exchange::Past(1)));
    assert!(again.is_live());
}
