use super::*;

/// Requests with these numbers, each with its own chances, and with its own key unless it is strict.
fn steps(kind: Kind, numbers: &[u32]) -> Vec<Step> {
    let key = |number: u32| (kind == Kind::Saga).then(|| format!("t:{number}"));
    let step = |number: u32| Step { number, chances: format!("o-{number}"), idempotency_key: key(number) };
    numbers.iter().map(|number| step(*number)).collect()
}

fn of(kind: Kind, numbers: &[u32]) -> usize {
    faults(&format!("{}-7", kind.tool()), &steps(kind, numbers)).len()
}

#[test]
fn requests_that_arrive_too_often_or_in_another_order_are_found() {
    for kind in [Kind::Saga, Kind::StrictSaga] {
        assert_eq!(of(kind, &[]) + of(kind, &[0, 1]) + of(kind, &[0, 1, 2, 3]), 0);
        // As from a host that does not read the journal when it resumes.
        assert_eq!(of(kind, &[0, 1, 0, 1, 2, 3]), 1, "repeated from the start");
        assert_eq!(of(kind, &[0, 2, 3]), 1, "left out");
        assert_eq!(of(kind, &[1]), 1, "begun in the middle");
    }
    assert_eq!(of(Kind::Saga, &[0, 1, 1, 1, 2]), 0, "in doubt twice");
    assert_eq!(of(Kind::StrictSaga, &[0, 1, 1, 2]), 1);
}

#[test]
fn a_repetition_with_other_chances_or_another_key_is_found() {
    let good = steps(Kind::Saga, &[0, 1, 1, 2]);
    let broken = |change: fn(&mut Step)| {
        let mut steps = good.clone();
        change(&mut steps[2]);
        faults("chances-7", &steps).len()
    };
    assert_eq!(broken(|_| {}), 0);
    assert!(broken(|step| step.chances = "p-1".to_owned()) > 0);
    assert!(broken(|step| step.idempotency_key = Some("t:9".to_owned())) > 0);
    assert!(broken(|step| step.idempotency_key = None) > 0);
    let mut same_key = good.clone();
    same_key[3].idempotency_key = same_key[2].idempotency_key.clone();
    assert!(!faults("chances-7", &same_key).is_empty());
}

fn journal(entries: &[(&str, u64)]) -> Vec<Value> {
    entries.iter().map(|(kind, number)| json!({"kind": kind, "request": number})).collect()
}

#[test]
fn a_repetition_needs_a_doubt_in_the_journal() {
    let (request, response, doubt) = ("request", "response", "doubt");
    let twice = steps(Kind::Saga, &[0, 1, 1]);
    let fault = |entries: &[(&str, u64)]| {
        let mut in_doubt = BTreeSet::new();
        let fault = fault_in_journal(&journal(entries), &twice, &mut in_doubt);
        (fault.is_some(), in_doubt.len())
    };
    let good = [(request, 1), (response, 1), (request, 2), (doubt, 2), (response, 2)];
    assert_eq!(fault(&good), (false, 1));
    let without = [(request, 1), (response, 1), (request, 2), (response, 2)];
    assert_eq!(fault(&without), (true, 0));
    let of_another = [(request, 1), (doubt, 1), (response, 1), (request, 2), (response, 2)];
    assert_eq!(fault(&of_another), (true, 1));
    assert!(fault(&[(request, 1), (response, 1), (request, 2), (response, 2), (doubt, 2)]).0, "too late");
    assert!(fault(&[(request, 2), (doubt, 2), (response, 2), (response, 2)]).0, "two responses");
}

fn result_of(change: impl Fn(&mut Vec<Value>)) -> Result<Option<SagaResult>, &'static str> {
    let mut steps: Vec<Value> = (0..u64::from(STEPS))
        .map(|number| {
            json!({
                "now": 7 + number, "elapsed": number, "order": "o", "nan": NAN, "build": "first",
                "info": {"attempt": 1 + number / 2}, "exchanges": "204 ",
            })
        })
        .collect();
    steps[1]["answer"] = json!([r#"{"action":"accept","content":{"word":"w1"}}"#]);
    change(&mut steps);
    let text = Value::Array(steps).to_string();
    SagaResult::read(Kind::Saga, &json!({"content": [{"type": "text", "text": text}]}).to_string())
}

#[test]
fn a_result_that_no_uninterrupted_run_has_is_found() {
    let result = result_of(|_| {}).expect("a good result").expect("no error");
    assert_eq!((result.attempts, result.word.as_deref()), (2, Some("w1")));
    for change in [
        |steps: &mut Vec<Value>| drop(steps.remove(2)),
        |steps: &mut Vec<Value>| steps.push(steps[2].clone()),
        |steps: &mut Vec<Value>| steps.swap(0, 2),
        |steps: &mut Vec<Value>| steps[2]["nan"] = json!(NAN | 1),
        |steps: &mut Vec<Value>| steps[2]["build"] = json!("next"),
        |steps: &mut Vec<Value>| steps[2]["exchanges"] = json!("ConnectionTerminated"),
        |steps: &mut Vec<Value>| steps[1]["answer"] = Value::Null,
        |steps: &mut Vec<Value>| steps[2]["answer"] = steps[1]["answer"].clone(),
    ] {
        assert!(result_of(change).is_err());
    }
    assert_eq!(SagaResult::read(Kind::Saga, r#"{"content":[],"isError":true}"#), Ok(None));
}

#[test]
fn an_end_that_does_not_fit_its_requests_is_found() {
    let result = |last: &str| SagaResult {
        attempts: 1,
        word: None,
        chances: ["o-0", "o-1", last].map(str::to_owned).to_vec(),
    };
    let is_broken =
        |kind: Kind, over: Option<(Status, &str)>, numbers: &[u32], result: Option<&SagaResult>| {
            let over = over.map(|(status, message)| (status, Some(message.to_owned())));
            let (id, key) = ("t".to_owned(), "k".to_owned());
            let made = CreatedTask { id, at: 1, key, principal: 0, kind, sends: true, over };
            fault_at_end(&made, &steps(kind, numbers), result).is_some()
        };
    let (completed, good) = (Some((Status::Completed, "")), result("o-2"));
    let doubted = Some((Status::Failed, "It was not sent again."));
    assert!(!is_broken(Kind::Saga, completed, &[0, 1, 1, 2], Some(&good)));
    assert!(is_broken(Kind::Saga, completed, &[0, 1], Some(&good)), "a request was lost");
    assert!(is_broken(Kind::Saga, completed, &[0, 1, 2], Some(&result("p-2"))), "other chances");
    assert!(is_broken(Kind::Saga, completed, &[0, 1, 2], None));
    assert!(!is_broken(Kind::StrictSaga, doubted, &[0, 1], None));
    assert!(is_broken(Kind::Saga, doubted, &[0, 1], None), "it has keys");
    assert!(is_broken(Kind::StrictSaga, Some((Status::Failed, "it did not repeat")), &[0], None));
    assert!(
        !is_broken(Kind::Saga, None, &[0], None)
            && !is_broken(Kind::Saga, Some((Status::Cancelled, "")), &[0], None)
    );
}
