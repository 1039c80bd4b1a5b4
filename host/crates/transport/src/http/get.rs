//! GET: a stream for messages that belong to no request, or the rest of a broken stream (H-19, H-28).

use super::endpoint::{Endpoint, HttpCaller, check_accept};
use super::reply::{self, RefusalReply, Reply};
use super::session_registry::{LiveSession, StreamPurpose};
use super::sse::{self, EventFormat, EventId};
use crate::Server;
use http::{HeaderMap, StatusCode};
use toolyard_dispatch::Operation;
use toolyard_protocol::RpcError;

impl Endpoint {
    pub(super) async fn get(&self, headers: &HeaderMap, by: &HttpCaller) -> Result<Reply, RefusalReply> {
        check_accept(headers, &[("text", "event-stream")])?;
        let session = self.session(headers, by).await?;
        let manner = manner(&self.server, &session);
        let Some(last) = headers.get("last-event-id") else {
            let stream = self.registry.stream(&session);
            session.keep(&stream, StreamPurpose::Standalone);
            let events = sse::events(&stream, 0, manner);
            self.server.dispatch.offer_parked(&session.session);
            return Ok(reply::events(events));
        };
        let id = last.to_str().ok().and_then(EventId::parse);
        let found = id
            .and_then(|id| session.find(id).filter(|stream| stream.continues_after(id.number)).zip(Some(id)));
        let Some((stream, id)) = found else {
            self.count(&by.key, Operation::FailedLookup)?;
            // H-29: not 404, which would end the session.
            let error = RpcError::invalid_request(
                "Bad request: Last-Event-ID names no event of this session that is still kept",
            );
            return Err(reply::refuse(StatusCode::BAD_REQUEST, &error).into());
        };
        Ok(reply::events(sse::events(&stream, id.number, EventFormat { priming: false, ..manner })))
    }
}

/// How the host writes streams to a client of this session.
pub(super) fn manner(server: &Server, session: &LiveSession) -> EventFormat {
    EventFormat {
        priming: session.client.revision.has_priming_event(),
        keep_alive: server.settings.keep_alive,
    }
}
