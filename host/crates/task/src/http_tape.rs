//! Recorded HTTP exchanges of a run: the port by which a client within this process answers the HTTP
//! requests of a guest, or records how the network answered them.

use std::sync::Arc;

/// The largest recorded body of a request or an answer, in bytes.
pub const MAX_TAPE_BODY: usize = 64 << 10;

/// The recorded exchanges of one run. An engine consults it about each HTTP request that the grants and
/// limits of the run allow. Secrets are redacted in everything that it gets.
pub trait HttpTape: Send + Sync + 'static {
    /// How the engine answers this request.
    fn answer(&self, request: &TapeRequest<'_>) -> TapeAnswer;

    /// Accepts an exchange that has just begun, after [`TapeAnswer::Record`].
    fn record(&self, exchange: Arc<dyn TapeEntry>);

    /// Whether the run may use raw sockets, which are not recorded.
    fn allows_sockets(&self) -> bool;
}

/// A request of a guest.
#[derive(Debug, Clone, Copy)]
pub struct TapeRequest<'a> {
    /// The method of the request.
    pub method: &'a str,
    /// The whole URL of the request.
    pub url: &'a str,
    /// The whole body of the request.
    pub body: &'a [u8],
}

/// The decision about a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TapeAnswer {
    /// The run gets this response; nothing is sent.
    Response(TapeResponse),
    /// The request fails with the `error-code` of `wasi:http` of this name.
    Fail(&'static str),
    /// The host sends the request.
    Send,
    /// The host sends the request, and the tape gets the exchange.
    Record,
    /// The request fails, for this reason.
    Refuse(String),
}

/// A recorded response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TapeResponse {
    /// The status of the response.
    pub status: u16,
    /// The headers of the response, in order; a name may occur more than once.
    pub headers: Vec<(String, String)>,
    /// The body of the response.
    pub body: Vec<u8>,
}

/// An exchange with the network that is being recorded.
pub trait TapeEntry: Send + Sync {
    /// The exchange as far as it has gone.
    fn exchange(&self) -> TapeExchange;
}

/// An exchange with the network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TapeExchange {
    /// The method of the request.
    pub method: String,
    /// The whole URL.
    pub url: String,
    /// The body of the request.
    pub body: Vec<u8>,
    /// The answer.
    pub outcome: TapeOutcome,
}

/// How the network answered a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TapeOutcome {
    /// With a response, whose body has what the guest has read of it.
    Response(TapeResponse),
    /// With the `error-code` of `wasi:http` of this name, before a response.
    Failed(&'static str),
    /// In a way that cannot be recorded, for this reason.
    NotRecordable(String),
}
