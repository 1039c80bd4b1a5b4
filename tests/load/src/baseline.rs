//! The comparison: the same hyper server, set up like `toolyard serve`. It decodes the request and answers
//! with a result of the same form by serde_json, and runs no guest. The difference is the cost of the host.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};
use std::io::Write as _;
use std::time::Duration;
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};

/// Serves until stdin ends, which happens when the parent process ends.
pub fn serve() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let done = runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        // The same message as `toolyard serve`, so that the load generator waits for both alike.
        writeln!(std::io::stderr(), "baseline serves http://{}/mcp", listener.local_addr()?)?;
        tokio::select! {
            done = accept(listener) => done,
            () = orphaned() => Ok(()),
        }
    });
    runtime.shutdown_background();
    done
}

async fn orphaned() {
    let mut input = [0; 64];
    while matches!(tokio::io::stdin().read(&mut input).await, Ok(count) if count > 0) {}
}

async fn accept(listener: TcpListener) -> anyhow::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(connection(stream));
    }
}

async fn connection(stream: TcpStream) {
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_secs(15))
        .max_headers(100)
        .max_buf_size(64 * 1024)
        .serve_connection(TokioIo::new(stream), service_fn(answer));
    // It ends when the client disconnects.
    drop(connection.await);
}

async fn answer(request: Request<Incoming>) -> hyper::Result<Response<Full<Bytes>>> {
    let body = request.into_body().collect().await?.to_bytes();
    let (status, text) = match serde_json::from_slice::<Value>(&body).ok().as_ref().and_then(result) {
        Some(text) => (StatusCode::OK, text),
        None => (StatusCode::BAD_REQUEST, Vec::new()),
    };
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static("application/json"));
    Ok(response)
}

fn result(request: &Value) -> Option<Vec<u8>> {
    let arguments = &request["params"]["arguments"];
    let sum = arguments["a"].as_f64()? + arguments["b"].as_f64()?;
    let answer = json!({
        "jsonrpc": "2.0",
        "id": request["id"],
        "result": {"content": [{"type": "text", "text": sum.to_string()}], "isError": false},
    });
    serde_json::to_vec(&answer).ok()
}
