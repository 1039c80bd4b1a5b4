//! The console, as its checks and a real browser see it (`tests/console`).

mod pages;

use crate::audit::log;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;
use tokio::process::Command;
use toolyard_tests::guests::{plugin, root};
use toolyard_tests::http::Answer;
use toolyard_tests::{Connection, Host, Session, Setup, eventually, schema, succeeds, until};

fn folder() -> PathBuf {
    root().join("tests/console")
}

/// The calls of `wait` need an approval.
const CONFIRM: &str = "[tools.wait]\nconfirm = \"ask\"\nconfirm-message = \"Waits in production.\"\n";

fn can_ask() -> Value {
    json!({"elicitation": {"form": {}}})
}

/// The probe with its [`CONFIRM`] and a console.
fn confirming() -> Setup {
    Setup::probe().manifest("probe", CONFIRM).set("console.listen", "127.0.0.1:0")
}

/// A new login link: its origin and its code.
async fn link(host: &Host) -> (String, String) {
    let link = host.prints(&["console"]).await;
    let (origin, code) = link.trim().split_once("/login#").expect("a link");
    (origin.to_owned(), code.to_owned())
}

/// A browser without a browser: sends requests with these headers.
pub(crate) struct Sender {
    pub(crate) port: u16,
    host: String,
    cookie: String,
}

impl Sender {
    pub(crate) async fn logged_in(host: &Host) -> Self {
        let (origin, code) = link(host).await;
        let name = origin.strip_prefix("http://").expect("an origin").to_owned();
        let port = name.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).expect("a port");
        let mut sender = Self { port, host: name, cookie: String::new() };
        let answer = sender.post("/login", &format!("code={code}"), &[]).await;
        assert_eq!(answer.status, 303);
        let cookie = answer.header("set-cookie").to_owned();
        assert!(cookie.contains("HttpOnly; SameSite=Strict"), "{cookie}");
        sender.cookie = cookie.split(';').next().expect("a value").to_owned();
        sender
    }

    fn origin(&self) -> String {
        format!("http://{}", self.host)
    }

    /// Sends a request; later headers replace earlier ones of the same name.
    async fn send(&self, method: hyper::Method, path: &str, body: String, more: &[(&str, &str)]) -> Answer {
        let mut headers: Vec<(&str, &str)> = vec![("host", &self.host), ("cookie", &self.cookie)];
        headers.push(("content-type", "application/x-www-form-urlencoded"));
        for (name, value) in more {
            headers.retain(|(known, _)| known != name);
            if !value.is_empty() {
                headers.push((name, value));
            }
        }
        let mut connection = Connection::open(self.port).await.not_mcp();
        connection.send(method, path, &headers, body).await
    }

    /// The text of a GET request.
    pub(crate) fn request(&self, path: &str) -> String {
        format!("GET {path} HTTP/1.1\r\nhost: {}\r\ncookie: {}\r\n\r\n", self.host, self.cookie)
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, String) {
        let answer = self.send(hyper::Method::GET, path, String::new(), &[]).await;
        (answer.status.as_u16(), answer.text().await)
    }

    async fn post(&self, path: &str, body: &str, more: &[(&str, &str)]) -> Answer {
        let origin = self.origin();
        let mut headers = vec![("origin", &*origin)];
        headers.extend(more);
        self.send(hyper::Method::POST, path, body.to_owned(), &headers).await
    }

    /// Sends the form with this action on a page, with further fields.
    async fn act(&self, page: &str, action: &str, fields: &str) -> Answer {
        let hidden = form(&self.get(page).await.1, action);
        self.post(action, &format!("{hidden}&{fields}"), &[]).await
    }
}

/// The hidden fields of the form with this action on a page.
fn form(page: &str, action: &str) -> String {
    let fingerprint = value(page, "fingerprint").map(|found| format!("&fingerprint={found}"));
    format!("token={}{}", token(page, action), fingerprint.unwrap_or_default())
}

/// The token of the form with this action on a page.
fn token(page: &str, action: &str) -> String {
    let form = page.split("<form").find(|form| form.contains(&format!("action=\"{action}\"")));
    value(form.expect("a form"), "token").expect("a token").to_owned()
}

/// The first hidden field of this name on a page.
fn value<'a>(page: &'a str, name: &str) -> Option<&'a str> {
    page.split_once(&format!("name=\"{name}\" value=\""))?.1.split('"').next()
}

/// A call that waits for an approval.
async fn confirms(session: &Session) -> String {
    session.create("wait", json!({"ms": 1})).await
}

/// Sends an action in every way but the one of the page that has its form. None changes anything.
async fn refuses_what_no_page_sent(ada: &Sender, bob: &Sender, action: &str, page: &str, fields: &str) {
    let (_, shown) = ada.get(page).await;
    let valid = token(&shown, action);
    let of_other_login = token(&bob.get(page).await.1, action);
    let of_other_action = token(&shown, if action == "/logout" { "/theme" } else { "/logout" });
    let body = |token: &str| format!("token={token}{fields}");
    for (why, token, header) in [
        ("no token", "", ("x", "x")),
        ("another login's token", &*of_other_login, ("x", "x")),
        ("another action's token", &*of_other_action, ("x", "x")),
        ("no origin", &*valid, ("origin", "")),
        ("another origin", &*valid, ("origin", "http://evil.example")),
        ("an origin without a name", &*valid, ("origin", "null")),
        ("another site", &*valid, ("sec-fetch-site", "cross-site")),
    ] {
        let answer = ada.post(action, &body(token), &[header]).await;
        assert_eq!(answer.status, 403, "{action}: {why}");
    }
    let elsewhere = ada.post(action, &body(&valid), &[("host", "evil.example")]).await;
    assert_eq!(elsewhere.status, 421, "{action}: another Host");
    let stranger = ada.post(action, &body(&valid), &[("cookie", "")]).await;
    assert_eq!((stranger.status.as_u16(), stranger.header("location")), (303, "/login"), "{action}");
    let (status, _) = ada.get(action).await;
    // The page of a tool has the address of its calls.
    let expected = if action.starts_with("/try/") { 200 } else { 404 };
    assert_eq!(status, expected, "{action}: GET");
}

/// The entries of the audit log with this action.
fn audit_entries(host: &Host, action: &str) -> Vec<Value> {
    log(host).into_iter().filter(|line| line["action"] == action).collect()
}

#[tokio::test]
async fn an_action_needs_the_page_of_its_login_and_nothing_changes_without_it() {
    let (host, session) = confirming().open_as(can_ask()).await;
    let spins = session.create("spin", json!({"ms": 600_000})).await;
    let asks = session.create("ask", json!({"question": "Name?"})).await;
    session.until(&asks, "input_required").await;
    let (denied, approved) = (confirms(&session).await, confirms(&session).await);
    let (ada, bob) = (Sender::logged_in(&host).await, Sender::logged_in(&host).await);
    let of_tasks = [(&spins, "cancel"), (&asks, "answer"), (&denied, "deny"), (&approved, "approve")];
    let of_tasks = of_tasks.map(|(id, act)| (format!("/tasks/{id}/{act}"), format!("/tasks/{id}")));
    let of_all = ["/logout", "/theme"].map(|action| (action.to_owned(), "/tasks".to_owned()));
    for (action, page) in of_all.iter().chain(&of_tasks) {
        refuses_what_no_page_sent(&ada, &bob, action, page, "&key=answer&do=decline&theme=dark").await;
    }
    assert_eq!(session.task(&spins).await["status"], "working");
    for waits in [&asks, &denied, &approved] {
        assert_eq!(session.task(waits).await["status"], "input_required");
    }
    assert_eq!(ada.get("/tasks").await.0, 200, "still logged in");
    // The valid ones work.
    for (action, page) in &of_tasks {
        if action.ends_with("/approve") {
            // An approval of another call decides nothing.
            let valid = token(&ada.get(page).await.1, action);
            let other = format!("token={valid}&fingerprint={}", "00".repeat(32));
            assert_eq!(ada.post(action, &other, &[]).await.status, 303);
            assert_eq!(session.task(&approved).await["status"], "input_required");
        }
        let done = ada.act(page, action, "key=answer&do=decline&note=No.").await;
        assert_eq!(done.status, 303, "{action}");
    }
    session.until(&spins, "cancelled").await;
    session.until(&asks, "completed").await;
    session.until(&denied, "failed").await;
    session.until(&approved, "completed").await;
    let (logins, cancelled) = eventually("the entries of both logins", || async {
        let of = |action: &str| audit_entries(&host, action);
        let (logins, cancelled, refused) = (of("console.login"), of("task.cancelled"), of("console.refused"));
        let are_there = logins.len() >= 2 && !cancelled.is_empty() && !refused.is_empty();
        are_there.then_some((logins, cancelled))
    })
    .await;
    assert_eq!(cancelled[0]["principal"], "operator");
    assert_eq!(cancelled[0]["console"], logins[0]["console"], "the entry names the login");
}

#[tokio::test]
async fn reading_changes_nothing_and_other_names_are_not_served() {
    let (mut host, session) = confirming().open_as(can_ask()).await;
    let asks = session.create("ask", json!({"question": "Name?"})).await;
    session.until(&asks, "input_required").await;
    let before = session.result("tasks/list", json!({})).await;
    let ada = Sender::logged_in(&host).await;
    until("the entry of the login", || async { !audit_entries(&host, "console.login").is_empty() }).await;
    let task = format!("/tasks/{asks}");
    let paths = "/ /tasks /waiting /tools /calls /calls/1 /tools/probe.wasm /try/echo /permissions /clients \
                 /hosts /audit /audit/export /nothing /tasks/none";
    for path in paths.split(' ').chain([&*task]) {
        let answer = ada.send(hyper::Method::GET, path, String::new(), &[]).await;
        let policy = answer.header("content-security-policy").to_owned();
        assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{path}");
        assert_eq!(answer.header("cache-control"), "no-store", "{path}");
        let elsewhere = ada.send(hyper::Method::GET, path, String::new(), &[("host", "evil.example")]).await;
        assert_eq!(elsewhere.status, 421, "{path}");
        let stranger = ada.send(hyper::Method::GET, path, String::new(), &[("cookie", "")]).await;
        assert_eq!((stranger.status.as_u16(), stranger.header("location")), (303, "/login"), "{path}");
    }
    assert_eq!(session.result("tasks/list", json!({})).await, before);
    assert!(ada.get("/audit?action=console.").await.1.contains("console.login"));
    assert!(ada.get("/audit?tool=none").await.1.contains("No entry matches"));
    let export = ada.send(hyper::Method::GET, "/audit/export", String::new(), &[]).await;
    assert!(export.header("content-disposition").starts_with("attachment"));
    for _ in 0..20 {
        assert_eq!(ada.post("/login", "code=wrong", &[]).await.status, 403);
    }
    let (_, code) = link(&host).await;
    let again = ada.post("/login", &format!("code={code}"), &[]).await;
    assert_eq!(again.status, 303, "K-C3: others' codes lock nobody out");
    host.signal(rustix::process::Signal::TERM);
    host.ended().await;
    assert!(!host.data().join("console/address").exists(), "the address ends with the console");
}

#[tokio::test]
async fn a_person_uses_it_in_a_browser() {
    if !folder().join("node_modules/.installed").exists() {
        schema::skipped("the browser for the console is not installed: run tests/console/install.sh");
        return;
    }
    let setup = confirming().with(&[toolyard_tests::guests::fixture("versioned_v1")]);
    let (host, session) = setup.open_as(can_ask()).await;
    let hostile =
        "<script>alert(1)</script><img src=x onerror=alert(2)> \u{202e}\u{0}[x](javascript:alert(3))";
    // The first call is `/calls/1`.
    session.call("spin", json!({"ms": 50})).await;
    session.call("fail", json!({"message": hostile})).await;
    let mut tasks = serde_json::Map::new();
    for (name, tool, arguments) in [
        ("hostile", "fail", json!({"message": hostile})),
        ("works", "slow_version", json!({"ms": 600_000})),
        ("asks", "ask", json!({"question": "What is your name?"})),
        ("hostileQuestion", "ask", json!({"question": hostile})),
        ("byKeyboard", "ask", json!({"question": "By keys?"})),
        ("withoutScript", "ask", json!({"question": "Without a script?"})),
        ("confirms", "confirm", json!({"question": "Deploy?"})),
        ("approve", "wait", json!({"ms": 1})),
        ("deny", "wait", json!({"ms": 2})),
    ] {
        tasks.insert(name.to_owned(), session.create(tool, arguments).await.into());
    }
    session.until(tasks["hostile"].as_str().expect("an id"), "failed").await;
    // It ends while a page shows it.
    tasks.insert("ends".to_owned(), session.create("spin", json!({"ms": 12_000})).await.into());
    let mut links = Vec::new();
    for _ in 0..3 {
        links.push(link(&host).await);
    }
    let mut node = Command::new("node");
    node.arg(folder().join("run.mjs")).arg(&links[0].0);
    node.args(links.iter().map(|(origin, code)| format!("{origin}/login#{code}")));
    node.arg(Value::Object(tasks).to_string()).kill_on_drop(true);
    let done = tokio::time::timeout(Duration::from_secs(400), node.output()).await.expect("ends");
    let told = succeeds(&done.expect("node"));
    assert_eq!(told.lines().count(), 12, "{told}");
}

/// As at claude.ai: the client knows neither tasks nor elicitation.
#[tokio::test]
async fn a_question_and_an_approval_of_a_client_that_cannot_be_asked_are_settled_at_the_console() {
    let setup = confirming().set("console.names", "console.example.com").set("bridge.enabled", "true");
    let (host, session) = setup.open().await;
    let ada = Sender::logged_in(&host).await;
    let name = "key=answer&do=accept&f.answer=Ada+L.";
    for (tool, arguments, action, answer, expected) in [
        ("ask", json!({"question": "Your name?"}), "answer", name, "Ada L."),
        ("wait", json!({"ms": 3}), "approve", "", "waited 3"),
    ] {
        let handed_off = session.call(tool, arguments).await;
        let text = handed_off["content"][0]["text"].as_str().expect("a text");
        let id = handed_off["_meta"]["io.toolyard/task"]["taskId"].as_str().expect("an id").to_owned();
        let shortcut = format!("/q/{id}");
        assert!(text.contains(&format!("https://console.example.com{shortcut}")), "{text}");
        // A proxy passes on the name that the browser asked for.
        let named = [("host", "console.example.com"), ("cookie", "")];
        let leads = ada.send(hyper::Method::GET, &shortcut, String::new(), &named).await;
        assert_eq!(leads.header("location"), format!("/tasks/{id}"));
        let leads = ada.send(hyper::Method::GET, &shortcut, String::new(), &[("cookie", "")]).await;
        assert_eq!(leads.header("location"), format!("{}/tasks/{id}", ada.origin()));
        let acted = ada.act(&format!("/tasks/{id}"), &format!("/tasks/{id}/{action}"), answer).await;
        assert_eq!(acted.status, 303);
        let done = session.call("task_wait", json!({"task_id": id})).await;
        assert!(done.to_string().contains(expected), "{done}");
    }
}

/// The configuration of a user, whose token is `token of NAME`.
fn user(name: &str, role: &str, rest: &str) -> String {
    let digest = <sha2::Sha256 as sha2::Digest>::digest(format!("token of {name}"));
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("[[console.users]]\nname = \"{name}\"\ntoken-sha256 = \"{digest}\"\nrole = \"{role}\"\n{rest}\n")
}

async fn log_in(host: &Host, name: &str) -> Sender {
    let mut sender = Sender::logged_in(host).await;
    sender.cookie = String::new();
    let answer = sender.post("/login", &format!("code=token+of+{name}"), &[]).await;
    assert_eq!(answer.status, 303, "{name}");
    sender.cookie = answer.header("set-cookie").split(';').next().expect("a value").to_owned();
    sender
}

#[tokio::test]
async fn users_log_in_by_their_tokens_and_may_do_what_their_role_allows() {
    let config = [("vera", "viewer", ""), ("petra", "approver", ""), ("carla", "viewer", "contents = true")]
        .map(|(name, role, rest)| user(name, role, rest));
    let (host, session) = confirming().config(&config.concat()).open_as(can_ask()).await;
    let waits = session.create("wait", json!({"ms": 4_321})).await;
    let page = format!("/tasks/{waits}");
    let (vera, carla) = (log_in(&host, "vera").await, log_in(&host, "carla").await);
    let petra = log_in(&host, "petra").await;
    for (who, sees, decides) in [(&vera, false, false), (&carla, true, false), (&petra, true, true)] {
        let (_, shown) = who.get(&page).await;
        assert_eq!(shown.contains("4321"), sees, "{shown}");
        assert_eq!(shown.contains("/approve\""), decides);
        assert!(!shown.contains("/cancel\""), "only an admin cancels");
    }
    let action = format!("{page}/approve");
    let hers = form(&petra.get(&page).await.1, &action);
    assert_eq!(vera.post(&action, &hers, &[]).await.status, 403, "with the form of another login");
    assert_eq!(petra.post(&action, &hers, &[]).await.status, 303);
    session.until(&waits, "completed").await;
    until("the entry with her name", || async {
        json!(audit_entries(&host, "approval.given")).to_string().contains("\"petra-")
    })
    .await;
    // A user who is taken out of the configuration is logged out, and does not get in again.
    crate::reload_config::write(&host, &config[0]);
    crate::reload_config::reload(&host, "config.reloaded").await;
    assert_eq!((vera.get(&page).await.0, petra.get(&page).await.0), (200, 303));
    assert_eq!(petra.post("/login", "code=token+of+petra", &[]).await.status, 403);
}

/// Two people see each call: who made it at the console does not approve it.
#[tokio::test]
async fn a_login_does_not_approve_the_call_that_it_made() {
    let setup = confirming().config(&["ada", "eve"].map(|name| user(name, "admin", "")).concat());
    let (host, _session) = setup.set("console.not-own", "true").open_as(json!({})).await;
    let (ada, eve) = (log_in(&host, "ada").await, log_in(&host, "eve").await);
    let tried = ada.act("/try/wait", "/try/wait", "f.ms=1&how=task").await;
    let task = tried.header("location").to_owned();
    assert_eq!(tried.status, 303, "{task}");
    let approve = async |who: &Sender| {
        let action = format!("{task}/approve");
        if !who.get(&task).await.1.contains(&format!("action=\"{action}\"")) {
            return 403;
        }
        who.act(&task, &action, "").await.status.as_u16()
    };
    assert_eq!(approve(&ada).await, 403);
    assert_eq!(approve(&eve).await, 303);
    until("its end", || async { ada.get(&task).await.1.contains("completed") }).await;
}

#[tokio::test]
async fn a_plain_call_is_shown_with_what_the_settings_keep_of_it() {
    let setup = Setup::probe().set("console.listen", "127.0.0.1:0").set("console.capture", "all");
    let (host, session) = setup.open_as(json!({})).await;
    session.call("echo", json!({"text": "a < b"})).await;
    let (_, echoed) = Sender::logged_in(&host).await.get("/calls/1").await;
    assert!(echoed.contains("a &lt; b"), "{echoed}");
}

/// `make screenshots` draws them.
#[tokio::test]
async fn the_pictures_of_the_docs_show_every_page() {
    let pictures = root().join("host/docs/pictures");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        let (host, session) = confirming().with(&[plugin("csv")]).open_as(can_ask()).await;
        for (tool, arguments) in [
            ("csv_profile", json!({"text": "name,age\nAda,36\nGrace,85"})),
            ("fail", json!({"message": "The service answered 503: try again later."})),
            ("spin", json!({"ms": 600_000})),
            ("ask", json!({"question": "Which branch shall I use?"})),
            ("confirm", json!({"question": "Deploy version 2.1 to production?"})),
            ("wait", json!({"ms": 250})),
            ("count", json!({"steps": 5, "ms": 400})),
        ] {
            session.create(tool, arguments).await;
        }
        let (origin, code) = link(&host).await;
        let mut node = Command::new("node");
        node.arg(folder().join("screenshots.mjs")).arg(format!("{origin}/login#{code}")).arg(&pictures);
        assert!(node.status().await.expect("node").success());
    }
    for page in ["overview", "tasks", "task", "waiting", "tools", "try"] {
        for form in ["light", "dark", "light-narrow", "dark-narrow"] {
            let picture = pictures.join(format!("console-{page}-{form}.png"));
            assert!(picture.exists(), "run make screenshots for {}", picture.display());
        }
    }
}
