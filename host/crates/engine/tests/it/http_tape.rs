//! Recorded HTTP exchanges: a tape answers the requests of a run, or records how the network answered them.

use crate::kit::{self, Recorder, engine, error, ok, only, run, settings, tool};
use std::ffi::OsString;
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use toolyard_engine::Settings;
use toolyard_task::RunEnd;
use toolyard_task::http_tape::{HttpTape, ResponseOutcome, TapeAnswer, TapeRequest};

const SECRET: &str = "s-3cr3t-enough";

/// Gives every request the same answer, and keeps the requests and the outcomes.
struct Tape {
    answer: TapeAnswer,
    requests: Mutex<Vec<String>>,
    outcomes: Mutex<Vec<(usize, ResponseOutcome)>>,
}

impl HttpTape for Tape {
    fn answer(&self, request: &TapeRequest<'_>) -> TapeAnswer {
        let TapeRequest { method, url, body } = request;
        let body = String::from_utf8_lossy(body);
        self.requests.lock().expect("free").push(format!("{method} {url} {body}"));
        self.answer.clone()
    }

    fn record(&self, number: usize, outcome: ResponseOutcome) {
        self.outcomes.lock().expect("free").push((number, outcome));
    }

    fn allows_sockets(&self) -> bool {
        false
    }
}

fn variable(_: &str) -> Option<OsString> {
    Some(SECRET.into())
}

/// Runs a tool of `net_try` with a tape that has this answer.
async fn with_tape(answer: TapeAnswer, manifest: &str, name: &str, arguments: &str) -> (Arc<Tape>, RunEnd) {
    let catalog = only(&engine(&Settings { variable, ..settings() }), "net_try", manifest).await;
    let (requests, outcomes) = (Mutex::default(), Mutex::default());
    let tape = Arc::new(Tape { answer, requests, outcomes });
    let context = Arc::new(Recorder { tape: Some(tape.clone()), ..Recorder::default() });
    let end = run(tool(&catalog, name), arguments, context).await;
    (tape, end)
}

const GRANT: &str = "[http]\nallow = [\"api.example\"]\n";

fn requests(tape: &Tape) -> Vec<String> {
    tape.requests.lock().expect("free").clone()
}

fn response(body: &str) -> TapeAnswer {
    let headers = vec![("x-from".into(), "tape".into())];
    TapeAnswer::Recorded(ResponseOutcome::Complete { status: 201, headers, body: body.to_owned().into() })
}

#[tokio::test]
async fn a_tape_answers_without_the_network() {
    let order = r#"{"method": "POST", "url": "https://api.example/v1?q=1", "body": "ab", "pieces": 2}"#;
    let (tape, end) = with_tape(response("hello"), GRANT, "request", order).await;
    let text = ok(&end);
    for part in ["\"status\":201", "\"body\":\"hello\"", "\"x-from\":\"tape\""] {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(requests(&tape), ["POST https://api.example/v1?q=1 abab"]);
}

#[tokio::test]
async fn grants_and_limits_hold_before_the_tape() {
    let order = r#"{"url": "https://other.example/"}"#;
    let (tape, end) = with_tape(response(""), GRANT, "request", order).await;
    assert!(error(&end).contains("HttpRequestDenied") && requests(&tape).is_empty());
    let limits = format!("{GRANT}[limits]\nhttp-requests = 2\nhttp-response = \"4KiB\"");
    let thrice = r#"{"url": "https://api.example/", "times": 3}"#;
    let (tape, end) = with_tape(response(""), &limits, "request", thrice).await;
    assert!(error(&end).contains("http-requests") && requests(&tape).len() == 2);
    let once = r#"{"url": "https://api.example/"}"#;
    let (_, end) = with_tape(response(&"x".repeat(5 << 10)), &limits, "request", once).await;
    assert!(error(&end).contains("body size exceeds limit: 4096 bytes"), "{end:?}");
}

#[tokio::test]
async fn a_request_fails_as_the_tape_says() {
    let order = r#"{"url": "https://api.example/"}"#;
    let refused = TapeAnswer::Recorded(ResponseOutcome::Error("connection-refused".to_owned()));
    let (_, end) = with_tape(refused, GRANT, "request", order).await;
    assert!(error(&end).contains("ConnectionRefused"), "{end:?}");
    let (_, end) = with_tape(TapeAnswer::Refuse("no entry".to_owned()), GRANT, "request", order).await;
    assert!(error(&end).contains("no entry"), "{end:?}");
}

/// The tape gets a URL and a body without secrets, and no headers at all.
#[tokio::test]
async fn a_tape_gets_no_secret() {
    let manifest = format!(
        "{GRANT}[http.inject.\"api.example\"]\nauthorization = \"Bearer {{KEY}}\"\n\
         [secrets]\nKEY = {{ env = \"KEY\", expose = true }}\n"
    );
    let order =
        format!(r#"{{"method": "POST", "url": "https://api.example/?k={SECRET}", "body": "{SECRET}"}}"#);
    let (tape, end) = with_tape(response(""), &manifest, "request", &order).await;
    ok(&end);
    assert_eq!(requests(&tape), ["POST https://api.example/?k=[secret KEY] [secret KEY]"]);
}

/// A server that answers each connection with these bytes.
async fn server(answer: Vec<u8>) -> u16 {
    kit::server(move |_| (0, answer.clone())).await
}

/// Records one request to this port.
async fn recorded(port: u16) -> (ResponseOutcome, RunEnd) {
    let manifest = format!("[http]\nallow = [\"127.0.0.1:{port}\"]\n[secrets]\nKEY = {{ env = \"KEY\" }}\n");
    let order = format!(r#"{{"method": "POST", "url": "http://127.0.0.1:{port}/a", "body": "sent"}}"#);
    let (tape, end) = with_tape(TapeAnswer::Record(7), &manifest, "request", &order).await;
    assert_eq!(requests(&tape), [format!("POST http://127.0.0.1:{port}/a sent")]);
    let outcomes = tape.outcomes.lock().expect("free");
    let [(7, outcome)] = &outcomes[..] else { panic!("one outcome: {outcomes:?}") };
    (outcome.clone(), end)
}

fn answer_with(body: &str) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\nx-key: {SECRET}\r\ncontent-length: {}\r\n\r\n", body.len());
    format!("{head}{body}").into_bytes()
}

#[tokio::test]
async fn an_answer_of_the_network_is_recorded_without_secrets() {
    let (outcome, end) = recorded(server(answer_with(&format!("{{\"k\":\"{SECRET}\"}}"))).await).await;
    assert!(ok(&end).contains("\"status\":200"));
    let ResponseOutcome::Complete { status, headers, body } = outcome else { panic!("{outcome:?}") };
    assert_eq!((status, &body[..]), (200, &b"{\"k\":\"[secret KEY]\"}"[..]));
    assert!(headers.contains(&("x-key".into(), "[secret KEY]".into())), "{headers:?}");
}

#[tokio::test]
async fn a_failure_is_recorded_by_its_name_and_a_run_gets_whole_responses() {
    let free = TcpListener::bind("127.0.0.1:0").expect("listens").local_addr().expect("bound").port();
    let error = |name: &str| ResponseOutcome::Error(name.to_owned());
    let (outcome, _) = recorded(free).await;
    assert_eq!(outcome, error("connection-refused"));
    let (outcome, end) = recorded(server(answer_with(&"x".repeat(100 << 10))).await).await;
    assert!(matches!(&outcome, ResponseOutcome::Complete { body, .. } if body.len() == 100 << 10));
    assert!(ok(&end).contains(&format!("\"bytes\":{}", 100 << 10)), "the guest gets all of it");
    let cut = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nsome".to_vec();
    let (outcome, end) = recorded(server(cut).await).await;
    assert_eq!(outcome, error("HTTP-response-incomplete"));
    assert!(self::error(&end).contains("HttpResponseIncomplete"), "{end:?}");
}

#[tokio::test]
async fn raw_sockets_are_refused_to_a_run_without_the_network() {
    let port = server(Vec::new()).await;
    let manifest = format!("[sockets]\ntcp = [\"127.0.0.1:{port}\", \"localhost:{port}\"]\n");
    for peer in ["127.0.0.1", "localhost"] {
        let order = format!(r#"{{"peer": "{peer}:{port}", "send": "x"}}"#);
        let (_, end) = with_tape(response(""), &manifest, "tcp", &order).await;
        let RunEnd::Result { result, is_error: true, .. } = &end else { panic!("{end:?}") };
        assert!(result.as_str().contains("toolyard test --network"), "{end:?}");
    }
}
