//! Sends an HTTP request on a connection of its own, to a server near by.

use bytes::Bytes;
use http::header::HOST;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use std::error::Error;
use tokio::net::TcpStream;

/// Sends a request, without TLS, to the server that its address names. Reads at most `most` bytes of the answer.
///
/// # Errors
/// If the server cannot be reached, or its answer is not valid or too large.
pub async fn send(
    mut request: Request<Bytes>,
    most: usize,
) -> Result<Response<Bytes>, Box<dyn Error + Send + Sync>> {
    let authority = request.uri().authority().ok_or("the address names no host")?.clone();
    let host = authority.host().trim_matches(['[', ']']).to_owned();
    let stream = TcpStream::connect((host, authority.port_u16().unwrap_or(80))).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    request.headers_mut().insert(HOST, authority.as_str().parse()?);
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str()).parse()?;
    *request.uri_mut() = path;
    let exchange = async move {
        let (head, body) = sender.send_request(request.map(Full::new)).await?.into_parts();
        let body = Limited::new(body, most).collect().await?.to_bytes();
        Ok(Response::from_parts(head, body))
    };
    // Ends with the exchange, which drops the sender.
    let (answer, _) = tokio::join!(exchange, connection);
    answer
}
