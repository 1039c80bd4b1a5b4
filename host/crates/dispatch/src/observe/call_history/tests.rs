use super::*;
use toolyard_task::RunEnd;

fn record(took_ms: u64, end: CallEnd) -> CallRecord {
    CallRecord {
        number: 0,
        tool: if took_ms.is_multiple_of(2) { "even" } else { "odd" }.to_owned(),
        principal: "local".into(),
        began: Timestamp(0),
        waited: Duration::ZERO,
        took: Duration::from_millis(took_ms),
        end,
        usage: None,
    }
}

fn numbers(found: &[Arc<CallRecord>]) -> Vec<u64> {
    found.iter().map(|record| record.number).collect()
}

#[test]
fn each_ring_is_bounded_and_read_page_by_page() {
    let history = CallHistory::default();
    // The first call is the slowest, and the only one that fails.
    history.push(record(1_000_000, CallEnd::ToolError), None);
    for took in 0..3_000 {
        history.push(record(took % 1_000, CallEnd::Ok), None);
    }
    let (newest, more) = history.list(CallOrder::Newest, None, None, 5_000);
    assert_eq!((newest.len(), newest[0].number, more), (MAX_NEWEST, 3_001, false));
    assert_eq!(numbers(&history.list(CallOrder::Failed, None, None, 50).0), [1]);
    let mut slowest = Vec::new();
    let mut after = None;
    loop {
        let (page, more) = history.list(CallOrder::Slowest, None, after, 50);
        after = page.last().map(|record| record.position());
        slowest.extend(numbers(&page));
        if !more {
            break;
        }
    }
    assert_eq!((slowest.len(), slowest[0]), (MAX_SLOWEST, 1));
    slowest.sort_unstable();
    slowest.dedup();
    assert_eq!(slowest.len(), MAX_SLOWEST, "no call is on two pages");
    let (odd, more) = history.list(CallOrder::Newest, Some("odd"), Some(newest[0].position()), 10);
    assert!(more && odd.iter().all(|record| record.tool == "odd" && record.number < 3_001));
    assert!(history.get(1).is_some(), "it is still one of the slowest");
    assert!(history.get(2).is_none() && history.get(9_999).is_none());
}

#[test]
fn details_are_clipped_and_make_room_for_newer_ones() {
    let history = Arc::new(CallHistory::new(Capture::Errors));
    let call = |is_error| {
        let began = (Timestamp(0), Instant::now());
        let entry = HistoryEntry { history: history.clone(), began, run: Mutex::default() };
        let run = RunFacts { tool: Some("t"), task: None, principal: Some(&"local"), usage: None };
        entry.receive(&run, RunEvent::Started(&RawJson::of(&"é".repeat(MAX_CAPTURE))));
        let end = RunEnd::Result { is_error, result: RawJson::of(&"short"), message: None };
        let (called, host_calls) = (CallEnd::of(&end), &HostCalls::default());
        entry.receive(&run, RunEvent::Ended { end: &end, called, cause: None, host_calls });
    };
    call(false);
    assert!(history.get(1).expect("kept").1.is_none(), "only of errors");
    for _ in 0..1_500 {
        call(true);
    }
    assert!(history.rings.lock().details_bytes <= MAX_DETAILS);
    let (_, details) = history.get(1_501).expect("kept");
    let details = details.expect("kept");
    let arguments = details.arguments.as_ref().expect("captured");
    assert!(!arguments.is_whole && arguments.text.len() <= MAX_CAPTURE);
    assert_eq!(details.result, Some(CapturedText { text: "\"short\"".to_owned(), is_whole: true }));
    assert!(history.get(2).expect("one of the newest").1.is_none(), "its details made room");
}
