//! Stateless requests (2026-07-28): the rule that distinguishes them from requests of sessions, their
//! subscriptions and their notifications. HTTP and stdio share this.
//!
//! Nothing is kept between requests. A transport keeps the state of a running request, and the store keeps
//! tasks, which outlive a request.

mod listen;
mod request_channel;

pub(crate) use listen::Subscription;
pub(crate) use request_channel::RequestChannel;

use toolyard_protocol::stateless::VERSION;
use toolyard_protocol::stateless::claim::{self, ClaimedParams, VersionClaim};
use toolyard_protocol::{DecodeError, Message, Method, RawJson, RpcError};

/// The version that a request claims (26B). `initialize` opens a session unless it has a
/// whole envelope of this revision; any other request that names a version is one of this revision, even if
/// the version is wrong.
pub(crate) fn claim_of(method: &Method, params: Option<&RawJson>) -> ClaimedParams {
    let claimed = ClaimedParams::by(method, params);
    if *method != Method::Initialize {
        return claimed;
    }
    match &claimed.claim {
        VersionClaim::Version(version) if version == VERSION && claimed.is_whole(params) => claimed,
        _ => ClaimedParams::NONE,
    }
}

/// Whether a member of a batch claims to be of this revision, which has no batches.
pub(crate) fn is_among(members: &[Result<Message, DecodeError>]) -> bool {
    members.iter().any(|member| match member {
        Ok(Message::Request { method, params, .. }) => {
            claim_of(method, params.as_ref()).claim != VersionClaim::None
        }
        Ok(Message::Notification { params, .. }) => claim::claim(params.as_ref()) != VersionClaim::None,
        Ok(Message::Response { .. }) | Err(_) => false,
    })
}

/// The error for such a batch.
pub(crate) fn batched() -> RpcError {
    RpcError::invalid_request("batches belong to 2025-03-26: send one message")
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}"#;

    fn claim(method: &str, params: &str) -> VersionClaim {
        claim_of(&Method::from(method), Some(&RawJson::parse(params.to_owned()).expect("test JSON"))).claim
    }

    #[test]
    fn t_26b_1_initialize_opens_a_session_unless_its_envelope_is_whole() {
        let stateless = VersionClaim::Version(VERSION.to_owned());
        assert_eq!(claim("initialize", WHOLE), stateless, "26B: so it is an unknown method");
        assert_eq!(claim("tools/list", WHOLE), stateless);
        let without_capabilities = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#;
        assert_eq!(claim("initialize", without_capabilities), VersionClaim::None);
        assert_eq!(claim("tools/list", without_capabilities), stateless, "never falls back silently");
        let older = WHOLE.replace("2026-07-28", "2025-11-25");
        assert_eq!(claim("initialize", &older), VersionClaim::None);
        assert_eq!(claim("tools/list", &older), VersionClaim::Version("2025-11-25".to_owned()), "26D-5");
        let number = WHOLE.replace("\"2026-07-28\"", "5");
        assert_eq!(claim("initialize", &number), VersionClaim::None);
        assert_eq!(claim("tools/list", &number), VersionClaim::Malformed);
        assert_eq!(claim("tools/list", "{}"), VersionClaim::None);
        assert_eq!(claim_of(&Method::Ping, None).claim, VersionClaim::None);
    }
}
