//! The tapes of a call: a case answers its requests from its entries, and `toolyard call --record` records
//! them.

use crate::compare::{Mismatch, compare_value};
use crate::http_entry::{Exchange, HttpEntry, MAX_BODY, RequestLine, entry};
use parking_lot::Mutex;
use toolyard_dispatch::{HttpTape, ResponseOutcome, TapeAnswer, TapeRequest};

/// The most different requests without an entry that a case reports.
const MAX_REPORTED: usize = 16;

/// Answers the requests of one case from its entries, each used once.
pub struct CaseTape {
    tool: String,
    /// Whether requests without an entry, and raw sockets, use the network.
    has_network: bool,
    state: Mutex<State>,
}

struct State {
    /// The entries; `None` where one was used.
    entries: Vec<Option<HttpEntry>>,
    /// The requests without an entry.
    missing: Vec<(RequestLine, Mismatch)>,
}

impl CaseTape {
    /// A tape with these entries for a case of this tool.
    pub fn new(tool: &str, entries: &[HttpEntry], has_network: bool) -> Self {
        let entries = entries.iter().cloned().map(Some).collect();
        let state = Mutex::new(State { entries, missing: Vec::new() });
        Self { tool: tool.to_owned(), has_network, state }
    }

    /// Whether a request had no entry.
    pub fn has_missing(&self) -> bool {
        !self.state.lock().missing.is_empty()
    }

    /// The requests without an entry, and the entries without a request.
    pub fn mismatches(&self) -> Vec<Mismatch> {
        let state = self.state.lock();
        // An entry whose body differs is reported with its request.
        let is_reported = |line: &RequestLine| state.missing.iter().any(|(missing, _)| missing == line);
        let unused = state.entries.iter().flatten().map(|entry| &entry.request);
        let unused = unused.filter(|line| !is_reported(line)).map(|line| {
            Mismatch::said("http", format!("the tool did not make the request of this entry: {line}"))
        });
        state.missing.iter().map(|(_, mismatch)| mismatch.clone()).chain(unused).collect()
    }

    /// The difference between a request and the entries with its method and URL.
    fn missing(&self, line: &RequestLine, body: &[u8], entries: &[Option<HttpEntry>]) -> Mismatch {
        let mut same_line = entries.iter().flatten().filter(|entry| entry.request == *line);
        let expected = same_line.find_map(|entry| entry.body.as_ref());
        let what = format!("the body of this request is another: {line}");
        let differs = expected
            .and_then(|expected| compare_value("http", &what, &expected.shown(), &expected.shown_like(body)));
        differs.unwrap_or_else(|| {
            let tool = &self.tool;
            let what = format!(
                "there is no entry [[http]] for this request: {line}\n`toolyard call {tool} … --record \
                 NEW.case.toml` records its answer; `toolyard test --network` sends it"
            );
            Mismatch::said("http", what)
        })
    }
}

impl HttpTape for CaseTape {
    fn answer(&self, request: &TapeRequest<'_>) -> TapeAnswer {
        let line = RequestLine::of(request);
        let fits = |entry: &HttpEntry| {
            entry.request == line && entry.body.as_ref().is_none_or(|body| body.fits(request.body))
        };
        let mut state = self.state.lock();
        let found = state.entries.iter_mut().find(|entry| entry.as_ref().is_some_and(fits));
        match found.and_then(Option::take).map(|entry| entry.answer) {
            Some(outcome) => return TapeAnswer::Recorded(outcome),
            None if self.has_network => return TapeAnswer::Send,
            None => {}
        }
        let mismatch = self.missing(&line, request.body, &state.entries);
        let refusal = format!("the case has no answer to {line}");
        let missing = (line, mismatch);
        if state.missing.len() < MAX_REPORTED && !state.missing.contains(&missing) {
            state.missing.push(missing);
        }
        TapeAnswer::Refuse(refusal)
    }

    // It has nothing recorded.
    fn record(&self, _number: usize, _outcome: ResponseOutcome) {}

    fn allows_sockets(&self) -> bool {
        self.has_network
    }
}

/// Records the requests of one call, and how the network answers them. The limits of the plugin bound their
/// number, and [`MAX_BODY`] bounds each.
#[derive(Default)]
pub struct CallRecorder(Mutex<Vec<Exchange>>);

impl CallRecorder {
    /// The entries for the exchanges, in the order of the requests.
    ///
    /// # Errors
    /// The first exchange that cannot be recorded, and why.
    pub fn entries(&self) -> Result<Vec<toml::Value>, String> {
        self.0.lock().iter().map(entry).collect()
    }
}

impl HttpTape for CallRecorder {
    fn answer(&self, request: &TapeRequest<'_>) -> TapeAnswer {
        let body = match request.body.len() > MAX_BODY {
            true => Err(too_large("its body")),
            false => Ok(request.body.to_vec()),
        };
        let mut exchanges = self.0.lock();
        let none = "it had no answer when the call ended".to_owned();
        exchanges.push(Exchange { request: RequestLine::of(request), body, outcome: Err(none) });
        TapeAnswer::Record(exchanges.len() - 1)
    }

    fn record(&self, number: usize, outcome: ResponseOutcome) {
        let outcome = match outcome {
            ResponseOutcome::Complete { body, .. } if body.len() > MAX_BODY => {
                Err(too_large("the body of its answer"))
            }
            outcome => Ok(outcome),
        };
        if let Some(exchange) = self.0.lock().get_mut(number) {
            exchange.outcome = outcome;
        }
    }

    fn allows_sockets(&self) -> bool {
        true
    }
}

fn too_large(what: &str) -> String {
    format!("{what} is larger than {} KiB", MAX_BODY >> 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http_entry::read;
    use bytes::Bytes;

    fn tape(text: &str, has_network: bool) -> CaseTape {
        let mut table: toml::Table = text.parse().expect("TOML");
        CaseTape::new("t", &read(table.remove("http")).expect("entries"), has_network)
    }

    fn ask(tape: &CaseTape, line: &str, body: &str) -> String {
        let (method, url) = line.split_once(' ').expect("a line");
        match tape.answer(&TapeRequest { method, url, body: body.as_bytes() }) {
            TapeAnswer::Recorded(ResponseOutcome::Complete { body, .. }) => {
                String::from_utf8(body.into()).expect("text")
            }
            other => format!("{other:?}"),
        }
    }

    const ENTRIES: &str = r#"
        [[http]]
        request = "GET https://a.example/"
        status = 200
        body = "first"
        [[http]]
        request = "POST https://a.example/"
        request-json = { n = 1 }
        status = 200
        body = "one"
        [[http]]
        request = "GET https://a.example/"
        status = 200
        body = "second"
        [[http]]
        request = "GET https://b.example/"
        error = "connection-refused"
    "#;

    #[test]
    fn equal_requests_are_answered_in_the_order_of_the_file_and_others_in_any() {
        let tape = tape(ENTRIES, false);
        assert!(ask(&tape, "GET https://b.example/", "").contains("connection-refused"));
        assert_eq!(ask(&tape, "GET https://a.example/", ""), "first");
        assert_eq!(ask(&tape, "POST https://a.example/", r#"{ "n": 1.0 }"#), "one");
        assert_eq!(ask(&tape, "GET https://a.example/", "any"), "second");
        assert_eq!(tape.mismatches(), []);
        assert!(ask(&tape, "GET https://a.example/", "").contains("Refuse"), "each is used once");
    }

    #[test]
    fn what_is_missing_and_what_is_left_are_reported() {
        let tape = tape(ENTRIES, false);
        for _twice in 0..2 {
            assert!(
                ask(&tape, "GET https://c.example/x", "").contains("no answer to GET https://c.example/x")
            );
        }
        assert!(ask(&tape, "POST https://a.example/", r#"{"n":2}"#).contains("Refuse"));
        assert!(tape.has_missing());
        let mismatches = tape.mismatches();
        let says: Vec<&str> = mismatches.iter().map(|mismatch| mismatch.what.as_str()).collect();
        assert!(
            says[0].contains("GET https://c.example/x") && says[0].contains("toolyard call t … --record")
        );
        assert!(says[1].contains("the body of this request is another: POST https://a.example/"));
        assert_eq!(mismatches[1].texts, Some(("{\n  \"n\": 1\n}".into(), "{\n  \"n\": 2\n}".into())));
        assert!(says[2..].iter().all(|says| says.contains("did not make the request")), "{says:?}");
        assert_eq!(says.len(), 5, "{says:?}");
    }

    #[test]
    fn with_the_network_requests_without_an_entry_are_sent() {
        let tape = tape(ENTRIES, true);
        assert_eq!(ask(&tape, "GET https://c.example/", ""), "Send");
        assert_eq!(ask(&tape, "GET https://a.example/", ""), "first");
        assert!(!tape.has_missing() && tape.allows_sockets());
        assert_eq!(tape.mismatches().len(), 3, "entries that are not used still fail the case");
    }

    /// The entries of an exchange with these bodies, or why it cannot be recorded.
    fn recorded(request: &[u8], response: Option<Vec<u8>>) -> Result<Vec<toml::Value>, String> {
        let recorder = CallRecorder::default();
        let request = TapeRequest { method: "POST", url: "https://a.example/", body: request };
        assert_eq!(recorder.answer(&request), TapeAnswer::Record(0));
        if let Some(body) = response {
            let (headers, body) = (Vec::new(), Bytes::from(body));
            recorder.record(0, ResponseOutcome::Complete { status: 200, headers, body });
        }
        recorder.entries()
    }

    #[test]
    fn a_large_body_or_a_missing_answer_cannot_be_recorded() {
        let large = || vec![b'x'; MAX_BODY + 1];
        assert!(recorded(&[b'x'; MAX_BODY], Some(vec![b'x'; MAX_BODY])).is_ok());
        for (recorded, says) in [
            (recorded(&large(), Some(Vec::new())), "its body is larger than 64 KiB"),
            (recorded(b"", Some(large())), "the body of its answer is larger than 64 KiB"),
            (recorded(b"", None), "it had no answer when the call ended"),
        ] {
            assert_eq!(recorded, Err(format!("POST https://a.example/: {says}")));
        }
    }
}
