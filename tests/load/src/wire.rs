//! A minimal HTTP/1.1 client: a request is a block of bytes in which a few digits are rewritten, and an
//! answer is parsed only as far as necessary to find its end. The load generator shares the cores with the
//! server, so its work would slow the server down.

use anyhow::{Context as _, bail, ensure};
use std::ops::Range;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The number of digits in the ids of requests, so that a request keeps its length.
const ID_DIGITS: usize = 15;
const FIRST_ID: u64 = 100_000_000_000_000;
/// The number of ids for one connection; no two requests of a session have the same id.
const IDS_PER_CONNECTION: u64 = 1_000_000_000;
/// The placeholder for the id of a task.
const NO_TASK: &str = "00000000-0000-4000-8000-000000000000";

/// A request that is sent repeatedly.
#[derive(Debug, Clone)]
pub struct Template {
    bytes: Vec<u8>,
    id: Range<usize>,
    task: Option<Range<usize>>,
    next: u64,
}

impl Template {
    /// A request of this method with these headers; `params` is JSON.
    #[must_use]
    pub fn new(headers: &[(&str, &str)], method: &str, params: &str) -> Self {
        let before = "{\"jsonrpc\":\"2.0\",\"id\":";
        let body = format!("{before}{FIRST_ID},\"method\":\"{method}\",\"params\":{params}}}");
        let mut head = "POST /mcp HTTP/1.1\r\nhost: localhost\r\n".to_owned();
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
        let id = head.len() + before.len();
        let text = head + &body;
        let task = text.find(NO_TASK).map(|start| start..start + NO_TASK.len());
        Self { bytes: text.into_bytes(), id: id..id + ID_DIGITS, task, next: FIRST_ID }
    }

    /// Like [`Template::new`], for a task that is set later.
    #[must_use]
    pub fn about_task(headers: &[(&str, &str)], method: &str) -> Self {
        Self::new(headers, method, &format!("{{\"taskId\":\"{NO_TASK}\"}}"))
    }

    /// The template for the connection with this number, which has its own ids.
    #[must_use]
    pub fn for_connection(&self, number: usize) -> Self {
        Self { next: FIRST_ID + number as u64 * IDS_PER_CONNECTION, ..self.clone() }
    }

    /// The request with an unused id.
    pub fn next(&mut self) -> &[u8] {
        self.next += 1;
        let mut rest = self.next;
        for digit in self.bytes[self.id.clone()].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        &self.bytes
    }

    /// Sets the id of the task.
    pub fn set_task(&mut self, id: &[u8]) -> anyhow::Result<()> {
        let place = self.task.clone().context("a request about a task")?;
        ensure!(id.len() == place.len(), "the id of a task has {} bytes", place.len());
        self.bytes[place].copy_from_slice(id);
        Ok(())
    }

    /// The digits of the last id.
    fn id(&self) -> &[u8] {
        &self.bytes[self.id.clone()]
    }
}

/// A kept-alive connection.
pub struct Wire {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// How an answer ends.
enum Length {
    Known(usize),
    Chunked,
}

impl Wire {
    /// Connects to a port of this machine.
    pub async fn open(port: u16) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(16 << 10) })
    }

    /// Sends a request and returns the raw body of its answer; a chunked body includes the lengths of its
    /// chunks.
    pub async fn ask(&mut self, template: &mut Template) -> anyhow::Result<&[u8]> {
        self.stream.write_all(template.next()).await?;
        self.buffer.clear();
        let mut head = None;
        let body = loop {
            let read = self.stream.read_buf(&mut self.buffer).await?;
            ensure!(read > 0, "the server closed the connection");
            if head.is_none() {
                head = parse_head(&self.buffer)?;
            }
            match &head {
                Some((start, Length::Known(length))) if self.buffer.len() >= start + length => {
                    ensure!(self.buffer.len() == start + length, "more than one answer");
                    break *start;
                }
                Some((start, Length::Chunked)) if is_whole(&self.buffer[*start..])? => break *start,
                _ => {}
            }
        };
        let body = &self.buffer[body..];
        ensure!(contains(body, template.id()), "an answer to another request: {}", text(body));
        Ok(body)
    }
}

/// The offset of the body and its end; `None` if the head is incomplete.
fn parse_head(bytes: &[u8]) -> anyhow::Result<Option<(usize, Length)>> {
    let Some(end) = find(bytes, b"\r\n\r\n") else { return Ok(None) };
    let head = std::str::from_utf8(&bytes[..end])?;
    ensure!(head.starts_with("HTTP/1.1 200 "), "refused: {}", text(bytes));
    for line in head.split("\r\n").skip(1) {
        let Some((name, value)) = line.split_once(": ") else { continue };
        if name.eq_ignore_ascii_case("content-length") {
            return Ok(Some((end + 4, Length::Known(value.parse()?))));
        }
        if name.eq_ignore_ascii_case("transfer-encoding") {
            return Ok(Some((end + 4, Length::Chunked)));
        }
    }
    bail!("an answer without a length: {head}")
}

/// Whether a chunked body is complete.
fn is_whole(mut body: &[u8]) -> anyhow::Result<bool> {
    while let Some(end) = find(body, b"\r\n") {
        let length = usize::from_str_radix(std::str::from_utf8(&body[..end])?, 16)?;
        if length == 0 {
            return Ok(body.len() >= end + 4);
        }
        match body.get(end + 2 + length + 2..) {
            Some(rest) => body = rest,
            None => return Ok(false),
        }
    }
    Ok(false)
}

/// The offset of `part`.
fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    let first = *part.first()?;
    let mut from = 0;
    loop {
        from += bytes.get(from..)?.iter().position(|byte| *byte == first)?;
        if bytes[from..].starts_with(part) {
            return Some(from);
        }
        from += 1;
    }
}

/// Whether `bytes` contains `part`.
pub fn contains(bytes: &[u8], part: &[u8]) -> bool {
    find(bytes, part).is_some()
}

/// The task id in an answer.
pub fn task_id(body: &[u8]) -> anyhow::Result<&[u8]> {
    const KEY: &[u8] = b"\"taskId\":\"";
    let start = find(body, KEY).with_context(|| format!("no task: {}", text(body)))? + KEY.len();
    body.get(start..start + NO_TASK.len()).context("the id of a task is a UUID")
}

/// The beginning of an answer, for error messages.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(600)]).into_owned()
}
