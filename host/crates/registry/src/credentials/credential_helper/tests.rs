use super::*;
use std::path::{Path, PathBuf};

const TIMEOUT: Duration = Duration::from_secs(10);

/// Writes a helper, and runs it by its path: tests must not change the PATH of their process.
fn helper(folder: &Path, script: &str) -> PathBuf {
    let path = folder.join("docker-credential-test");
    // Another process writes the file: a child of another test would inherit our handle, and Linux refuses to
    // start a file that is open for writing.
    let mut command = std::process::Command::new("sh");
    command
        .args(["-c", "printf '#!/bin/sh\\n%s\\n' \"$2\" >\"$1\" && chmod 755 \"$1\"", "sh"])
        .arg(&path)
        .arg(script);
    assert!(command.status().expect("sh runs").success());
    path
}

async fn answer(script: &str, timeout: Duration) -> Result<Option<Credential>, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = helper(folder.path(), script);
    let output = run_program(path.as_os_str(), "docker-credential-test", "get", b"ghcr.io", timeout).await;
    output
        .and_then(|output| read_answer("docker-credential-test", output))
        .map_err(|problem| problem.to_string())
}

#[tokio::test]
async fn a_helper_gets_the_registry_and_answers_with_the_credential() {
    let script = r#"echo "{\"ServerURL\":\"x\",\"Username\":\"$1\",\"Secret\":\"$(cat)\"}""#;
    assert_eq!(answer(script, TIMEOUT).await, Ok(Some(Credential::password("get", "ghcr.io"))));
}

#[tokio::test]
async fn a_helper_may_have_an_identity_token_or_nothing() {
    let token = Zeroizing::new("x".to_owned());
    let script = r#"echo '{"Username":"<token>","Secret":"x"}'"#;
    assert_eq!(answer(script, TIMEOUT).await, Ok(Some(Credential::IdentityToken(token))));
    let script = "echo credentials not found in native keychain; exit 1";
    assert_eq!(answer(script, TIMEOUT).await, Ok(None));
}

#[tokio::test]
async fn a_helper_that_fails_is_named_with_its_sentence() {
    let error = answer("echo the keychain is locked; exit 1", TIMEOUT).await.expect_err("failed");
    assert_eq!(error, "the credential helper docker-credential-test failed: the keychain is locked");
}

#[tokio::test]
async fn a_helper_that_hangs_is_ended_with_its_children() {
    let folder = tempfile::tempdir().expect("a folder");
    let mark = folder.path().join("mark");
    let script = format!("(sleep 1; touch {}) & sleep 60", mark.display());
    let error = answer(&script, Duration::from_millis(200)).await.expect_err("failed");
    assert!(error.ends_with("it did not answer within 200ms"), "{error}");
    tokio::time::sleep(Duration::from_millis(1200)).await;
    assert!(!mark.exists());
}

#[tokio::test]
async fn an_endless_answer_is_refused() {
    let error = answer("yes", TIMEOUT).await.expect_err("failed");
    assert!(error.ends_with("its answer is larger than 65536 bytes"), "{error}");
}

#[tokio::test]
async fn a_helper_is_a_name_and_not_a_path() {
    for name in ["docker-credential-/bin/x", "docker-credential-../x", "docker-credential-a b"] {
        let error = get(name, "h", TIMEOUT).await.expect_err("refused").to_string();
        assert!(error.contains("characters other than letters"), "{error}");
    }
}

#[tokio::test]
async fn a_missing_helper_is_named() {
    let error = get("docker-credential-nowhere", "h", TIMEOUT).await.expect_err("missing").to_string();
    assert!(
        error.starts_with("the credential helper docker-credential-nowhere failed: cannot start it"),
        "{error}"
    );
}

#[tokio::test]
async fn a_helper_stores_the_credential_that_it_reads() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = helper(folder.path(), "cat > \"$0.stored\"");
    let input = store_input("docker-credential-test", "ghcr.io", &Credential::password("user", "secret"));
    let input = input.expect("an entry");
    let output = run_program(path.as_os_str(), "test", "store", &input, TIMEOUT).await.expect("it ran");
    assert!(output.0);
    let stored =
        std::fs::read_to_string(folder.path().join("docker-credential-test.stored")).expect("stored");
    assert_eq!(stored, r#"{"ServerURL":"ghcr.io","Username":"user","Secret":"secret"}"#);
}
