//! A client at the other end of pipes.

use serde_json::Value;
use std::io::{BufRead as _, BufReader, PipeReader, PipeWriter, Write};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

/// The client.
pub struct Client {
    input: Option<PipeWriter>,
    lines: mpsc::Receiver<String>,
    _stop: DropGuard,
    serving: JoinHandle<()>,
}

/// A client of the server that serves these pipes until the stop.
pub fn client<F, S>(serve: F) -> Client
where
    F: FnOnce(BufReader<PipeReader>, PipeWriter, CancellationToken) -> S,
    S: Future<Output = ()> + Send + 'static,
{
    let (output, written) = std::io::pipe().expect("a pipe");
    let (input, given) = std::io::pipe().expect("a pipe");
    let stop = CancellationToken::new();
    let serving = tokio::spawn(serve(BufReader::new(input), written, stop.clone()));
    let (sender, lines) = mpsc::channel(100);
    std::thread::spawn(move || {
        let lines = BufReader::new(output).lines().map_while(Result::ok);
        lines.for_each(|line| drop(sender.blocking_send(line)));
    });
    Client { input: Some(given), lines, _stop: stop.drop_guard(), serving }
}

impl Client {
    pub fn send(&mut self, message: &Value) {
        let input = self.input.as_mut().expect("still open");
        writeln!(input, "{message}").expect("the server reads");
    }

    pub async fn next(&mut self) -> Option<Value> {
        let line = self.lines.recv().await?;
        Some(serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}")))
    }

    /// Sends a message; the next message must be its answer.
    pub async fn answer(&mut self, message: &Value) -> Value {
        self.send(message);
        let answer = self.next().await.expect("an answer");
        assert_eq!(answer["id"], message["id"], "{answer}");
        answer
    }

    /// The next message of this method.
    pub async fn told(&mut self, method: &str) -> Value {
        self.first(|message| message["method"] == method).await
    }

    /// Sends a message and returns its answer; ignores earlier messages.
    pub async fn answered_to(&mut self, message: &Value) -> Value {
        self.send(message);
        self.first(|next| next["id"] == message["id"] && next.get("method").is_none()).await
    }

    async fn first(&mut self, is_wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let next = self.next().await.expect("a message");
            if is_wanted(&next) {
                return next;
            }
        }
    }

    /// Closes the input, and returns the remaining messages.
    pub async fn finish(mut self) -> Vec<Value> {
        drop(self.input.take());
        let mut rest = Vec::new();
        while let Some(message) = self.next().await {
            rest.push(message);
        }
        self.serving.await.expect("the server ends well");
        rest
    }
}
