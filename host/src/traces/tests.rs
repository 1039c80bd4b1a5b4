use super::*;
use crate::config::limits::Limits;
use crate::config::{Config, Flags};

fn otlp(sample: &str, endpoint: &str) -> anyhow::Result<Arc<Otlp>> {
    let flags = Flags { plugins: Some("p".into()), data: Some("d".into()), ..Flags::default() };
    let mut config = Config::read(&flags, None)?;
    config.limits = Limits::default();
    config.limits.set("trace.sample", sample).expect("a key").expect("a ratio");
    config.trace.endpoint = Some(endpoint.to_owned());
    Ok(Otlp::start(&config, Handle::current())?.expect("an endpoint is named"))
}

const NOBODY: &str = "http://127.0.0.1:1";

#[tokio::test]
async fn a_part_of_the_traces_that_begin_here_is_recorded_and_callers_decide_about_theirs() {
    for (sample, least, most) in [("0", 0, 0), ("1", 1_000, 1_000), ("0.25", 150, 350)] {
        let traces = otlp(sample, NOBODY).expect("starts");
        let sampled = (0..1_000).filter(|_| traces.begin(None).sampled).count();
        assert!((least..=most).contains(&sampled), "{sample}: {sampled}");
        for flag in [false, true] {
            let parent = TraceContext { trace: 7, span: 8, sampled: flag, state: Some("a=1".into()) };
            let own = traces.begin(Some(&parent));
            assert_eq!((own.trace, own.sampled, own.state.as_deref()), (7, flag, Some("a=1")));
            assert_ne!(own.span, 8);
        }
    }
}

#[tokio::test]
async fn ids_are_not_met_twice() {
    let traces = otlp("1", NOBODY).expect("starts");
    let ids: std::collections::BTreeSet<u64> = (0..10_000).map(|_| traces.id()).collect();
    assert_eq!(ids.len(), 10_000);
}

#[tokio::test]
async fn an_endpoint_that_cannot_be_sent_to_is_refused_at_the_start() {
    for endpoint in ["https://collector.example", "collector:4318", "", "/v1/traces"] {
        let refusal = otlp("1", endpoint).err().unwrap_or_else(|| panic!("{endpoint} is taken"));
        assert!(format!("{refusal:#}").contains("trace.endpoint"), "{refusal:#}");
    }
}
