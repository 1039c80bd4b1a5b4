//! Sagas: tasks that resume, each with several requests to the sink. Checks each request at the sink, the
//! results, and the journals of sagas whose requests arrived twice.
//!
//! The host promises that nothing leaves before all of the run so far is stored. So the arrival of a step
//! shows that the response of the step before it was stored, and that step must not arrive again.

use super::report::Counts;
use super::shared_state::{CreatedTask, Kind, SharedState};
use crate::dice::Dice;
use crate::guests;
use crate::history::{Broken, Rule, Status};
use crate::host::{Host, Setup, install_as};
use crate::sink::{Sink, Step};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The requests of each saga.
const STEPS: u32 = 3;
/// The bits of the only NaN that a run that resumes can compute.
const NAN: u64 = 0x7ff8_0000_0000_0000;
/// Words in the failure of a saga whose request is in doubt and must not be sent again.
const NOT_AGAIN: &str = "It was not sent again";

/// The same setup with the tools of sagas. Requests of `chances` are sent again with their key, those of
/// `strict_chances` are not sent again.
pub(super) fn with_sagas(setup: Setup, sink: &Sink) -> Setup {
    let manifest = |prefix: &str, in_doubt: &str| {
        let allow = format!("[http]\nallow = [\"127.0.0.1:{}\"]\n{in_doubt}\n", sink.port());
        format!("{prefix}\n[task]\ndurability = \"resume\"\n{allow}")
    };
    install_as(&guests::fixture("chances"), &setup.plugins(), "chances.wasm");
    install_as(&guests::fixture("chances"), &setup.plugins(), "strict.wasm");
    setup
        .manifest("chances", &manifest("", "idempotency-key = true"))
        .manifest("strict", &manifest("prefix = \"strict\"", "in-doubt = \"fail\""))
        // Or a client without a session gets the result of a short saga at once.
        .set("tasks.inline-for", "0s")
}

/// The arguments of a new saga.
pub(super) fn arguments(kind: Kind, key: &str, port: u16, dice: &mut Dice) -> Value {
    let mut arguments = json!({"key": key, "port": port, "rounds": STEPS, "readings": 100,
        "sleep": dice.below(10), "hostSleep": dice.below(20)});
    if kind.asks() {
        arguments["ask"] = json!(dice.below(STEPS.into()));
    }
    arguments
}

/// The result of a completed saga, without what each saga returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SagaResult {
    /// The number of the last run.
    pub attempts: u64,
    /// The answer with which it went on, if it asks.
    pub word: Option<String>,
    /// The random order and the clock reading of each step.
    chances: Vec<String>,
}

impl SagaResult {
    /// Reads the result of a tool; `None` if it is an error.
    ///
    /// # Errors
    /// A difference from the result of a run that was never interrupted.
    pub fn read(kind: Kind, bytes: &str) -> Result<Option<Self>, &'static str> {
        let result: Value = serde_json::from_str(bytes).map_err(|_| "it is not JSON")?;
        if result["isError"] == true {
            return Ok(None);
        }
        let text = result["content"][0]["text"].as_str().unwrap_or_default();
        let steps: Vec<Value> = serde_json::from_str(text).map_err(|_| "it lists no steps")?;
        let numbers = |what: &str| steps.iter().map(|step| step[what].as_u64()).collect::<Vec<_>>();
        let attempts: Vec<_> = steps.iter().map(|step| step["info"]["attempt"].as_u64()).collect();
        let answers: Vec<_> = steps.iter().filter_map(|step| step["answer"][0].as_str()).collect();
        let accepted = answers.first().map(|text| serde_json::from_str::<Value>(text).unwrap_or_default());
        let word = accepted.and_then(|answer| answer["content"]["word"].as_str().map(str::to_owned));
        let has_answer = answers.len() == usize::from(kind.asks()) && word.is_some() == kind.asks();
        for (holds, error) in [
            (steps.len() == STEPS as usize, "it does not have each step once"),
            (numbers("nan").iter().all(|bits| *bits == Some(NAN)), "it computed another NaN"),
            (steps.iter().all(|step| step["build"] == steps[0]["build"]), "it ran in two components"),
            (numbers("now").is_sorted() && numbers("elapsed").is_sorted(), "its clock went back"),
            (attempts.is_sorted(), "its runs went back"),
            (steps.iter().all(|step| step["exchanges"] == "204 "), "a step has no response"),
            (has_answer, "its answer is missing"),
        ] {
            holds.then_some(()).ok_or(error)?;
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let chances = steps.iter().map(|step| format!("{}-{}", text(&step["order"]), step["now"])).collect();
        let attempts = attempts.last().copied().flatten().ok_or("it does not say which run it was")?;
        Ok(Some(Self { attempts, word, chances }))
    }
}

/// The forbidden orders of requests of a saga that may go on.
fn faults(key: &str, steps: &[Step]) -> Vec<&'static str> {
    let is_strict = key.starts_with(Kind::StrictSaga.tool());
    let mut faults = Vec::new();
    let mut before: Option<&Step> = None;
    for step in steps {
        match before {
            Some(before) if before.number == step.number => {
                faults.extend(is_strict.then_some("a request was sent again"));
                faults.extend((before != step).then_some("a request that was sent again was another one"));
            }
            before => {
                let expected = before.map_or(0, |before| before.number + 1);
                let how = match step.number < expected {
                    true => "a request was sent again although its response was stored",
                    false => "a request was left out",
                };
                faults.extend((step.number != expected).then_some(how));
                let has_own_key = step.idempotency_key.is_some()
                    && before.is_none_or(|before| before.idempotency_key != step.idempotency_key);
                let is_wrong = if is_strict { step.idempotency_key.is_some() } else { !has_own_key };
                faults.extend(is_wrong.then_some("its key is wrong"));
            }
        }
        before = Some(step);
    }
    faults
}

/// The forbidden requests so far.
pub(super) fn violations(sink: &Sink) -> Vec<Broken> {
    let steps = sink.steps();
    steps
        .iter()
        .flat_map(|(key, steps)| faults(key, steps).into_iter().map(|how| broken(key, how, steps)))
        .collect()
}

fn broken(task: &str, how: &str, seen: &impl std::fmt::Debug) -> Broken {
    Broken { rule: Rule::Effects, task: task.to_owned(), how: format!("{how}: {seen:?}") }
}

/// Returns the fault of the end of a saga, given its requests.
fn fault_at_end(made: &CreatedTask, steps: &[Step], result: Option<&SagaResult>) -> Option<&'static str> {
    let (status, message) = made.over.as_ref()?;
    match (status, result) {
        (Status::Completed, Some(result)) => {
            let mut arrived: Vec<_> = steps.iter().map(|step| &step.chances).collect();
            arrived.dedup();
            (!arrived.into_iter().eq(&result.chances))
                .then_some("its result is not of the run that sent these")
        }
        (Status::Completed, None) => Some("it is completed, and has no result"),
        (Status::Failed, _) => {
            let is_doubt = message.as_deref().unwrap_or_default().contains(NOT_AGAIN);
            (made.kind == Kind::Saga || !is_doubt).then_some("it failed")
        }
        _ => None,
    }
}

/// Returns the fault of a journal, given the requests of its saga. Counts those in doubt.
fn fault_in_journal(entries: &[Value], steps: &[Step], in_doubt: &mut BTreeSet<u64>) -> Option<&'static str> {
    let mut stored = BTreeSet::new();
    let mut doubts: BTreeMap<u64, usize> = BTreeMap::new();
    for entry in entries {
        let number = entry["request"].as_u64().unwrap_or_default();
        match entry["kind"].as_str() {
            Some("response") if !stored.insert(number) => return Some("a response was stored twice"),
            Some("doubt") if stored.contains(&number) => return Some("a stored response was doubted"),
            Some("doubt") => *doubts.entry(number).or_default() += 1,
            _ => {}
        }
    }
    let mut again: BTreeMap<u64, usize> = BTreeMap::new();
    for pair in steps.windows(2).filter(|pair| pair[0].number == pair[1].number) {
        // The host counts from 1.
        *again.entry(u64::from(pair[0].number) + 1).or_default() += 1;
    }
    in_doubt.extend(doubts.keys());
    let has_doubts = |(number, times): (&u64, &usize)| doubts.get(number).is_some_and(|of| of >= times);
    (!again.iter().all(has_doubts)).then_some("a request was sent again and was not in doubt")
}

/// Completed sagas.
pub(super) const COMPLETED: &str = "completed sagas";
/// Runs of completed sagas after the first one.
pub(super) const RESUMED: &str = "runs that resumed a completed saga";
/// Arrivals of a request that had arrived before.
pub(super) const SENT_AGAIN: &str = "requests of sagas that arrived again, all in doubt";

/// Figures, and the promises that are broken.
type Findings = (Counts, Vec<Broken>);

/// Checks all sagas at the end of a run, and reads the journals with doubts by the command of this host.
pub(super) async fn check(shared: &SharedState, sink: &Sink, host: &Host, store: &[&str]) -> Findings {
    let (all, results) = (sink.steps(), shared.saga_results());
    let (mut counts, mut found) = (Counts::new(), Vec::new());
    let mut count = |what, times: u64| *counts.entry(what).or_default() += times;
    for steps in all.values() {
        let distinct = steps.iter().map(|step| step.number).collect::<BTreeSet<_>>().len();
        count("distinct requests of sagas", distinct as u64);
        count(SENT_AGAIN, (steps.len() - distinct) as u64);
    }
    for made in shared.all().into_iter().filter(|made| made.kind.resumes()) {
        let steps = all.get(&made.key).map_or(&[][..], Vec::as_slice);
        let result = results.get(&made.id);
        let status = made.over.as_ref().map(|(status, _)| *status);
        count("acknowledged sagas", 1);
        count(COMPLETED, u64::from(status == Some(Status::Completed)));
        count("sagas that failed because a request was in doubt", u64::from(status == Some(Status::Failed)));
        count(RESUMED, result.map_or(0, |result| result.attempts - 1));
        found.extend(
            fault_at_end(&made, steps, result).map(|how| broken(&made.id, how, &(&made, steps, result))),
        );
        let repeats = steps.windows(2).any(|pair| pair[0].number == pair[1].number);
        if repeats || status == Some(Status::Failed) {
            let entries = journal(host, store, &made.id).await;
            let mut in_doubt = BTreeSet::new();
            let fault = fault_in_journal(&entries, steps, &mut in_doubt);
            found.extend(fault.map(|how| broken(&made.id, how, &(steps, &entries))));
            count("requests in doubt by the journals that were read", in_doubt.len() as u64);
        }
    }
    (counts, found)
}

/// The entries of the journal of a task.
async fn journal(host: &Host, store: &[&str], id: &str) -> Vec<Value> {
    let printed = host.command(&[&["tasks", "history", id, "--json"], store].concat()).await;
    assert!(printed.status.success(), "{id}: {}", String::from_utf8_lossy(&printed.stderr));
    let text = String::from_utf8_lossy(&printed.stdout);
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[cfg(test)]
mod tests;
