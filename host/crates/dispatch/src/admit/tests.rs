use super::*;
use futures_util::FutureExt;

const BOUNDS: Bounds = Bounds { running: 3, running_per_principal: 2, waiting_per_principal: 10 };

fn claim(owner: &str, plugin: &str) -> Claim {
    Claim { owner: owner.into(), plugin: plugin.into(), plugin_limit: (plugin == "narrow").then_some(1) }
}

fn granted(ticket: Ticket) -> Result<Slot, Ticket> {
    let mut receiver = ticket.0;
    match (&mut receiver).now_or_never() {
        Some(Ok(slot)) => Ok(slot),
        _ => Err(Ticket(receiver)),
    }
}

#[test]
fn a_plain_claim_is_told_which_bound_it_met() {
    let admission = Admission::new(BOUNDS);
    let _a = admission.admit(claim("a", "x")).expect("room");
    let _b = admission.admit(claim("a", "narrow")).expect("room");
    assert_eq!(admission.admit(claim("a", "x")).err(), Some(Full::Principal));
    assert_eq!(admission.admit(claim("b", "narrow")).err(), Some(Full::Plugin));
    let c = admission.admit(claim("b", "x")).expect("room");
    assert_eq!(admission.admit(claim("c", "x")).err(), Some(Full::Host));
    drop(c);
    assert_eq!(admission.running(), 2);
}

#[test]
fn t_42_those_in_line_start_in_order_and_owners_take_turns() {
    let admission = Admission::new(Bounds { running: 1, ..BOUNDS });
    let first = admission.admit(claim("z", "x")).expect("room");
    let a1 = admission.line_up(claim("a", "x"));
    let a2 = admission.line_up(claim("a", "x"));
    let b1 = admission.line_up(claim("b", "x"));
    drop(first);
    let a1 = granted(a1).expect("a is first");
    let a2 = granted(a2).expect_err("one at a time");
    drop(a1);
    let b1 = granted(b1).expect("b has its turn");
    let a2 = granted(a2).expect_err("b runs");
    drop(b1);
    drop(granted(a2).expect("then a again"));
    assert_eq!(admission.running(), 0);
}

#[test]
fn who_leaves_the_line_does_not_keep_the_slot() {
    let admission = Admission::new(Bounds { running: 1, ..BOUNDS });
    let first = admission.admit(claim("z", "x")).expect("room");
    let gone = admission.line_up(claim("a", "x"));
    let waits = admission.line_up(claim("a", "x"));
    drop(gone);
    drop(first);
    drop(granted(waits).expect("the next gets it"));
    assert_eq!(admission.running(), 0);
    assert!(admission.lock().owners.is_empty(), "nothing is left behind");
}

#[test]
fn a_full_plugin_does_not_hold_up_others_of_the_same_owner() {
    let admission = Admission::new(BOUNDS);
    let narrow = admission.admit(claim("a", "narrow")).expect("room");
    let waits = admission.line_up(claim("a", "narrow"));
    let passes = admission.line_up(claim("a", "x"));
    let passes = granted(passes).expect("another plugin has room");
    let waits = granted(waits).expect_err("its plugin is full");
    drop(passes);
    drop(narrow);
    drop(granted(waits).expect("now it may"));
    assert_eq!(admission.running(), 0);
}
