use super::*;
use futures_util::future::BoxFuture;
use toolyard_task::provider::{Retrieval, RetrievalEnd};
use toolyard_task::tool::ReportBounds;
use toolyard_task::wire::UriRange;
use toolyard_task::{Digest, Reservation, RunContext};

struct Fixed(ProviderSpec);

impl Provider for Fixed {
    fn spec(&self) -> &ProviderSpec {
        &self.0
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

fn provider(plugin: &str, uris: Option<&[&str]>) -> Arc<dyn Provider> {
    let range = |text: &&str| UriRange::parse(text).expect("a range");
    Arc::new(Fixed(ProviderSpec {
        plugin: plugin.into(),
        digest: Digest("00".into()),
        concurrency: None,
        reports: ReportBounds::default(),
        prompts: Vec::new(),
        has_prompts: false,
        has_resources: true,
        uris: uris.map(|uris| uris.iter().map(range).collect()),
        has_completion: false,
    }))
}

fn two() -> (ResourceIndex, Vec<Arc<dyn Provider>>) {
    (ResourceIndex::default(), vec![provider("a", None), provider("b", None)])
}

#[test]
fn the_first_by_name_of_those_that_list_a_uri_has_it() {
    let (index, both) = two();
    assert_eq!(index.plugin_that_lists(&both, "x:1"), None);
    index.note_uris(&both[1], ["x:1", "X:2"]);
    assert_eq!(index.plugin_that_lists(&both, "x:1"), Some(1));
    assert_eq!(index.plugin_that_lists(&both, "x:2"), Some(1), "a scheme is the same in upper case");
    index.note_uris(&both[0], ["x:1"]);
    assert_eq!(index.plugin_that_lists(&both, "x:1"), Some(0));
}

#[test]
fn the_most_exact_template_has_a_uri_that_no_plugin_listed() {
    let (index, both) = two();
    index.note_templates(&both[0], ["{+any}", "book:{+any}"]);
    index.note_templates(&both[1], ["book:/{n}"]);
    assert_eq!(index.best_template_match(&both, "book:/1"), Some(1));
    assert_eq!(index.best_template_match(&both, "book:1"), Some(0));
    assert_eq!(index.best_template_match(&both, "other:1"), None, "a scheme has to be written out");
    assert_eq!(index.plugin_that_lists_template(&both, "book:/{n}"), Some(1));
    index.note_templates(&both[0], ["book:/{x}"]);
    assert_eq!(index.best_template_match(&both, "book:/1"), Some(0), "of two alike, the first");
}

#[test]
fn what_a_plugin_listed_counts_until_it_was_asked_again() {
    let (index, both) = two();
    let learnt = |uris: &[&str]| PluginResources {
        uris: uris.iter().map(|uri| (*uri).to_owned()).collect(),
        is_whole: true,
        templates: Some(Vec::new()),
    };
    index.note_learnt(&both[0], &learnt(&["x:1", "x:2"]));
    assert!(index.is_fresh(&both[0]) && !index.is_fresh(&both[1]));
    index.mark_changed(Some("a"));
    assert_eq!(index.plugin_that_lists(&both, "x:1"), Some(0), "it goes to no other plugin meanwhile");
    index.note_learnt(&both[0], &learnt(&["x:2"]));
    assert_eq!(index.plugin_that_lists(&both, "x:1"), None);
    assert_eq!(index.plugin_that_lists(&both, "x:2"), Some(0));
    let again = vec![provider("a", None), both[1].clone()];
    assert_eq!(index.plugin_that_lists(&again, "x:2"), None, "another component");
    index.retain(&again);
    assert!(index.plugins.lock().is_empty());
}

#[test]
fn it_is_bounded_whatever_is_listed() {
    let (index, both) = two();
    let many: Vec<String> = (0..MAX_URIS + 10).map(|n| format!("x:{n}")).collect();
    index.note_uris(&both[0], many.iter().map(String::as_str));
    assert_eq!(index.plugins.lock()["a"].uris.len(), MAX_URIS);
    let long = format!("x:{}{{a}}", "y".repeat(1 << 10));
    let templates: Vec<String> = (0..1_000).map(|n| format!("{long}{n}")).collect();
    index.note_templates(&both[0], templates.iter().map(String::as_str));
    assert!(index.plugins.lock()["a"].templates.len() * (1 << 10) <= MAX_TEMPLATE_BYTES);
    for caller in 0..MAX_LATE + 10 {
        index.mark_late(&caller.to_string().into(), "a");
    }
    assert!(index.late.lock().len() <= MAX_LATE);
}

#[test]
fn who_is_late_is_passed_over_for_longer_each_time_and_for_this_caller_alone() {
    let (index, _) = two();
    let (one, other): (Arc<str>, Arc<str>) = ("one".into(), "other".into());
    let time = Duration::from_secs(2);
    assert_eq!(index.mark_late(&one, "a"), FIRST_PENALTY);
    assert_eq!(index.time_budget(&one, "a", time), None);
    assert_eq!(index.time_budget(&other, "a", time), Some(time));
    assert_eq!(index.time_budget(&one, "b", time), Some(time));
    // As if the penalty had passed.
    index.late.lock().values_mut().for_each(|lateness| lateness.until = Instant::now());
    assert_eq!(index.time_budget(&one, "a", time), Some(time / 2), "then with less time");
    assert_eq!(index.mark_late(&one, "a"), FIRST_PENALTY * 2);
    for _ in 0..20 {
        assert!(index.mark_late(&one, "a") <= MAX_PENALTY);
    }
    index.mark_in_time(&one, "a");
    assert_eq!(index.time_budget(&one, "a", time), Some(time));
}

#[test]
fn a_manifest_that_names_uris_has_them() {
    let all = vec![provider("a", None), provider("b", Some(&["book:/*"])), provider("c", Some(&["book:/1"]))];
    assert_eq!(plugin_that_claims(&all, "book:/1"), Some(1));
    assert_eq!(plugin_that_claims(&all, "BOOK:/2"), Some(1));
    assert_eq!(plugin_that_claims(&all, "note:/1"), None);
    assert_eq!(plugin_that_claims_template(&all, "book:/{n}"), Some(1));
    assert_eq!(plugin_that_claims_template(&all, "book:{+n}"), None);
}
