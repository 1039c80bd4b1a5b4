//! The plugin `fetch`, against a real site.

use serde_json::{Value, json};
use toolyard_tests::{Host, Session, Setup, Site, guests, text};

struct Web {
    site: Site,
    _host: Host,
    session: Session,
}

impl Web {
    /// With the grant of this site alone.
    async fn granted() -> Self {
        let site = Site::start().await;
        let manifest = format!("[http]\nallow = [\"localhost:{}\"]", site.port());
        let setup = Setup::new().with(&[guests::plugin("fetch")]).manifest("fetch", &manifest);
        let (host, session) = setup.open().await;
        Self { site, _host: host, session }
    }

    async fn fetch(&self, path: &str, more: Value) -> Value {
        let mut arguments = json!({ "url": self.site.url(path) });
        arguments.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
        self.session.call("fetch", arguments).await
    }
}

#[tokio::test]
async fn redirects_are_followed_as_far_as_they_are_granted() {
    let web = Web::granted().await;
    let result = web.fetch("/redirect?/redirect?/json", json!({})).await;
    assert_eq!(result["structuredContent"]["finalUrl"], web.site.url("/json"), "{result}");
    for to in ["http://169.254.169.254/latest/meta-data/", "http://127.0.0.1:1/", "http://example.com/"] {
        let result = web.fetch(&format!("/redirect?{to}"), json!({})).await;
        assert!(result["isError"] == true && text(&result).contains("`[http] allow`"), "{result}");
        assert!(result["content"][1]["text"].to_string().contains("fetch.toml"), "the host's word: {result}");
    }
    let result = web.fetch("/redirect?file:///etc/passwd", json!({})).await;
    assert!(result["isError"] == true && text(&result).contains("nowhere"), "{result}");
}

#[tokio::test]
async fn it_tells_how_far_it_is_and_gives_up_in_its_time() {
    let web = Web::granted().await;
    let params = json!({
        "name": "fetch", "arguments": { "url": web.site.url("/bytes?300000") }, "_meta": { "progressToken": 1 },
    });
    let (_, notices) = web.session.request_and_notices("tools/call", params).await;
    let progress = notices.iter().find(|notice| notice["method"] == "notifications/progress");
    assert_eq!(progress.expect("progress")["params"]["total"], 300_000.0, "{notices:?}");
    for path in ["/silent", "/stalled"] {
        let result = web.fetch(path, json!({ "timeoutMs": 200 })).await;
        assert!(result["isError"] == true && text(&result).contains("`timeoutMs`"), "{result}");
    }
}
