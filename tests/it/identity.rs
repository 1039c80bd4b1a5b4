//! A principal stays the same across tokens, sessions and hosts, as long as the issuer vouches for it (A-4,
//! A-6, T-40).

use crate::authentication::knock_by;
use crate::secrets::every_file;
use serde_json::json;
use std::path::Path;
use toolyard_tests::http::Answer;
use toolyard_tests::identity_provider::{Key, now};
use toolyard_tests::{Host, IdentityProvider, Session, Setup, eventually, until};

async fn until_answered(host: &Host, token: &str, status: u16) -> Answer {
    eventually(&format!("the answer {status}"), || async {
        let answer = knock_by(host, token).await;
        (answer.status == status).then_some(answer)
    })
    .await
}

/// H-26: the store holds sessions as well as tasks.
#[tokio::test]
async fn a_6_t_40_a_principal_finds_its_tasks_in_every_session_and_after_a_restart() {
    let (provider, key) = IdentityProvider::of(Key::ec("one")).await;
    let host = Setup::probe().config(&provider.config()).start().await;
    let first = Session::open_with(host.port(), &provider.token(&key, "alice")).await;
    let task = first.complete("wait", json!({"ms": 1})).await;
    // A new token of the same subject continues the same session.
    let claims = provider.claims("alice");
    let mut renewed = claims.clone();
    renewed["exp"] = json!(now() + 1200);
    let renewed = key.sign(&renewed);
    assert_eq!(first.bearing(Some(&renewed)).task(&task).await["status"], "completed");
    let host = host.killed_and_restarted().await;
    let again = first.at(host.port());
    assert_eq!(again.task(&task).await["status"], "completed", "the session is still that of its owner");
    let second = Session::open_with(host.port(), &renewed).await;
    assert_eq!(second.task(&task).await["status"], "completed");
    // H-25: a restart does not open the session to other principals either.
    let stolen = again.bearing(Some(&provider.token(&key, "bob")));
    let answer = stolen.post(&json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).await;
    assert_eq!(answer.status, 404);
}

#[tokio::test]
async fn a_4_new_keys_are_found_when_they_are_named_and_old_ones_stop() {
    let (old, new) = (Key::rsa("old", 0), Key::ed("new"));
    let provider = IdentityProvider::with(&[&old]).await;
    let host = Setup::new().config(&provider.config()).start().await;
    let (by_old, by_new) = (provider.token(&old, "alice"), provider.token(&new, "alice"));
    assert_eq!(knock_by(&host, &by_old).await.status, 200);
    let fetches = provider.fetches();
    assert_eq!(knock_by(&host, &by_old).await.status, 200);
    assert_eq!(provider.fetches(), fetches, "keys at hand are not fetched again");
    assert_eq!(until_answered(&host, &by_new, 401).await.status, 401, "not published yet");
    provider.publish(&[&new]);
    until_answered(&host, &by_new, 200).await;
    // The host had verified the token and remembered it; since then its key has been removed.
    let fetches = provider.fetches();
    assert_eq!(knock_by(&host, &by_old).await.status, 401);
    assert!(provider.fetches() <= fetches + 1);
}

#[tokio::test]
async fn an_issuer_that_is_away_is_no_fault_of_the_token() {
    let (provider, key) = IdentityProvider::of(Key::ec("one")).await;
    provider.fail(true);
    let host = Setup::new().config(&provider.config()).set("jwks.refresh", "20ms").start().await;
    let token = provider.token(&key, "alice");
    let away = knock_by(&host, &token).await;
    assert_eq!(away.status, 503);
    assert_eq!(away.header("retry-after"), "1");
    assert_eq!(away.header("www-authenticate"), "");
    assert!(away.json().await["error"]["message"].as_str().expect("a text").contains("try again later"));
    provider.fail(false);
    until_answered(&host, &token, 200).await;
    // The known keys still work. A token with an unknown key is not rejected as invalid while the issuer is
    // unreachable.
    provider.fail(true);
    let before = provider.fetches();
    until("the issuer to be asked in vain", || async {
        assert_eq!(knock_by(&host, &token).await.status, 200);
        provider.fetches() > before + 2
    })
    .await;
    until_answered(&host, &provider.token(&Key::ec("two"), "alice"), 503).await;
    assert!(host.log().contains("event=\"auth.keys_not_fetched\""));
}

#[tokio::test]
async fn keys_are_found_by_the_issuers_metadata_or_in_a_file() {
    let (provider, key) = IdentityProvider::of(Key::ed("one")).await;
    let address = format!("jwks-url = \"{}\"", provider.jwks_url());
    let token = provider.token(&key, "alice");
    let host = Setup::new().config(&provider.config().replace(&address, "")).start().await;
    assert_eq!(knock_by(&host, &token).await.status, 200);
    assert_eq!(provider.fetches(), 1);
    let config = provider.config().replace(&address, "jwks-file = \"keys.json\"");
    let host = Setup::new().config(&config).set("jwks.refresh", "20ms").start().await;
    assert_eq!(knock_by(&host, &token).await.status, 503, "there is no file yet");
    write_keys(host.folder(), &[&key]);
    until_answered(&host, &token, 200).await;
    // A key that was taken back stops at the next refresh, even if no token names another key.
    write_keys(host.folder(), &[&Key::ed("two")]);
    until_answered(&host, &token, 401).await;
}

fn write_keys(folder: &Path, keys: &[&Key]) {
    let keys: Vec<_> = keys.iter().map(|key| &key.jwk).collect();
    std::fs::write(folder.join("keys.new"), json!({"keys": keys}).to_string()).expect("a file");
    std::fs::rename(folder.join("keys.new"), folder.join("keys.json")).expect("a rename");
}

/// A stream ends when its token expires; the call continues, and the next token can fetch its answer.
#[tokio::test]
async fn a_3_a_stream_ends_with_its_token_and_is_resumed_with_the_next() {
    let (provider, key) = IdentityProvider::of(Key::ec("one")).await;
    let host = Setup::probe().config(&provider.config()).start().await;
    let session = Session::open_with(host.port(), &provider.token(&key, "alice")).await;
    let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call",
        "params": {"name": "wait", "arguments": {"ms": 6000}}});
    let (mut events, _) = eventually("a call with a token that is about to expire", || async {
        let mut claims = provider.claims("alice");
        claims["exp"] = json!(now() + 3);
        let answer = session.bearing(Some(&key.sign(&claims))).post(&call).await;
        // On a slow machine the token may expire before the request arrives.
        (answer.status == 200).then(|| (answer.events(), ()))
    })
    .await;
    let opening = events.next().await.expect("the stream opens").id.expect("an id");
    while let Some(event) = events.next().await {
        assert!(!event.data.contains("\"id\":7"), "it ended before the answer: {event:?}");
    }
    let mut resumed = session.get(Some(&opening)).await.events();
    let answer = resumed.message().await.expect("the answer");
    assert_eq!(answer["id"], 7, "{answer}");
    assert!(answer["result"].is_object(), "{answer}");
}

#[tokio::test]
async fn a_3_tokens_of_the_configuration_are_made_by_the_command_and_expire() {
    let maker = Host::with(&[]).await;
    let made = async |args: &[&str]| {
        let output = maker.command(&[&["token"], args].concat()).await;
        assert!(output.status.success(), "{output:?}");
        let token = String::from_utf8(output.stdout).expect("text").trim().to_owned();
        let said = String::from_utf8(output.stderr).expect("text");
        let stanza = said[said.find("[[auth.tokens]]").expect("what to write")..].to_owned();
        assert!(!said.contains(&token), "A-4: the token is for stdout only");
        (token, stanza)
    };
    let (ci, first) = made(&["ci", "--scope", "tools"]).await;
    let (other, second) = made(&["other", "--expires", "2999-01-01T00:00:00+01:00"]).await;
    let (former, third) = made(&["former", "--expires", "2001-01-01T00:00:00Z"]).await;
    assert!(ci.len() > 40 && ci != other);
    let (_, me) = made(&["me", "--local"]).await;
    assert!(me.contains("local = true"), "{me}");
    let config = format!("{first}{second}{third}{me}");
    let host = Setup::probe().config(&config).start().await;
    let session = Session::open_with(host.port(), &ci).await;
    let task = session.complete("wait", json!({"ms": 1})).await;
    assert_eq!(Session::open_with(host.port(), &ci).await.task(&task).await["status"], "completed");
    let stranger = Session::open_with(host.port(), &other).await;
    assert_eq!(stranger.error("tasks/get", json!({"taskId": task})).await["code"], -32602);
    let description = "error_description=\"The access token is not valid, or not any more\"";
    for token in [former.as_str(), "toolyard_unknown", &ci[..ci.len() - 1], &ci.to_uppercase()] {
        let answer = knock_by(&host, token).await;
        assert_eq!(answer.status, 401);
        // There is no issuer to get a token from, so there are no metadata and no scopes.
        let expected = format!("Bearer error=\"invalid_token\", {description}");
        assert_eq!(answer.header("www-authenticate"), expected);
    }
}

/// no token and no signature of one appears in the most verbose log, in the data folder or in an error.
#[tokio::test]
async fn a_4_tokens_are_written_nowhere() {
    let (provider, key) = IdentityProvider::of(Key::ec("one")).await;
    let setup = Setup::probe().config(&provider.config());
    let mut host = setup.args(&["--log", "trace"]).start().await;
    let good = provider.token(&key, "alice");
    let mut claims = provider.claims("mallory");
    claims["exp"] = json!(now() - 10);
    let expired = key.sign(&claims);
    let unknown = Key::ec("unknown").sign(&provider.claims("mallory"));
    let session = Session::open_with(host.port(), &good).await;
    session.complete("wait", json!({"ms": 1})).await;
    session.request("tools/call", json!({"name": "nope"})).await;
    let mut said = Vec::new();
    for token in [&expired, &unknown] {
        let answer = knock_by(&host, token).await;
        said.extend_from_slice(format!("{:?}", answer.headers).as_bytes());
        said.extend_from_slice(&answer.bytes().await);
    }
    host.signal(rustix::process::Signal::TERM);
    host.ended().await;
    let log = host.log();
    assert!(log.contains("TRACE") && log.contains("a request was not let in"), "it is talkative:\n{log}");
    said.extend_from_slice(log.as_bytes());
    every_file(&host.data(), &mut |path, bytes| {
        // Machine code of the tools is older than any token.
        if !path.starts_with(host.data().join("compiled")) {
            said.extend(bytes);
        }
    });
    for token in [&good, &expired, &unknown] {
        for part in token.split('.') {
            let found = said.windows(part.len()).any(|window| window == part.as_bytes());
            // The header is the same for all tokens and reveals nothing.
            assert!(!found || token.starts_with(part), "a part of a token was written down");
        }
        assert!(!said.windows(token.len()).any(|window| window == token.as_bytes()));
    }
}
