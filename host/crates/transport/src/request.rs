//! A request of either generation: everything that its method needs, and the form of its answer.

use crate::failure::Failure;
use crate::server::Server;
use crate::session::ClientSession;
use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use toolyard_dispatch::{BridgeTerms, Caller, Principal, RateKey};
use toolyard_protocol::method::{Capability, Generation};
use toolyard_protocol::stateless::VERSION;
use toolyard_protocol::stateless::claim::{ClaimedParams, VersionClaim};
use toolyard_protocol::stateless::envelope::Envelope;
use toolyard_protocol::stateless::error::unsupported_version;
use toolyard_protocol::stateless::headers::name_of;
use toolyard_protocol::stateless::input::{Retry, call_params};
use toolyard_protocol::tools::CallParams;
use toolyard_protocol::{Id, LogLevel, Method, RawJson, RpcError, TraceContext};

/// A request as received.
pub(crate) struct RequestMessage {
    pub id: Id,
    pub method: Method,
    pub params: Option<RawJson>,
    /// The trace from the HTTP headers; a trace in the params takes precedence.
    pub trace: Option<TraceContext>,
}

/// The sender of a request, as authenticated by the transport.
#[derive(Clone)]
pub(crate) struct Sender {
    pub principal: Arc<Principal>,
    /// The key of the sender's rate limits.
    pub key: RateKey,
    /// The address of the sender; `None` for the user of this process, over stdio or its own socket.
    pub peer: Option<IpAddr>,
}

/// The session or the envelope of a request, which determines its generation.
pub(crate) enum Origin {
    /// Of a session.
    Session(Arc<ClientSession>),
    /// Stateless: its `_meta` contains everything that a session would hold.
    Envelope(Envelope),
}

/// A request.
pub(crate) struct Request {
    pub server: Arc<Server>,
    pub caller: Arc<Caller>,
    pub key: RateKey,
    pub id: Id,
    pub method: Method,
    pub params: Option<RawJson>,
    pub trace: Option<TraceContext>,
    pub origin: Origin,
    /// How the bridge serves the client of a stateless request.
    bridge: Option<BridgeTerms>,
    /// The params of `tools/call`, if that is the method: they are parsed before the call runs.
    pub call: Option<Result<(CallParams, Retry), RpcError>>,
}

/// The form in which an answer may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerForm {
    /// At once, as one object.
    Plain,
    /// The answer may take long, and notices may precede it.
    MayStream,
    /// Always as a stream (H-18).
    Stream,
}

impl Request {
    /// A request of a session. In a box like a stateless one, because it is moved from future to future.
    pub fn of_session(
        server: &Arc<Server>,
        message: RequestMessage,
        client: &Arc<ClientSession>,
        caller: Arc<Caller>,
        key: RateKey,
    ) -> Box<Self> {
        let RequestMessage { id, method, params, trace } = message;
        let call = (method == Method::ToolsCall)
            .then(|| CallParams::decode(params.as_ref()).map(|call| (call, Retry::default())));
        let (server, origin) = (server.clone(), Origin::Session(client.clone()));
        Box::new(Self { server, caller, key, id, method, params, trace, origin, bridge: None, call })
    }

    /// A stateless request of this sender; over HTTP, with its `User-Agent`. Parses its envelope, and then the version in it (26R-2, 26R-3).
    ///
    /// # Errors
    /// `-32602`, `-32022`.
    pub fn stateless(
        server: &Arc<Server>,
        message: RequestMessage,
        claimed: ClaimedParams,
        sender: &Sender,
        agent: Option<&str>,
    ) -> Result<Box<Self>, Failure> {
        let RequestMessage { id, method, params, trace } = message;
        let spoken = match &claimed.claim {
            VersionClaim::Version(version) if version == VERSION => Ok(()),
            VersionClaim::Version(version) => Err(unsupported_version(version)),
            VersionClaim::None | VersionClaim::Malformed => {
                Err(RpcError::invalid_params("`_meta` names no version"))
            }
        };
        let opened = claimed.open(params.as_ref()).and_then(|opened| spoken.map(|()| opened));
        let (envelope, call) = opened.map_err(Failure::BadRequest)?;
        // Only for the log: a name never decides anything (26R-5).
        tracing::trace!(%method, client = ?envelope.client(), "a request that stands alone");
        let call = match call {
            Some(call) => Some(Ok(call)),
            None => (method == Method::ToolsCall).then(|| call_params(params.as_ref())),
        };
        let caller = Caller::stateless(sender.principal.clone(), sender.peer, envelope.capabilities.clone());
        let (server, caller, key) = (server.clone(), Arc::new(caller), sender.key.clone());
        let bridge = server.dispatch.settings().bridge.as_ref().filter(|_| !envelope.tasks);
        let bridge = bridge.map(|bridge| bridge.terms(agent));
        let origin = Origin::Envelope(envelope);
        Ok(Box::new(Self { server, caller, key, id, method, params, trace, origin, bridge, call }))
    }

    pub const fn generation(&self) -> Generation {
        match self.origin {
            Origin::Session(_) => Generation::Sessions,
            Origin::Envelope(_) => Generation::Stateless,
        }
    }

    /// How the bridge serves its client; `None` if the client knows tasks, or nothing is handed off.
    pub fn bridge(&self) -> Option<BridgeTerms> {
        match &self.origin {
            Origin::Session(client) => client.bridge(),
            Origin::Envelope(_) => self.bridge,
        }
    }

    /// Whether its client can be given tasks (T-2, 26T-1).
    pub fn has_tasks(&self) -> bool {
        match &self.origin {
            Origin::Session(client) => client.revision.has_tasks(),
            Origin::Envelope(envelope) => envelope.tasks,
        }
    }

    /// The least serious level of log messages that it wants on its own stream (26C-4).
    pub const fn log_level(&self) -> Option<LogLevel> {
        match &self.origin {
            Origin::Session(_) => None,
            Origin::Envelope(envelope) => envelope.log_level,
        }
    }

    /// The value that `Mcp-Name` must have; `None` if the body names nothing (26H-7).
    pub fn name(&self) -> Option<Cow<'_, str>> {
        match &self.call {
            Some(Ok((call, _))) => Some(Cow::Borrowed(&call.name)),
            _ => name_of(&self.method, self.params.as_ref()).map(Cow::Owned),
        }
    }

    /// Whether its method is about tasks.
    pub fn is_of_tasks(&self) -> bool {
        self.method.capability() == Some(Capability::Tasks)
    }

    /// Whether it calls a tool of the host, with which a client without tasks asks about its own tasks.
    pub fn is_host_tool(&self) -> bool {
        matches!(&self.call, Some(Ok((call, _))) if self.server.dispatch.is_host_tool(&call.name))
    }

    /// Whether a plugin runs for it without changing anything, so that the run ends when its client leaves.
    pub const fn only_reads(&self) -> bool {
        matches!(
            self.method,
            Method::ResourcesList
                | Method::ResourcesTemplatesList
                | Method::ResourcesRead
                | Method::PromptsGet
                | Method::CompletionComplete
        )
    }

    /// The form in which its answer is sent.
    pub fn answer_form(&self) -> AnswerForm {
        match self.method {
            Method::TasksResult => AnswerForm::Stream,
            Method::ToolsCall => AnswerForm::MayStream,
            _ if self.only_reads() => AnswerForm::MayStream,
            _ => AnswerForm::Plain,
        }
    }
}
