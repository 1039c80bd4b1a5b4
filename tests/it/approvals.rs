//! Calls that wait for the operator's approval (`confirm`), through clients and the command line.

use crate::audit::{actions, said_of};
use hyper::Method;
use serde_json::json;
use toolyard_tests::host::command;
use toolyard_tests::pty::OnTerminal;
use toolyard_tests::stateless::everything;
use toolyard_tests::{Connection, Host, Session, Setup, text};

/// The probe, whose `echo` needs an approval.
fn setup() -> Setup {
    Setup::probe()
        .manifest("probe", "[tools.echo]\nconfirm = \"ask\"\nconfirm-message = \"Repeats what it gets.\"\n")
}

async fn waiting(session: &Session, text: &str) -> String {
    let id = session.create("echo", json!({"text": text})).await;
    assert_eq!(session.task(&id).await["status"], "input_required");
    id
}

/// Runs a command on a terminal of its own, and types this line into it.
async fn on_terminal(host: &Host, args: &[&str], line: &str) -> (Option<i32>, String) {
    let mut terminal = OnTerminal::start(command(args[0], host.folder(), &args[1..]));
    terminal.types(&format!("{line}\n"));
    let (status, shown) = terminal.ended().await;
    (status.code(), shown)
}

#[tokio::test]
async fn an_operator_lists_approves_and_denies_at_the_command_line() {
    let (host, session) = setup().open().await;
    let none = host.prints(&["approvals", "list"]).await;
    assert!(none.contains("No call"), "{none}");
    let (first, second) = (waiting(&session, "to production").await, waiting(&session, "again").await);
    let listed = host.lines(&["approvals", "list", "--json"]).await;
    assert_eq!(listed.len(), 2);
    assert_eq!((&listed[0]["taskId"], &listed[0]["tool"]), (&json!(first), &json!("echo")));
    assert_eq!(listed[0]["arguments"], json!({"text": "to production"}));
    assert_eq!(listed[0]["message"], "Repeats what it gets.");

    host.refuses(&["approvals", "approve", &first], 1, "on a terminal").await;
    assert_eq!(session.task(&first).await["status"], "input_required", "a program approves nothing");
    let (code, shown) = on_terminal(&host, &["approvals", "approve", &first], "perhaps").await;
    assert_eq!(code, Some(1), "{shown}");
    let (code, shown) = on_terminal(&host, &["approvals", "approve", &first], "yes").await;
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("to production") && shown.contains("Repeats what it gets."), "{shown}");
    session.until(&first, "completed").await;

    host.prints(&["approvals", "deny", &second, "--note", "Once is enough."]).await;
    session.until(&second, "failed").await;
    let result = session.result("tasks/result", json!({"taskId": second})).await;
    assert!(text(&result).contains("Once is enough."), "{result}");
    host.refuses(&["approvals", "deny", &second], 1, "does not wait for an approval").await;

    let first = said_of(&host, &first, "task.ended").await;
    assert_eq!(actions(&first)[..3], ["task.created", "approval.asked", "approval.given"]);
    let second = said_of(&host, &second, "task.retrieved").await;
    assert_eq!(actions(&second)[1..4], ["approval.asked", "approval.refused", "task.ended"]);
}

/// C6.6: a client that can send its user to a page shows the one of the console, which needs a login.
#[tokio::test]
async fn the_person_who_calls_is_shown_the_page_where_the_operator_decides() {
    let (host, client) = setup().set("console.listen", "127.0.0.1:0").serve_client().await;
    let client = client.declaring(everything());
    let id = client.create("echo", json!({"text": "to production"})).await;
    let asked = client.task(&id).await;
    let (key, page) = asked["inputRequests"].as_object().and_then(|all| all.iter().next()).expect("a page");
    assert_eq!(page["params"]["mode"], "url");
    let message = page["params"]["message"].as_str().expect("a text");
    assert!(message.contains("to production") && message.contains("Repeats what it gets."), "{message}");
    let url = page["params"]["url"].as_str().expect("an address");
    assert!(url.starts_with("http://127.0.0.1:") && url.ends_with(&format!("/q/{id}")), "{url}");
    let port = url.split([':', '/']).nth(4).and_then(|port| port.parse().ok()).expect("a port");
    let mut stranger = Connection::open(port).await.not_mcp();
    let answer = stranger.send(Method::GET, &format!("/q/{id}"), &[], "").await;
    assert!(!String::from_utf8_lossy(&answer.bytes().await).contains("to production"), "without a login");

    client.update(&id, json!({key: {"action": "accept"}})).await;
    let opened = client.task(&id).await;
    assert_eq!((&opened["status"], opened.get("inputRequests")), (&json!("working"), None), "{opened}");
    let (code, shown) = on_terminal(&host, &["approvals", "approve", &id], "yes").await;
    assert_eq!(code, Some(0), "{shown}");
    client.until(&id, "completed").await;
}
