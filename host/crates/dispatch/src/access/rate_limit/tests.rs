//! Rates of two in an hour: two are let through and the third is not, however slow
//! the machine.

use super::*;
use crate::access::principal::Subject;
use crate::access::principal::tests::bare;

fn rate(text: &str) -> Option<Rate> {
    Some(text.parse().expect("a rate"))
}

fn subject(name: &str, client: &str) -> RateKey {
    let subject = Subject { client: Some(client.into()), ..bare("https://idp.example", name) };
    RateKey::of(&Arc::new(Principal::Subject(subject)), None)
}

fn peer(address: &str) -> RateKey {
    RateKey::of(&Arc::new(Principal::Anonymous), Some(address.parse().expect("an address")))
}

/// A client whose address is far from the addresses of the others.
fn stranger(number: usize) -> RateKey {
    let address = std::net::Ipv6Addr::from_bits((0x2001_0db8_0000_0000 + number as u128) << 64);
    RateKey::of(&Arc::new(Principal::Anonymous), Some(address.into()))
}

fn rate_limits(rates: Rates) -> RateLimits {
    RateLimits::new(&Rates { calls: rate("2/h"), ..rates })
}

fn let_through(rate_limits: &RateLimits, who: &RateKey) -> usize {
    (0..5).filter(|_| rate_limits.count(who, Operation::Call).is_ok()).count()
}

#[test]
fn t_42_each_principal_has_a_rate_of_its_own_and_another_token_or_a_near_address_is_no_fresh_start() {
    let rate_limits = rate_limits(Rates::default());
    for (who, expected) in [
        (subject("alice", "one"), 2),
        (subject("bob", "one"), 2),
        (subject("alice", "another"), 0),
        (peer("192.0.2.1"), 2),
        (peer("192.0.2.2"), 2),
        (peer("::ffff:192.0.2.1"), 0),
        (peer("2001:db8::1"), 2),
        (peer("2001:db8::2"), 0),
    ] {
        assert_eq!(let_through(&rate_limits, &who), expected, "{who:?}");
    }
    let wait = rate_limits.count(&subject("alice", "one"), Operation::Call).expect_err("too often");
    assert!(wait > Duration::from_secs(1) && wait <= Duration::from_secs(3600), "{wait:?}");
}

#[test]
fn t_42_the_user_of_this_machine_is_held_to_rates_only_if_that_is_set() {
    for (local, expected) in [(false, 5), (true, 2)] {
        let rate_limits = rate_limits(Rates { local, ..Rates::default() });
        assert_eq!(let_through(&rate_limits, &RateKey::Local), expected);
        let rate_limits = super::tests::rate_limits(Rates { local, ..Rates::default() });
        assert_eq!(let_through(&rate_limits, &peer("127.0.0.1")), expected);
        assert_eq!(let_through(&rate_limits, &subject("alice", "one")), 2);
    }
}

#[test]
fn t_42_strangers_without_end_are_counted_together() {
    let rate_limits = rate_limits(Rates::default());
    for number in 0..MAX_KEYS {
        assert!(rate_limits.count(&stranger(number), Operation::Call).is_ok());
    }
    // No room is left, and the counted principals have used too much to be forgotten.
    let more = (0..5).filter(|more| rate_limits.count(&stranger(MAX_KEYS + more), Operation::Call).is_ok());
    assert_eq!(more.count(), 2, "one rate for all of them");
    assert!(rate_limits.limiters[&Operation::Call].len() <= MAX_KEYS + 1);
    assert_eq!(let_through(&rate_limits, &subject("alice", "one")), 2, "who is known is counted alone");
}

#[test]
fn t_42_each_kind_of_operation_has_a_rate_of_its_own() {
    let [requests, creation, polling, failed_lookups, sessions] = [rate("2/h"); 5];
    let all = Rates { requests, creation, polling, failed_lookups, sessions, ..Rates::default() };
    let rate_limits = rate_limits(all);
    let who = subject("alice", "one");
    for operation in Operation::ALL {
        let passed = (0..5).filter(|_| rate_limits.count(&who, operation).is_ok()).count();
        assert_eq!(passed, 2, "{operation:?}");
    }
    let none = RateLimits::new(&Rates::default());
    assert!(Operation::ALL.into_iter().all(|operation| none.count(&who, operation).is_ok()));
}

#[test]
fn t_42_an_excess_is_reported_once_in_a_while() {
    let rate_limits = rate_limits(Rates::default());
    let (alice, bob) = (subject("alice", "one"), subject("bob", "one"));
    assert!(rate_limits.take_report_turn(&alice, Operation::Polling));
    assert!(!rate_limits.take_report_turn(&alice, Operation::Polling));
    assert!(rate_limits.take_report_turn(&alice, Operation::FailedLookup));
    assert!(rate_limits.take_report_turn(&bob, Operation::Polling));
}

#[test]
fn t_42_who_looks_up_too_much_that_is_not_there_looks_up_nothing_for_a_while() {
    let rate_limits = rate_limits(Rates::default());
    let (alice, bob) = (subject("alice", "one"), subject("bob", "one"));
    assert_eq!(rate_limits.blocked_for(&alice), None);
    rate_limits.block(&alice, Duration::from_secs(3600));
    assert!(rate_limits.blocked_for(&alice).is_some());
    assert_eq!(rate_limits.blocked_for(&bob), None);
    rate_limits.block(&alice, Duration::ZERO);
    assert_eq!(rate_limits.blocked_for(&alice), None);
    rate_limits.tidy();
    assert!(rate_limits.blocked.lock().is_empty());
}

#[test]
fn the_use_that_other_hosts_hear_of_is_bounded() {
    let used = RateUsage::default();
    (0..MAX_USED + 5).for_each(|number| used.count(&stranger(number), Operation::Call));
    used.count(&stranger(0), Operation::Call);
    let taken = used.take();
    assert_eq!((taken.len(), taken[&(stranger(0), Operation::Call)]), (MAX_USED, 2));
}
