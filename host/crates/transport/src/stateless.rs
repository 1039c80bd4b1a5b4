//! Requests that each stand alone (2026-07-28): told from those of sessions, taken
//! in with what they say of themselves, and answered. HTTP and stdio share this.
//!
//! What may not live here: anything remembered from one request for the next. What
//! a transport must know of a request under way (how to stop it, where it is
//! answered) the transport keeps; what outlives a request is a task, in the store.

mod answer;
mod listen;
mod methods;
mod outlet;
mod tasks;

pub(crate) use answer::{Answer, Status, Wrong};
pub(crate) use listen::Subscription;
pub(crate) use methods::answer;
pub(crate) use outlet::OwnOutlet;

use crate::Server;
use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use toolyard_dispatch::{Caller, Principal, RateKey};
use toolyard_protocol::method::{Capability, Generation};
use toolyard_protocol::stateless::VERSION;
use toolyard_protocol::stateless::envelope::{self, Claim, Claimed, Envelope};
use toolyard_protocol::stateless::error::{tasks_required, unsupported_version};
use toolyard_protocol::stateless::headers::name_of;
use toolyard_protocol::stateless::input::{Retry, call_params};
use toolyard_protocol::tools::CallParams;
use toolyard_protocol::{DecodeError, Id, Message, Method, RawJson, RpcError, TraceContext};

/// Ourselves, as every result shows us: rendered once.
#[derive(Debug, Default)]
pub struct Presented(OnceLock<RawJson>);

impl Server {
    /// Ourselves, as every result shows us (26J-5).
    pub(crate) fn presented(&self) -> &RawJson {
        self.presented.0.get_or_init(|| RawJson::of(&self.identity.info))
    }
}

/// What a request claims to be (26B). `initialize` opens a session unless it has a
/// whole envelope of this revision; any other request that names a version means
/// this revision, even if it means it wrongly.
pub(crate) fn claim_of(method: &Method, params: Option<&RawJson>) -> Claimed {
    let claimed = Claimed::by(method, params);
    if *method != Method::Initialize {
        return claimed;
    }
    match &claimed.claim {
        Claim::Version(version) if version == VERSION && claimed.is_whole(params) => claimed,
        _ => Claimed::NONE,
    }
}

/// Whether a member of a batch claims to be of this revision, which has none.
pub(crate) fn is_among(members: &[Result<Message, DecodeError>]) -> bool {
    members.iter().any(|member| match member {
        Ok(Message::Request { method, params, .. }) => claim_of(method, params.as_ref()).claim != Claim::None,
        Ok(Message::Notification { params, .. }) => envelope::claim(params.as_ref()) != Claim::None,
        Ok(Message::Response { .. }) | Err(_) => false,
    })
}

/// The error for such a batch.
pub(crate) fn batched() -> RpcError {
    RpcError::invalid_request("batches are not part of this protocol revision: send one message")
}

/// Who makes a request, as the transport found out.
pub(crate) struct Sender {
    pub principal: Arc<Principal>,
    /// The address that it comes from, over HTTP.
    pub peer: Option<IpAddr>,
    /// Whose operations it is counted with.
    pub key: RateKey,
}

/// A request as it came.
pub(crate) struct Received {
    pub id: Id,
    pub method: Method,
    pub params: Option<RawJson>,
    /// The trace that the transport was told of; what the params say comes first.
    pub trace: Option<TraceContext>,
}

/// A request with all that it says of itself.
pub(crate) struct Request {
    pub server: Arc<Server>,
    pub caller: Arc<Caller>,
    pub key: RateKey,
    pub id: Id,
    pub method: Method,
    pub params: Option<RawJson>,
    pub envelope: Envelope,
    pub trace: Option<TraceContext>,
    /// The params of `tools/call`, if it is that: they are looked at before it is done.
    pub call: Option<Result<(CallParams, Retry), RpcError>>,
}

impl Request {
    /// The request of this sender, whose envelope is read, and then the version in it
    /// (26R-2, 26R-3). In a box: it is handed from future to future.
    ///
    /// # Errors
    /// `-32602`, `-32022`.
    pub fn open(
        server: &Arc<Server>,
        received: Received,
        claimed: Claimed,
        sender: &Sender,
    ) -> Result<Box<Self>, Wrong> {
        let Received { id, method, params, trace } = received;
        let spoken = match &claimed.claim {
            Claim::Version(version) if version == VERSION => Ok(()),
            Claim::Version(version) => Err(unsupported_version(version)),
            Claim::None | Claim::Malformed => Err(RpcError::invalid_params("`_meta` names no version")),
        };
        let opened = claimed.open(params.as_ref()).and_then(|opened| spoken.map(|()| opened));
        let (envelope, call) = opened.map_err(|error| Wrong::bad_request(server, error))?;
        // For the log alone: a name never decides anything (26R-5).
        tracing::trace!(%method, client = ?envelope.client(), "a request that stands alone");
        let call = match call {
            Some(call) => Some(Ok(call)),
            None => (method == Method::ToolsCall).then(|| call_params(params.as_ref())),
        };
        let caller = Caller::stateless(sender.principal.clone(), sender.peer, envelope.capabilities.clone());
        Ok(Box::new(Self {
            server: server.clone(),
            caller: Arc::new(caller),
            key: sender.key.clone(),
            id,
            method,
            params,
            envelope,
            trace,
            call,
        }))
    }

    /// What `Mcp-Name` has to say for it; `None` where the body does not say it either
    /// (26H-7).
    pub fn name(&self) -> Option<Cow<'_, str>> {
        match &self.call {
            Some(Ok((call, _))) => Some(Cow::Borrowed(&call.name)),
            _ => name_of(&self.method, self.params.as_ref()).map(Cow::Owned),
        }
    }

    /// Whether the method exists, and this request may use it (26J-8, 26T-6).
    ///
    /// # Errors
    /// `-32601`, `-32021`.
    pub fn admit(&self) -> Result<(), Wrong> {
        let dispatch = &self.server.dispatch;
        let tasks = dispatch.settings().tasks;
        if !self.method.is_offered(Generation::Stateless, tasks, || dispatch.offers()) {
            return Err(Wrong::no_such_method(&self.server, &self.method));
        }
        let of_tasks = self.method.capability() == Some(Capability::Tasks);
        if of_tasks && !self.envelope.tasks && !self.may_see_to_tasks_of_sessions() {
            return Err(Wrong::bad_request(&self.server, tasks_required()));
        }
        Ok(())
    }

    /// A client that has tasks as sessions have them may go on to look after those
    /// that it created in one (26T-6).
    fn may_see_to_tasks_of_sessions(&self) -> bool {
        self.envelope.session_tasks && matches!(self.method, Method::TasksGet | Method::TasksCancel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}"#;

    fn claim(method: &str, params: &str) -> Claim {
        claim_of(&Method::from(method), Some(&RawJson::parse(params.to_owned()).expect("test JSON"))).claim
    }

    #[test]
    fn t_26b_1_initialize_opens_a_session_unless_its_envelope_is_whole() {
        let stateless = Claim::Version(VERSION.to_owned());
        assert_eq!(claim("initialize", WHOLE), stateless, "26B: so it is an unknown method");
        assert_eq!(claim("tools/list", WHOLE), stateless);
        let without_capabilities = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#;
        assert_eq!(claim("initialize", without_capabilities), Claim::None);
        assert_eq!(claim("tools/list", without_capabilities), stateless, "never falls back silently");
        let older = WHOLE.replace("2026-07-28", "2025-11-25");
        assert_eq!(claim("initialize", &older), Claim::None);
        assert_eq!(claim("tools/list", &older), Claim::Version("2025-11-25".to_owned()), "26D-5");
        let number = WHOLE.replace("\"2026-07-28\"", "5");
        assert_eq!(claim("initialize", &number), Claim::None);
        assert_eq!(claim("tools/list", &number), Claim::Malformed);
        assert_eq!(claim("tools/list", "{}"), Claim::None);
        assert_eq!(claim_of(&Method::Ping, None).claim, Claim::None);
    }
}
