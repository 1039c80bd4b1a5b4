//! The metadata of this protected resource (RFC 9728; ).

use super::{Address, AuthSettings};
use bytes::Bytes;
use serde_json::json;
use std::collections::BTreeSet;

const NAME: &str = "oauth-protected-resource";

/// The document, and the paths at which it is served.
pub(super) struct Document {
    url: String,
    paths: [String; 3],
    body: Bytes,
}

impl Document {
    pub fn new(resource: &Address, settings: &AuthSettings, name: &str) -> Self {
        let root = format!("/.well-known/{NAME}");
        // Behind a proxy, the endpoint may have a different path.
        let outside = format!("{root}{}", resource.path().trim_end_matches('/'));
        let scopes: BTreeSet<_> = settings.scopes.iter().chain(&settings.required_scopes).collect();
        let issuers: Vec<_> = settings.issuers.iter().map(|issuer| issuer.issuer.as_str()).collect();
        let mut body = json!({
            "resource": resource.as_str(),
            "authorization_servers": issuers,
            "bearer_methods_supported": ["header"],
            "resource_name": name,
        });
        if !scopes.is_empty() {
            body["scopes_supported"] = json!(scopes);
        }
        Self {
            url: resource.well_known(NAME),
            paths: [format!("{root}/mcp"), root, outside],
            body: body.to_string().into(),
        }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// The document, if it is served at `path`.
    pub fn at(&self, path: &str) -> Option<Bytes> {
        self.paths.iter().any(|place| place == path).then(|| self.body.clone())
    }
}
