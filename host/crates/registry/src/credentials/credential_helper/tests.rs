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
async fn a_helper_answers_with_a_credential_a_token_nothing_or_an_error() {
    let login = r#"echo "{\"ServerURL\":\"x\",\"Username\":\"$1\",\"Secret\":\"$(cat)\"}""#;
    let token = Credential::IdentityToken(Zeroizing::new("x".to_owned()));
    let failed = |why: &str| Err(format!("the credential helper docker-credential-test failed: {why}"));
    for (script, expected) in [
        (login, Ok(Some(Credential::password("get", "ghcr.io")))),
        (r#"echo '{"Username":"<token>","Secret":"x"}'"#, Ok(Some(token))),
        ("echo credentials not found in native keychain; exit 1", Ok(None)),
        ("echo the keychain is locked; exit 1", failed("the keychain is locked")),
        ("yes", failed("its answer is larger than 65536 bytes")),
    ] {
        assert_eq!(answer(script, TIMEOUT).await, expected, "{script}");
    }
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
async fn a_helper_is_the_name_of_a_program_and_not_a_path() {
    for (name, why) in [
        ("docker-credential-/bin/x", "characters other than letters"),
        ("docker-credential-../x", "characters other than letters"),
        ("docker-credential-a b", "characters other than letters"),
        ("docker-credential-nowhere", "helper docker-credential-nowhere failed: cannot start it"),
    ] {
        let error = get(name, "h", TIMEOUT).await.expect_err("refused").to_string();
        assert!(error.contains(why), "{error}");
    }
}
