use super::*;
use crate::grant::http::HttpGrant;
use crate::network::Network;
use crate::network::connect::Roots;
use crate::network::http::OutgoingHttp;
use crate::network::name_lookup::{NameLookups, Resolver};
use async_trait::async_trait;
use http_body_util::Full;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use toolyard_manifest::{GrantedBy, Limits, Rule, Written};
use toolyard_task::tool::{AskedQuestion, CallInfo, GivenAnswer, Report, RunContext};
use toolyard_task::{AskError, TaskId, Unattended};
use wasmtime_wasi_http::WasiHttpHooks as _;

/// Returns its answers in order and then repeats the last one. Records the names that it was asked
/// for.
struct Fickle {
    answers: Mutex<Vec<Vec<IpAddr>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Resolver for Fickle {
    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        self.asked.lock().expect("free").push(name.to_owned());
        let mut answers = self.answers.lock().expect("free");
        Ok(if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() })
    }
}

/// A server that answers every request and records it.
async fn server() -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("listens");
    let port = listener.local_addr().expect("bound").port();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = seen.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let Ok(byte) = stream.read_u8().await else { break };
                head.push(byte);
            }
            noted.lock().expect("free").push(String::from_utf8_lossy(&head).into_owned());
            let answer = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
            stream.write_all(answer.as_bytes()).await.expect("writes");
        }
    });
    (port, seen)
}

/// A rule of the operator; without methods it covers all of them.
fn rule(entry: &str, methods: &[Method]) -> Rule {
    let written = Written::parse(entry).expect("an entry");
    Rule { written, methods: methods.to_vec(), private: false, by: GrantedBy::Operator }
}

struct Run {
    outgoing: OutgoingHttp,
    policy: Arc<NetworkPolicy>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Run {
    fn new(entry: &str, answers: &[&[&str]], limits: Limits) -> Self {
        Self::of(vec![rule(entry, &[Method::GET, Method::POST])], answers, limits)
    }

    fn of(rules: Vec<Rule>, answers: &[&[&str]], limits: Limits) -> Self {
        let grant = HttpGrant { rules, ..HttpGrant::default() };
        Self::granted(grant, answers, limits, Arc::new(Unattended))
    }

    fn granted(grant: HttpGrant, answers: &[&[&str]], limits: Limits, context: Arc<dyn RunContext>) -> Self {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let parse = |texts: &&[&str]| texts.iter().map(|text| text.parse().expect("an address")).collect();
        let answers = Mutex::new(answers.iter().map(parse).collect());
        let resolver = Fickle { answers, asked: asked.clone() };
        let network = Network { lookups: NameLookups::new(Arc::new(resolver)), roots: Roots::default() };
        let policy = Arc::new(NetworkPolicy::of(grant, limits, network, context));
        Self { outgoing: OutgoingHttp::new(policy.clone(), None, Vec::new()), policy, asked }
    }

    /// A run that may send to this port of `localhost`.
    fn local(port: u16, limits: Limits) -> (Self, String) {
        let run = Self::new(&format!("localhost:{port}"), &[&["127.0.0.1"]], limits);
        (run, format!("http://localhost:{port}/"))
    }

    async fn send(&mut self, request: Request<Body>) -> Result<u16, String> {
        let sent = self.outgoing.sender.send_request(request, None, Box::new(async { Ok(()) }));
        let (response, _rest) = std::pin::Pin::from(sent).await.map_err(|error| format!("{error:?}"))?;
        Ok(response.status().as_u16())
    }

    async fn get(&mut self, uri: &str) -> Result<u16, String> {
        self.send(request(Method::GET, uri)).await
    }
}

fn request(method: Method, uri: &str) -> Request<Body> {
    Request::builder().method(method).uri(uri).body(body("")).expect("a request")
}

fn body(text: &'static str) -> Body {
    Full::from(text).map_err(|never| match never {}).boxed_unsync()
}

#[tokio::test]
async fn a_name_is_resolved_once_and_what_was_looked_at_is_connected_to() {
    let (port, seen) = server().await;
    let mut run =
        Run::new(&format!("localhost:{port}"), &[&["127.0.0.1"], &["169.254.169.254"]], Limits::default());
    let uri = format!("http://localhost:{port}/");
    assert_eq!(run.get(&uri).await, Ok(200));
    assert_eq!(run.asked.lock().expect("free").len(), 1);
    // The name has moved. The next request is checked against its new address.
    assert_eq!(run.get(&uri).await, Err("DestinationIpProhibited".to_owned()));
    assert_eq!(seen.lock().expect("free").len(), 1);
    assert!(run.policy.reasons()[0].contains("metadata address"), "{:?}", run.policy.reasons());
}

/// The run of a task that its node may lose.
struct OfTask(AtomicBool);

#[async_trait]
impl RunContext for OfTask {
    fn stopped(&self) -> bool {
        false
    }

    fn may_act(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    fn report(&self, _: Report) {}

    fn info(&self) -> CallInfo {
        CallInfo { task: Some(TaskId(uuid::Uuid::nil())), ..Unattended.info() }
    }

    async fn ask(&self, questions: Vec<AskedQuestion>) -> Result<Vec<GivenAnswer>, AskError> {
        Unattended.ask(questions).await
    }

    async fn begin_task(&self) -> Result<(), String> {
        Ok(())
    }

    async fn effects(&self) -> Result<(), AskError> {
        Ok(())
    }
}

fn of_task(port: u16, keyed: bool) -> (Run, Arc<OfTask>) {
    let rules = vec![rule(&format!("127.0.0.1:{port}"), &[])];
    let grant = HttpGrant { rules, keyed, ..HttpGrant::default() };
    let context = Arc::new(OfTask(AtomicBool::new(true)));
    (Run::granted(grant, &[&[]], Limits::default(), context.clone()), context)
}

/// A5: a request with effects carries the key that it has in every other attempt, if the operator
/// enables this and the guest has set no key.
#[tokio::test]
async fn requests_of_a_task_carry_a_key_if_that_is_wanted() {
    let (port, seen) = server().await;
    let uri = format!("http://127.0.0.1:{port}/");
    let (mut without, _) = of_task(port, false);
    assert_eq!(without.send(request(Method::POST, &uri)).await, Ok(200));
    for _attempt in 1..=2 {
        let (mut run, _) = of_task(port, true);
        assert_eq!(run.send(request(Method::POST, &uri)).await, Ok(200));
        assert_eq!(run.get(&uri).await, Ok(200));
        let mut own = request(Method::POST, &uri);
        own.headers_mut().insert("idempotency-key", HeaderValue::from_static("mine"));
        assert_eq!(run.send(own).await, Ok(200));
        assert_eq!(run.send(request(Method::PATCH, &uri)).await, Ok(200));
    }
    let key = |head: &String| {
        let line = head.lines().find_map(|line| line.strip_prefix("idempotency-key: "));
        line.map(str::to_owned)
    };
    let keys: Vec<_> = seen.lock().expect("free").iter().map(key).collect();
    let nil = |number: u32| Some(format!("{}:{number}", uuid::Uuid::nil()));
    let attempt = [nil(1), None, Some("mine".to_owned()), nil(2)];
    assert_eq!(keys, [&[None][..], &attempt, &attempt].concat());
}

/// A4: a node that other nodes may consider dead no longer sends anything.
#[tokio::test]
async fn a_run_whose_host_may_have_lost_its_task_sends_nothing() {
    let (port, seen) = server().await;
    let uri = format!("http://127.0.0.1:{port}/");
    let (mut run, context) = of_task(port, false);
    assert_eq!(run.get(&uri).await, Ok(200));
    context.0.store(false, Ordering::SeqCst);
    assert_eq!(run.get(&uri).await, Err("HttpRequestDenied".to_owned()));
    assert_eq!(seen.lock().expect("free").len(), 1);
    assert!(run.policy.reasons()[0].contains("lost its task"), "{:?}", run.policy.reasons());
}

#[tokio::test]
async fn a_public_name_that_leads_inside_is_not_followed() {
    let (port, seen) = server().await;
    for answer in
        ["127.0.0.1", "::1", "::ffff:127.0.0.1", "10.0.0.1", "0.0.0.0", "169.254.169.254", "fe80::1"]
    {
        let mut run = Run::new(&format!("*.example.com:{port}"), &[&[answer]], Limits::default());
        let result = run.get(&format!("http://rebind.example.com:{port}/")).await;
        assert_eq!(result, Err("DestinationIpProhibited".to_owned()), "{answer}");
        let [why] = &run.policy.reasons()[..] else { panic!("one reason") };
        assert!(why.contains("`http.allow` of p.toml") && !why.contains(answer), "{why}");
    }
    assert!(seen.lock().expect("free").is_empty());
}

#[tokio::test]
async fn addresses_that_may_not_be_reached_are_passed_over() {
    let (port, seen) = server().await;
    let mut run = Run::new(
        &format!("localhost:{port}"),
        &[&["169.254.169.254", "10.0.0.1", "127.0.0.1"]],
        Limits::default(),
    );
    assert_eq!(run.get(&format!("http://localhost:{port}/")).await, Ok(200));
    assert_eq!(seen.lock().expect("free").len(), 1);
}

#[tokio::test]
async fn what_is_not_granted_is_not_even_resolved() {
    let mut run = Run::new("localhost:1", &[&["127.0.0.1"]], Limits::default());
    for (method, uri) in [
        (Method::GET, "http://localhost:2/"),
        (Method::GET, "http://other.example/"),
        (Method::DELETE, "http://localhost:1/"),
    ] {
        assert_eq!(run.send(request(method, uri)).await, Err("HttpRequestDenied".to_owned()), "{uri}");
    }
    for method in ["CONNECT", "TRACE", "TRACK", "TrAcE", "trace", "Track", "connect"] {
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        let sent = run.send(request(method, "http://localhost:1/")).await;
        assert_eq!(sent, Err("HttpRequestMethodInvalid".to_owned()));
    }
    assert_eq!(run.get("http://user@localhost:1/").await, Err("HttpRequestUriInvalid".to_owned()));
    assert!(run.asked.lock().expect("free").is_empty());
    let why = run.policy.reasons().join("\n");
    for says in [
        "add \"localhost:2\" to `http.allow` of p.toml",
        "add \"other.example\"",
        "add \"DELETE\" to the `methods`",
    ] {
        assert!(why.contains(says), "{why}");
    }
}

/// A server that expects no body would read it as the next request.
#[tokio::test]
async fn a_get_has_no_body() {
    let (port, seen) = server().await;
    let rules = vec![rule(&format!("localhost:{port}"), &[])];
    let mut run = Run::of(rules, &[&["127.0.0.1"]], Limits::default());
    let uri = format!("http://localhost:{port}/");
    let smuggled = "DELETE /all HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let with_body = |method: &str, length: Option<&str>| {
        let mut request = Request::builder().method(method).uri(&uri);
        if let Some(length) = length {
            request = request.header("content-length", length);
        }
        request.body(body(smuggled)).expect("a request")
    };
    let length = smuggled.len().to_string();
    for method in ["GET", "HEAD", "get", "gEt"] {
        for length in [Some(length.as_str()), Some("+3"), None] {
            let sent = run.send(with_body(method, length)).await;
            assert_eq!(sent, Err("HttpRequestBodySize(Some(0))".to_owned()), "{method} {length:?}");
        }
    }
    assert!(run.policy.reasons().join("\n").contains("one with GET or HEAD has no body"));
    assert!(seen.lock().expect("free").is_empty(), "nothing has left");
    let mut plain = request(Method::GET, &uri);
    plain.headers_mut().insert("content-length", HeaderValue::from_static("0"));
    assert_eq!(run.send(plain).await, Ok(200));
    assert_eq!(run.send(with_body("POST", Some(&length))).await, Ok(200));
}

#[tokio::test]
async fn the_head_is_the_hosts_and_not_the_guests() {
    let (port, seen) = server().await;
    let (mut run, _) = Run::local(port, Limits::default());
    let mut request = request(Method::GET, &format!("http://LocalHost:{port}/a?b=c"));
    for (name, value) in
        [("host", "other.example"), ("connection", "keep-alive"), ("te", "trailers"), ("x-mine", "1")]
    {
        request.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    assert_eq!(run.send(request).await, Ok(200));
    let head = seen.lock().expect("free")[0].to_ascii_lowercase();
    assert!(head.starts_with("get /a?b=c http/1.1\r\n"), "{head}");
    assert!(head.contains(&format!("\r\nhost: localhost:{port}\r\n")), "{head}");
    assert!(head.contains("\r\nconnection: close\r\n") && head.contains("\r\nx-mine: 1\r\n"), "{head}");
    for not in ["other.example", "keep-alive", "trailers"] {
        assert!(!head.contains(not), "{head}");
    }
}

#[tokio::test]
async fn requests_are_counted_and_the_limits_named() {
    let (port, _) = server().await;
    let limits = Limits { http_requests: 3, http_concurrent: 1, http_request: 4, ..Limits::default() };
    let (mut run, uri) = Run::local(port, limits);
    let mut large = request(Method::POST, &uri);
    *large.body_mut() = body("12345");
    assert_eq!(run.send(large).await, Err("HttpRequestBodySize(Some(4))".to_owned()));

    let held = run.outgoing.sender.send_request(request(Method::GET, &uri), None, Box::new(async { Ok(()) }));
    let error = run.get(&uri).await.expect_err("one is under way");
    assert!(error.contains("(`limits.http-concurrent`)"), "{error}");
    let (response, _rest) = std::pin::Pin::from(held).await.expect("granted");
    drop(response);
    assert_eq!(run.get(&uri).await, Ok(200), "its place is free again");
    let error = run.get(&uri).await.expect_err("three were sent");
    assert!(error.contains("(`limits.http-requests`)"), "{error}");
    assert!(run.policy.reasons().iter().any(|why| why.contains("(`limits.http-request`)")));
}

/// An error code alone tells some guests nothing.
#[tokio::test]
async fn why_a_granted_request_has_no_response_is_kept() {
    let unused = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("listens");
    let port = unused.local_addr().expect("bound").port();
    drop(unused);
    let refused = (&["127.0.0.1"][..], "the connection was refused");
    let unknown = (&[][..], "the name has no address");
    for (addresses, why) in [refused, unknown] {
        let mut run = Run::new(&format!("localhost:{port}"), &[addresses], Limits::default());
        for path in ["a", "b?key=1234"] {
            run.get(&format!("http://localhost:{port}/{path}")).await.expect_err(why);
        }
        let says = format!("a request to http://localhost:{port} failed: {why}");
        assert_eq!(run.policy.reasons(), [says]);
    }
}

/// No user can be asked here.
#[tokio::test]
async fn what_is_left_to_a_person_is_not_even_resolved_before_they_said_yes() {
    let (port, seen) = server().await;
    let entry = format!("localhost:{port}");
    let asked = Rule { by: GrantedBy::Person, ..rule(&entry, &[Method::GET]) };
    let uri = format!("http://localhost:{port}/");
    let mut run = Run::of(vec![asked.clone()], &[&["127.0.0.1"]], Limits::default());
    assert_eq!(run.get(&uri).await, Err("HttpRequestDenied".to_owned()));
    let why = run.policy.reasons().join("\n");
    assert!(why.contains(&format!("http://localhost:{port} needs the user's permission")), "{why}");
    assert!(why.contains("(`http.allow.grant`)"), "{why}");
    // The user cannot grant another method.
    assert_eq!(run.send(request(Method::POST, &uri)).await, Err("HttpRequestDenied".to_owned()));
    assert!(run.policy.reasons()[1].contains("add \"POST\" to the `methods`"));
    assert!(run.asked.lock().expect("free").is_empty());
    // If the operator also grants the request, the user is not asked.
    let mut run = Run::of(vec![asked, rule(&entry, &[])], &[&["127.0.0.1"]], Limits::default());
    assert_eq!(run.get(&uri).await, Ok(200));
    assert_eq!(seen.lock().expect("free").len(), 1);
}
