//! Permissions for hosts, asked for at each use: how a run, a task and the store remember a person's
//! answers.

use crate::kit::prelude::*;
use crate::kit::stateless;
use futures_util::future::join_all;
use toolyard_dispatch::{GrantStore, NewSession, Session};
use toolyard_task::permission::Access;
use toolyard_task::store::{CommitStatus, Records};
use toolyard_task::{AccessRequest, TaskStore as _};

/// A person who answers each question with the next answer in the list, a decision or a whole answer.
#[derive(Clone)]
struct Person {
    caller: Caller,
    words: Arc<Mutex<Vec<&'static str>>>,
}

impl Person {
    fn saying(caller: &Caller, words: &[&'static str]) -> Self {
        Self { caller: caller.clone(), words: Arc::new(Mutex::new(words.to_vec())) }
    }

    /// The client of the person.
    fn at(&self, dispatch: &Arc<Dispatch>) -> Client {
        let (dispatch, person) = (dispatch.clone(), self.clone());
        Client::answering(move |id, params| {
            let mut words = person.words.lock().expect("no panic");
            assert!(!words.is_empty(), "asked once too often: {}", params.as_str());
            let answer = match words.remove(0) {
                whole if whole.starts_with('{') => whole.to_owned(),
                word => format!(r#"{{"action":"accept","content":{{"decision":"{word}"}}}}"#),
            };
            let (dispatch, caller, id) = (dispatch.clone(), person.caller.clone(), id.to_owned());
            tokio::spawn(async move {
                dispatch.take_response(&caller, &id, Ok(RawJson::trusted(answer))).await.expect("kept");
            });
        })
    }
}

fn host() -> AccessRequest {
    AccessRequest::host("https", "Example.com", 443)
}

/// `yes`, or why not.
async fn attempt(context: &Arc<dyn RunContext>, wanted: AccessRequest) -> String {
    match context.permission(vec![wanted]).await {
        Ok(()) => "yes".to_owned(),
        Err(refused) => refused.to_string(),
    }
}

fn said(lines: &[String]) -> RunEnd {
    done(&lines.join("\n"))
}

/// A tool that sends this many requests, one after the other.
fn sends(times: usize) -> Arc<dyn Tool> {
    tool("sends", move |context| async move {
        let mut lines = Vec::new();
        for _ in 0..times {
            lines.push(attempt(&context, host()).await);
        }
        said(&lines)
    })
}

fn text(result: &str) -> Vec<String> {
    let value: serde_json::Value = serde_json::from_str(result).expect("JSON");
    let text = value["content"][0]["text"].as_str().expect("a text");
    text.lines().map(str::to_owned).collect()
}

struct House {
    store: Arc<MemoryStore>,
    dispatch: Arc<Dispatch>,
}

impl House {
    fn with(tool: Arc<dyn Tool>) -> Self {
        let store = memory();
        Self { dispatch: dispatch_by(SETTINGS, &store, vec![tool]), store }
    }

    /// The text of the tool `sends` in a plain call, or in a task, with this person at the client; and the questions.
    async fn run(&self, person: &Person, as_task: bool) -> (Vec<String>, Vec<serde_json::Value>) {
        let client = person.at(&self.dispatch);
        let channel: Arc<dyn ClientChannel> = Arc::new(client.clone());
        let came = if as_task {
            let id = create(&self.dispatch, &person.caller, "sends", channel).await;
            text(&result_of(&self.dispatch, &person.caller, &id).await)
        } else {
            let reply = self.dispatch.call(&person.caller, call("sends", false, channel)).await;
            text(stateless::text(&reply.expect("runs")))
        };
        (came, client.questions())
    }

    /// The same by the local user, and how many questions there were; no answer is left over.
    async fn asked(&self, words: &[&'static str], as_task: bool) -> (Vec<String>, usize) {
        let person = Person::saying(&local_caller(), words);
        let (came, questions) = self.run(&person, as_task).await;
        assert!(person.words.lock().expect("no panic").is_empty(), "not asked often enough");
        (came, questions.len())
    }
}

const NO: &str = "the host https://example.com:443 was not allowed by the user (`http.allow.grant`)";

/// Once is one request; for the call or the task is all of them; no is all of them
/// as well.
#[tokio::test]
async fn a_host_is_asked_for_at_each_request_for_as_long_as_the_person_says() {
    for as_task in [false, true] {
        let house = House::with(sends(3));
        let yes = || vec!["yes".to_owned(); 3];
        assert_eq!(house.asked(&["once", "once", "once"], as_task).await.0, yes());
        assert_eq!(house.asked(&["task"], as_task).await.0, yes());
        assert_eq!(house.asked(&["once", "task"], as_task).await.0, yes());
        assert_eq!(house.asked(&["no"], as_task).await.0, vec![NO.to_owned(); 3]);
        assert_eq!(house.asked(&["once", "no"], as_task).await.0, ["yes", NO, NO]);
        assert_eq!(house.store.grants(None, 10).await.expect("reads"), []);
        assert_eq!(house.asked(&["always"], as_task).await.0, yes());
        assert_eq!(house.asked(&[], as_task).await, (yes(), 0));
        let [grant] = &house.store.grants(None, 10).await.expect("reads")[..] else { panic!("one") };
        let wanted = grant.wanted.to_string();
        assert_eq!((grant.by.as_str(), wanted.as_str()), ("local", "https://example.com:443"));
        let revoked = house.dispatch.access().revoke_grant(&Caller::operator(), grant.id).await;
        revoked.expect("answers").expect("was there");
        let (came, _) = house.asked(&["never"], as_task).await;
        assert!(came.iter().all(|line| line.contains("is never allowed")), "{came:?}");
        assert_eq!(house.asked(&[], as_task).await.0, came);
    }
}

/// Only a decision that was offered is a yes. Any other answer is a no for this run alone.
#[tokio::test]
async fn what_is_no_plain_yes_is_a_no_and_a_store_that_fails_permits_nothing() {
    let house = House::with(sends(1));
    for answer in [
        "yes",
        "call",
        r#"{"action":"decline"}"#,
        r#"{"action":"cancel"}"#,
        r#"{"action":"decline","content":{"decision":"always"}}"#,
        r#"{"action":"accept"}"#,
        r#"{"action":"accept","content":{"decision":true}}"#,
    ] {
        assert_eq!(house.asked(&[answer], false).await.0, [NO], "{answer}");
    }
    let strange = house.asked(&[r#"{"action":"shrug"}"#], false).await.0;
    assert!(strange[0].contains("no answer that can be used"), "{strange:?}");
    assert_eq!(house.asked(&["once"], false).await.0, ["yes"]);
    // The store cannot read earlier answers.
    house.store.kill();
    let (came, _) = house.asked(&[], false).await;
    assert!(came[0].contains("cannot be looked up now"), "{came:?}");
}

#[tokio::test]
async fn t_43_what_was_permitted_and_refused_is_in_the_audit_log() {
    let house = House::with(sends(1));
    for word in ["once", "no", "always"] {
        house.asked(&[word], false).await;
    }
    let lines = audit_lines(&house.store).await.into_iter().map(|line| {
        ["action", "principal", "reason"].map(|member| line[member].as_str().expect("a text").to_owned())
    });
    let expected = [["given", "once"], ["refused", "no"], ["given", "always"]]
        .map(|[action, reason]| [format!("permission.{action}"), "local".to_owned(), reason.to_owned()]);
    assert_eq!(lines.collect::<Vec<_>>(), expected);
}

/// The dispatcher asks all questions of one request at once. It keeps each answer, even if another one is a no.
#[tokio::test]
async fn a_no_does_not_undo_the_answers_beside_it() {
    let house = House::with(tool("sends", |context| async move {
        let other = AccessRequest::host("http", "other.example", 80);
        let refused = context.permission(vec![host(), other]).await.expect_err("one is a no");
        said(&[refused.to_string()])
    }));
    assert_eq!(house.asked(&["no", "always"], false).await, (vec![NO.to_owned()], 2));
    let [grant] = &house.store.grants(None, 10).await.expect("reads")[..] else { panic!("one") };
    assert_eq!(grant.wanted.to_string(), "http://other.example:80");
}

/// A grant that is revoked while a run uses it no longer counts at the run's next request.
#[tokio::test]
async fn a_revoked_grant_acts_at_the_next_request_of_a_run_under_way() {
    let (sent, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let shared = (sent.clone(), go_on.clone());
    let sends = native("sends").runs_sharing(&shared, |(tell, wait), context| async move {
        let first = attempt(&context, host()).await;
        let second = attempt(&context, host()).await;
        tell.notify_one();
        wait.notified().await;
        said(&[first, second, attempt(&context, host()).await])
    });
    let house = House::with(sends);
    let person = Person::saying(&local_caller(), &["always", "no"]);
    let revoke = async {
        sent.notified().await;
        let grants = house.dispatch.access().list_grants(None, 10).await.expect("reads");
        house.dispatch.access().revoke_grant(&Caller::operator(), grants[0].id).await.expect("answers");
        go_on.notify_one();
    };
    let ((came, _), ()) = tokio::join!(house.run(&person, false), revoke);
    assert_eq!(came, ["yes", "yes", NO]);
}

/// Requests that a run sends at once wait for one answer.
#[tokio::test]
async fn what_is_wanted_twice_at_once_is_asked_once() {
    let house = House::with(tool("sends", |context| async move {
        let other = || AccessRequest::host("http", "other.example", 80);
        let attempts = [host(), host(), other()].map(|wanted| attempt(&context, wanted));
        let mut lines = join_all(attempts).await;
        let both = context.permission(vec![host(), host(), other()]).await;
        lines.push(format!("{both:?}"));
        said(&lines)
    }));
    for as_task in [false, true] {
        let (came, asked) = house.asked(&["task", "task"], as_task).await;
        assert_eq!((came, asked), (["yes", "yes", "yes", "Ok(())"].map(str::to_owned).to_vec(), 2));
    }
}

#[tokio::test]
async fn a_run_asks_no_more_often_than_its_limit() {
    let house = House::with(sends(10));
    let (came, asked) = house.asked(&["once"; 8], false).await;
    assert_eq!(asked, 8);
    assert!(came[..8].iter().all(|line| line == "yes"), "{came:?}");
    assert!(came[8..].iter().all(|line| line.contains("at most 8 permissions (`limits.permissions`)")));
}

/// The person sees the name of the host as it is, not what it looks like.
#[tokio::test]
async fn the_names_in_a_question_hide_nothing() {
    let host = |name: &str| AccessRequest::host("https", name, 8443);
    let folder = AccessRequest::Folder {
        guest: "/d\u{200b}".into(),
        path: "/da\u{202e}t\n".into(),
        named: "./d".into(),
        access: Access::Read,
    };
    for (wanted, does) in [
        (host("Example.com"), r#"to send requests to the host "https://example.com:8443""#),
        (host("ex\u{430}mple.com"), r#"to send requests to the host "https://ex\u{430}mple.com:8443""#),
        (host("a\u{202e}moc"), r#"to send requests to the host "https://a\u{202e}moc:8443""#),
        (host("a\n\"b"), r#"to send requests to the host "https://a\n\"b:8443""#),
        (folder, r#"to read the files in the folder "/da\u{202e}t\n", which it calls "/d\u{200b}""#),
    ] {
        let sends = native("sends")
            .runs_sharing(&wanted, |wanted, context| async move { said(&[attempt(&context, wanted).await]) });
        let house = House::with(sends);
        let person = Person::saying(&local_caller(), &["once"]);
        let (came, asked) = house.run(&person, false).await;
        assert_eq!(came, ["yes"]);
        let message = format!("The tool \"sends\" of the plugin \"native\" wants {does}. May it?");
        assert_eq!(asked[0]["message"], message);
        if does.contains("send requests") {
            let choices = &asked[0]["requestedSchema"]["properties"]["decision"];
            assert_eq!(choices["enum"], serde_json::json!(["once", "task", "always", "no", "never"]));
            assert_eq!(choices["enumNames"][1], "Yes, for this call");
            assert_eq!(choices["enumNames"][2], "Yes, always (until this plugin changes)");
        }
    }
}

/// A client that cannot be asked, and a client that the host could not recognize again.
#[tokio::test]
async fn who_has_no_name_is_asked_for_nothing_lasting() {
    let house = House::with(sends(1));
    let (mute, all) = (RawJson::empty_object(), RawJson::trusted(r#"{"elicitation":{}}"#));
    let (came, _) = house.run(&Person::saying(&Caller::local(mute), &[]), false).await;
    assert!(came[0].contains("elicitation.form") && came[0].contains("grant = \"always\""), "{came:?}");
    let always = async |session: Option<SessionId>| {
        let anonymous = Caller::new(Arc::new(Principal::Anonymous), session, all.clone());
        house.run(&Person::saying(&anonymous, &["always"]), false).await
    };
    let (came, asked) = always(None).await;
    assert!(came[0].contains("was not allowed by the user"), "was not offered");
    let choices = &asked[0]["requestedSchema"]["properties"]["decision"]["enum"];
    assert_eq!(*choices, serde_json::json!(["once", "task", "no"]));
    // A session that has ended meanwhile keeps nothing; the answer counts for the call.
    assert_eq!(always(Some(SessionId("ended".into()))).await.0, ["yes"]);
    assert_eq!(house.store.grants(None, 10).await.expect("reads"), []);
    let opened = house.dispatch.open_session(NewSession {
        principal: Arc::new(Principal::Anonymous),
        revision: Revision::LATEST,
        capabilities: all.clone(),
        client: "a test".into(),
    });
    let Session { id, .. } = opened.await.expect("opens");
    let (came, asked) = always(Some(id)).await;
    assert_eq!(came, ["yes"]);
    let titles = &asked[0]["requestedSchema"]["properties"]["decision"]["enumNames"];
    assert_eq!(titles[2], "Yes, for this session");
    assert_eq!(house.store.grants(None, 10).await.expect("reads").len(), 1);
}

/// The task keeps a yes for the task: a later run finds it, and does not find a yes for one time.
#[tokio::test]
async fn a_word_for_the_task_outlives_the_run_that_asked() {
    for (word, again) in [("task", &[][..]), ("once", &["no"])] {
        let (began, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let shared = (began.clone(), go_on.clone());
        let sends = native("sends").runs_sharing(&shared, |(tell, wait), context| async move {
            tell.notify_one();
            wait.notified().await;
            said(&[attempt(&context, host()).await])
        });
        let house = House::with(sends);
        let create = async |words: &[&'static str]| {
            let client = Person::saying(&local_caller(), words).at(&house.dispatch);
            (create(&house.dispatch, &local_caller(), "sends", Arc::new(client.clone())).await, client)
        };
        let (first, _) = create(&[word]).await;
        go_on.notify_one();
        result_of(&house.dispatch, &local_caller(), &first).await;
        let read = async |id: &str| task_of(&house.dispatch, &local_caller(), id).await;
        let mut question = read(&first).await.questions.remove(0);
        assert!(question.key.starts_with("host:permission:"), "{}", question.key);
        // An earlier run of another task has asked the same question.
        began.notified().await;
        let (second, client) = create(again).await;
        began.notified().await;
        let mut task = read(&second).await;
        let (name, _) = question.key.rsplit_once(':').expect("parts");
        question.key = format!("{name}:0.1");
        task.questions.push(question);
        task.version += 1;
        assert_eq!(house.store.commit(&task, Records::default()).await.expect("commits"), CommitStatus::Done);
        go_on.notify_one();
        let came = text(&result_of(&house.dispatch, &local_caller(), &second).await);
        assert_eq!(came, [if again.is_empty() { "yes" } else { NO }]);
        assert_eq!(client.asked().len(), again.len());
        eventually("the run to end", || house.dispatch.load().runs == 0).await;
    }
}
