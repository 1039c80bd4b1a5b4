//! The transitions, as the documentation shows them.

use super::*;

/// The table of `host/docs/reference/task-states.md`. `UPDATE_DOCS=1` writes it.
#[test]
fn the_documented_transitions_and_effects_are_those_of_the_state_machine() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/task-states.md");
    let page = std::fs::read_to_string(path).expect("the page is there");
    let (head, rest) = page.split_once("<!-- transitions -->\n").expect("where the table begins");
    let (written, end) = rest.split_once("<!-- end -->").expect("where it ends");
    let rows = transitions();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, format!("{head}<!-- transitions -->\n{rows}<!-- end -->{end}")).expect("writes");
    } else {
        assert_eq!(written, rows, "run this test with UPDATE_DOCS=1");
    }
}

fn transitions() -> String {
    let states = [
        ("unapproved", approval::unapproved(ConfirmBy::Either)),
        ("waiting", resuming::recorded([])),
        ("running", resuming::recorded([started()])),
        ("asking", resuming::recorded([started(), asked(&["q"])])),
        ("parked", resuming::recorded([started(), asked(&["q"]), resuming::parked(None)])),
        ("ended", after([cancelled()], IN_TIME)),
    ];
    let entrusted = Event::Entrusted { key: "q".into(), client_task: "c".into() };
    let again = Event::AskedAgain { fence: None, key: "q".into() };
    let taken = Event::Taken { from: FENCE.incarnation, by: NEXT };
    let events = [
        ("Started", started(), IN_TIME),
        ("Said", said(), IN_TIME),
        ("Effects", Event::Effects { fence: FENCE }, IN_TIME),
        ("Asked", asked(&["p"]), IN_TIME),
        ("Sent", sent("q", "r"), IN_TIME),
        ("Entrusted", entrusted, IN_TIME),
        ("Answered", answered("q"), IN_TIME),
        ("AskedAgain", again, IN_TIME),
        ("Decided (approve)", approval::decided(Decision::Approve), IN_TIME),
        ("Decided (deny)", approval::decided(Decision::Deny { note: None }), IN_TIME),
        ("ApprovalExpired", Event::ApprovalExpired, approval::WAIT_OVER),
        ("Delivered", Event::Delivered, IN_TIME),
        ("CallerLeft", Event::CallerLeft, IN_TIME),
        ("Finished", finished(result(false)), IN_TIME),
        ("Stuck", Event::Stuck { fence: FENCE, outcome: result(true), message: None }, IN_TIME),
        ("Retried", Event::Retried, IN_TIME),
        ("Cancelled", cancelled(), IN_TIME),
        ("Expired", Event::Expired, TOO_LATE),
        ("Orphaned", orphaned(), IN_TIME),
        ("Claimed", claimed(FENCE.incarnation), IN_TIME),
        ("Taken", taken, IN_TIME),
        ("Released", released(), IN_TIME),
        ("Parked", resuming::parked(None), IN_TIME),
        ("Woken", Event::Woken { by: NEXT }, IN_TIME),
        ("Repeated", Event::Repeated { fence: FENCE }, IN_TIME),
        ("Continued", Event::Continued { fence: FENCE }, IN_TIME),
        ("Unresumable", Event::Unresumable { fence: FENCE, why: String::new() }, IN_TIME),
        ("any event of an earlier run", Event::Started { fence: OTHERS[0] }, IN_TIME),
    ];
    let mut table = "| event |".to_owned();
    states.iter().for_each(|(name, _)| table += &format!(" {name} |"));
    table += "\n|---|---|---|---|---|---|---|\n";
    let mut refusals: Vec<String> = Vec::new();
    for (name, event, now) in events {
        let name = if name.starts_with(char::is_lowercase) { name.to_owned() } else { format!("`{name}`") };
        table += &format!("| {name} |");
        for (_, state) in &states {
            table += &match transition(state, event.clone(), Timestamp(now)) {
                Ok(Transition { task, effects }) => {
                    let effects: Vec<_> = effects.iter().flatten().map(|of| format!("{of:?}")).collect();
                    format!(" {}: {} |", name_of(&task), effects.join(", "))
                }
                Err(refusal) => {
                    let refusal = refusal.to_string();
                    let known = refusals.iter().position(|known| *known == refusal);
                    let index = known.unwrap_or_else(|| {
                        refusals.push(refusal);
                        refusals.len() - 1
                    });
                    format!(" refused ({}) |", index + 1)
                }
            };
        }
        table += "\n";
    }
    table += "\nThe refusals:\n\n";
    for (index, refusal) in refusals.iter().enumerate() {
        table += &format!("{}. {refusal}\n", index + 1);
    }
    table
}

/// The name of a state, as used in the table.
fn name_of(task: &Task) -> &'static str {
    match task.status() {
        _ if task.open_approval().is_some() => "unapproved",
        _ if task.parked().is_some() => "parked",
        Working if task.waits() => "waiting",
        Working => "running",
        InputRequired => "asking",
        Completed | Failed | Cancelled => "ended",
    }
}
