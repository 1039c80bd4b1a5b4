//! The guest's view of the machine with and without a manifest: environment, arguments, standard input,
//! clocks, random numbers.

use serde_json::{Value, json};
use toolyard_tests::exchange::outcome;
use toolyard_tests::host::install_as;
use toolyard_tests::{Host, Session, Setup, guests};

/// Seconds since the epoch; any real clock is past it.
const YEAR_2020: u64 = 1_577_836_800;

async fn host(manifest: &str) -> (Host, Session) {
    Setup::fixture("senses", manifest).open().await
}

async fn look(session: &Session) -> Value {
    outcome(&session.call("look", json!({})).await)
}

#[tokio::test]
async fn a_run_senses_what_its_manifest_grants_and_nothing_of_the_host() {
    let (_host, session) = host("").await;
    let (one, other) = (look(&session).await, look(&session).await);
    assert_eq!((&one["environment"], &one["arguments"]), (&json!({}), &json!([])));
    assert!(one["input"].as_str().expect("text").starts_with("Ok(0)"), "{one}");
    assert_eq!(one["resolution"], 100_000, "nanoseconds");
    assert_eq!(one["nanoseconds"].as_u64().expect("a number") % 100_000, 0, "{one}");
    assert!(one["seconds"].as_u64().expect("a number") > YEAR_2020);
    for kind in ["random", "insecure", "seed"] {
        assert_ne!(one[kind], other[kind], "{kind}");
    }
    let manifest = "[env]\nLANG = \"C\"\n[wasi]\nclock = \"frozen\"\nrandom = \"fixed\"";
    let (_host, session) = host(manifest).await;
    let (one, other) = (look(&session).await, look(&session).await);
    assert_eq!(one["environment"], json!({"LANG": "C"}));
    assert_eq!((&one["seconds"], &one["moved"]), (&json!(0), &json!(false)));
    for kind in ["random", "insecure", "seed"] {
        assert_eq!(one[kind], other[kind], "{kind}");
    }
    let (_host, session) = host("[wasi]\nclock = \"exact\"").await;
    assert_eq!(look(&session).await["resolution"], 1);
}

#[tokio::test]
async fn a_listing_sees_nothing_that_could_differ_from_one_time_to_the_next() {
    let setup = Setup::fixture("senses", "");
    install_as(&guests::fixture("senses"), &setup.plugins(), "other.wasm");
    let granting = "prefix = \"other\"\n[env]\nLANG = \"C\"\n[wasi]\nclock = \"exact\"";
    let (_host, session) = setup.manifest("other", granting).open().await;
    let listed = session.result("tools/list", json!({})).await;
    let tools = listed["tools"].as_array().expect("tools");
    assert_eq!(tools[0]["description"], tools[1]["description"], "whatever its manifest grants");
    let seen: Value = serde_json::from_str(tools[0]["description"].as_str().expect("text")).expect("JSON");
    assert_eq!((&seen["seconds"], &seen["moved"]), (&json!(0), &json!(false)));
    assert_eq!(seen["environment"], json!({}));
}
