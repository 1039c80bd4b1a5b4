//! Logins: passwords, and tokens of the server that the registry names.

use crate::kit::{
    Access, PASSWORD, Proxy, Server, USER, artifact, client_of, client_with, failure, push, reference,
    settings,
};
use toolyard_registry::credentials::Store;
use toolyard_registry::{Client, Problem, Settings};

#[tokio::test]
async fn a_missing_login_names_the_searched_files_and_the_command() {
    let Some(server) = Server::start(Access::Basic) else { return };
    let store = Store::new(vec!["/nowhere/config.json".into(), "/nowhere/auth.json".into()]);
    let client = Client::new(Settings { credentials: store, ..settings() }).expect("a client");
    let host = &server.host;
    assert_eq!(
        failure(client.pull(&reference(host, "acme/fetch:1")).await),
        format!(
            "{host}/acme/fetch:1: 401, the registry wants a login (looked in /nowhere/config.json and \
             /nowhere/auth.json); docker, podman and oras log in: oras login {host}"
        )
    );
}

/// A wrong password is told apart from a missing one, by the registry and by its token server.
#[tokio::test]
async fn a_wrong_password_is_named() {
    let (Some(basic), Some(open)) = (Server::start(Access::Basic), Server::start(Access::Open)) else {
        return;
    };
    let proxy = Proxy::with_tokens(&open.host).await;
    for host in [&basic.host, &proxy.host] {
        let (client, _folder) = client_with(host, USER, "wrong");
        let error = client.pull(&reference(host, "acme/fetch:1")).await.expect_err("refused");
        assert!(matches!(error.problem(), Some(Problem::Login(why)) if why.contains("refuses")), "{error}");
    }
}

#[tokio::test]
async fn the_token_server_gets_the_password_the_registry_only_the_token_and_an_expired_one_is_replaced() {
    let Some(server) = Server::start(Access::Open) else { return };
    let proxy = Proxy::with_tokens(&server.host).await;
    let (client, _folder) = client_with(&proxy.host, USER, PASSWORD);
    let reference = reference(&proxy.host, "acme/fetch:1");
    push(&server.host, "acme/fetch:1", &artifact("fetch")).await;
    client.pull(&reference).await.expect("pulled");
    for seen in proxy.seen() {
        let is_basic = seen.authorization.is_some_and(|text| text.starts_with("Basic "));
        assert_eq!(is_basic, seen.path.starts_with("/token"), "{}", seen.path);
    }
    let tokens: Vec<_> = proxy.lines().into_iter().filter(|line| line.contains("/token")).collect();
    assert_eq!(tokens, ["GET /token?service=test&scope=repository%3Aacme%2Ffetch%3Apull&account=ada"]);
    let challenge = format!(r#"Bearer realm="http://{}/token",service="test""#, proxy.host);
    let expired = crate::kit::Fault::Answer(401, vec![("www-authenticate", challenge)], Vec::new());
    proxy.faults().add_times(1, http::Method::GET, "/manifests/1", expired);
    client.resolve(&reference).await.expect("resolved again");
}

#[tokio::test]
async fn a_token_server_on_another_host_gets_the_password_if_it_is_named_and_encrypted() {
    let Some(server) = Server::start(Access::Open) else { return };
    let tokens = Proxy::with_tokens("127.0.0.1:1").await;
    let proxy = Proxy::with_realm(&server.host, &format!("http://{}/token", tokens.host)).await;
    let (client, _folder) = client_with(&proxy.host, USER, PASSWORD);
    // The proxy does not know the token of the other server, so the pull fails after the exchange.
    let error = client.resolve(&reference(&proxy.host, "acme/fetch:1")).await.expect_err("refused");
    assert!(matches!(error.problem(), Some(Problem::Login(why)) if why.contains("refuses")), "{error}");
    assert!(tokens.seen()[0].authorization.as_deref().is_some_and(|text| text.starts_with("Basic ")));
    let proxy = Proxy::with_realm(&server.host, "http://tokens.example/token").await;
    let (client, _folder) = client_with(&proxy.host, USER, PASSWORD);
    let text = failure(client.pull(&reference(&proxy.host, "acme/fetch:1")).await);
    assert!(text.contains("the connection to its token server is not encrypted"), "{text}");
}

#[tokio::test]
async fn an_identity_token_is_exchanged_for_a_token() {
    let Some(server) = Server::start(Access::Open) else { return };
    let proxy = Proxy::with_tokens(&server.host).await;
    let (client, _folder) = client_of(&proxy.host, &serde_json::json!({ "identitytoken": "refresh" }));
    push(&server.host, "acme/fetch:1", &artifact("fetch")).await;
    client.pull(&reference(&proxy.host, "acme/fetch:1")).await.expect("pulled");
    assert!(proxy.lines().contains(&"POST /token".to_owned()));
}
