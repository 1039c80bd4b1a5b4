//! The operator's settings of the transports. Their defaults, units and descriptions are in the host's table
//! of limits; this module has only the values.

use std::time::Duration;

/// The settings of the transports.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The largest message, in bytes: an HTTP body or a line on stdin.
    pub message_bytes: usize,
    /// The most connections at once; further ones wait a moment and are then refused.
    pub connections: usize,
    /// How long a client may take to send the head of a request.
    pub head_time: Duration,
    /// How long a client may take to send a body.
    pub body_time: Duration,
    /// How long a client may leave sent data unread.
    pub write_time: Duration,
    /// The most resources that one session may subscribe to; also the most resources and tasks together in
    /// one `subscriptions/listen`.
    pub subscriptions: usize,
    /// How long clients may cache a list (26C-5).
    pub cache: Duration,
    /// The most requests of one session that run at once.
    pub requests_per_session: usize,
    /// The time after which a call is answered as a stream of events.
    pub stream_after: Duration,
    /// The interval of the comments that keep a silent stream open.
    pub keep_alive: Duration,
}
