use super::*;
use crate::slots::work::RunTarget;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use toolyard_task::provider::{ProviderSpec, Retrieval, RetrievalEnd};
use toolyard_task::tool::ReportBounds;
use toolyard_task::{Digest, Provider, RunContext};

const BOUNDS: Bounds =
    Bounds { running: 3, running_per_principal: 2, waiting_per_principal: 10, parked_per_principal: 10 };

/// A provider that never runs.
pub(crate) struct Idle {
    pub(crate) spec: ProviderSpec,
    reservation: Mutex<Result<(), ReservationError>>,
}

impl Idle {
    /// The provider of this plugin, which claims nothing. The plugin `narrow` runs once at a time.
    pub(crate) fn of(plugin: &str) -> Self {
        let spec = ProviderSpec {
            plugin: plugin.into(),
            digest: Digest("00".into()),
            concurrency: (plugin == "narrow").then_some(1),
            reports: ReportBounds::default(),
            prompts: Vec::new(),
            has_prompts: false,
            has_resources: true,
            uris: None,
            has_completion: false,
        };
        Self { spec, reservation: Mutex::new(Ok(())) }
    }
}

impl Provider for Idle {
    fn spec(&self) -> &ProviderSpec {
        &self.spec
    }

    fn reserve(&self) -> Result<Reservation, ReservationError> {
        self.reservation.lock().map(|()| Reservation::UNBOUNDED)
    }

    fn serve(
        self: Arc<Self>,
        _: Retrieval,
        _: Reservation,
        _: Arc<dyn RunContext>,
    ) -> BoxFuture<'static, RetrievalEnd> {
        Box::pin(async { RetrievalEnd::Stopped })
    }

    fn interrupt(&self) {}
}

fn request(owner: &str, plugin: &str) -> SlotRequest {
    SlotRequest { owner: owner.into(), work: RunTarget::Provider(Arc::new(Idle::of(plugin))) }
}

#[test]
fn who_finds_no_room_on_the_machine_waits_until_another_ends() {
    let admission = Admission::new(BOUNDS);
    let other = admission.admit(request("a", "x")).expect("room");
    let large = Arc::new(Idle::of("large"));
    *large.reservation.lock() = Err(ReservationError::Memory(1 << 30));
    let request = SlotRequest { owner: "b".into(), work: RunTarget::Provider(large.clone()) };
    let refused = LimitReached::Reservation(ReservationError::Memory(1 << 30));
    assert_eq!(admission.admit(request.clone()).err(), Some(refused));
    let waits = granted(admission.enqueue(request).expect("a place")).expect_err("no room yet");
    *large.reservation.lock() = Ok(());
    drop(other);
    drop(granted(waits).expect("room now"));
    assert_eq!(admission.running(), 0);
}

fn granted(mut ticket: PendingSlot) -> Result<Slot, PendingSlot> {
    match (&mut ticket.granted).now_or_never() {
        Some(Ok(slot)) => Ok(slot),
        _ => Err(ticket),
    }
}

#[test]
fn a_plain_claim_is_told_which_bound_it_met() {
    let admission = Admission::new(BOUNDS);
    let _a = admission.admit(request("a", "x")).expect("room");
    let _b = admission.admit(request("a", "narrow")).expect("room");
    assert_eq!(admission.admit(request("a", "x")).err(), Some(LimitReached::Principal));
    assert_eq!(admission.admit(request("b", "narrow")).err(), Some(LimitReached::Plugin));
    let c = admission.admit(request("b", "x")).expect("room");
    assert_eq!(admission.admit(request("c", "x")).err(), Some(LimitReached::Host));
    drop(c);
    assert_eq!(admission.running(), 2);
}

#[test]
fn t_42_those_in_line_start_in_order_and_owners_take_turns() {
    let admission = Admission::new(Bounds { running: 1, ..BOUNDS });
    let first = admission.admit(request("z", "x")).expect("room");
    let a1 = admission.enqueue(request("a", "x")).expect("a place");
    let a2 = admission.enqueue(request("a", "x")).expect("a place");
    let b1 = admission.enqueue(request("b", "x")).expect("a place");
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
fn who_leaves_the_line_gives_its_room_up_at_once_and_has_one_turn_when_it_comes_back() {
    let admission = Admission::new(Bounds { running: 1, ..BOUNDS });
    let runs = admission.admit(request("z", "x")).expect("room");
    let waiting = || admission.state.lock().plugins["x"].waiting;
    for _ in 0..100 {
        let gone = admission.enqueue(request("a", "x")).expect("a place");
        assert_eq!(waiting(), 1);
        drop(gone);
        assert_eq!(waiting(), 0);
    }
    let gone = admission.enqueue(request("a", "x")).expect("a place");
    let waits = admission.enqueue(request("a", "x")).expect("a place");
    assert_eq!(admission.state.lock().turns.len(), 1);
    drop(gone);
    drop(runs);
    drop(granted(waits).expect("the next one's turn"));
    assert_eq!(admission.running(), 0);
    let state = admission.state.lock();
    assert!(state.owners.is_empty() && state.turns.is_empty(), "nothing is left behind");
    assert!(state.plugins.values().all(|of_plugin| of_plugin.running + of_plugin.waiting == 0));
}

/// A full plugin does not hold up others of the same owner.
#[test]
fn one_who_may_run_is_found_behind_a_hundred_thousand_who_may_not() {
    let admission = Admission::new(BOUNDS);
    let narrow = admission.admit(request("z", "narrow")).expect("room");
    let tickets: Vec<PendingSlot> =
        (0..100_000).map(|_| admission.enqueue(request("a", "narrow")).expect("a place")).collect();
    // Quadratic work would never end here.
    for _ in 0..100_000 {
        drop(granted(admission.enqueue(request("a", "x")).expect("a place")).expect("has room"));
    }
    drop(narrow);
    // Each gets the slot of the one before it, in order.
    for ticket in tickets {
        drop(granted(ticket).expect("its turn"));
    }
    assert_eq!(admission.running(), 0);
}
