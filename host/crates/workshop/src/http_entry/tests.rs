use super::*;
use serde_json::json;

fn entries(text: &str) -> Result<Vec<HttpEntry>, String> {
    let mut table: Table = text.parse().expect("TOML");
    read(table.remove("http"))
}

/// The status, headers and body of an answer.
fn parts(answer: ResponseOutcome) -> (u16, Vec<(String, String)>, Vec<u8>) {
    let text = |bytes: Bytes| String::from_utf8(bytes.into()).expect("text");
    match answer {
        ResponseOutcome::Complete { status, headers, body } => {
            let headers = headers.into_iter().map(|(name, value)| (text(name), text(value)));
            (status, headers.collect(), body.into())
        }
        ResponseOutcome::Error(name) => panic!("{name}"),
    }
}

fn response(text: &str) -> (u16, Vec<(String, String)>, Vec<u8>) {
    let text = format!("[[http]]\nrequest = 'GET https://a.example/'\n{text}");
    parts(entries(&text).expect("an entry").remove(0).answer)
}

#[test]
fn every_key_is_read() {
    let text = r#"
        [[http]]
        request = "POST HTTPS://Weather.example/v1/now?city=Oslo"
        request-json = { city = "Oslo" }
        status = 200
        headers = { content-type = "text/plain", Link = ["a", "b"] }
        body = "rain"
        [[http]]
        request = "GET http://127.0.0.1:80"
        error = "DNS-error"
    "#;
    let read = entries(text).expect("entries");
    assert_eq!(read[0].request.to_string(), "POST https://weather.example/v1/now?city=Oslo");
    assert_eq!(read[0].body, Some(ExpectedBody::Json(json!({"city": "Oslo"}))));
    let (status, found, body) = parts(read[0].answer.clone());
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let headers = [header("link", "a"), header("link", "b"), header("content-type", "text/plain")];
    assert_eq!((status, body.as_slice()), (200, &b"rain"[..]));
    assert!(headers.iter().all(|header| found.contains(header)), "{found:?}");
    assert_eq!(read[1].request.to_string(), "GET http://127.0.0.1/");
    assert_eq!(read[1].answer, ResponseOutcome::Error("DNS-error".to_owned()));
    assert_eq!(entries("").expect("none"), []);
}

#[test]
fn a_body_is_text_json_or_base64() {
    assert_eq!(response("status = 204").2, b"");
    assert_eq!(response("status = 200\nbody-base64 = 'AP8A'").2, [0, 255, 0]);
    let length = |length: &str| ("content-length".to_owned(), length.to_owned());
    let (_, headers, body) = response("status = 200\njson = { b = 1, a = [1.5] }");
    assert_eq!(json_of(&body), Some(json!({"a": [1.5], "b": 1})));
    assert_eq!(headers, [("content-type".to_owned(), "application/json".to_owned()), length("17")]);
    let (_, headers, body) =
        response("status = 200\njson-text = '{ \"a\": null }'\nheaders = { content-type = 'x/y' }");
    assert_eq!(body, br#"{ "a": null }"#, "as it is written");
    assert_eq!(headers, [("content-type".to_owned(), "x/y".to_owned()), length("13")]);
    assert_eq!(response("status = 204").1, []);
    let chunked = response("status = 200\nheaders = { transfer-encoding = 'chunked' }");
    assert_eq!(chunked.1.len(), 1);
}

#[test]
fn what_is_wrong_is_named_with_what_would_be_right() {
    let get = "[[http]]\nrequest = 'GET https://a.example/'\n";
    for (text, says) in [
        ("http = 1".to_owned(), "`http`: expected a list of tables"),
        ("http = [1]".to_owned(), "`http[1]`: expected a table"),
        ("[[http]]\nstatus = 200".to_owned(), "`http[1].request` is missing"),
        ("[[http]]\nrequest = 'https://a.example'".to_owned(), "expected a method and a URL"),
        ("[[http]]\nrequest = 'G(T https://a.example'".to_owned(), "`G(T` is not a method"),
        ("[[http]]\nrequest = 'GET /v1'".to_owned(), "`/v1` is not a URL: it does not begin with http"),
        ("[[http]]\nrequest = 'GET https://u@a.example/'".to_owned(), "is not a URL"),
        (get.to_owned(), "`http[1].status` is missing"),
        (format!("{get}status = 200\n{get}stats = 200"), "unknown key `http[2].stats`; did you mean"),
        (format!("{get}status = 99"), "expected 200 to 599, not 99"),
        (format!("{get}status = 65737"), "expected 200 to 599"),
        (format!("{get}status = 200\nbody = ''\njson = 1"), "`http[1].body` and `http[1].json` are two ways"),
        (format!("{get}status = 200\njson-text = 'x'"), "`http[1].json-text` is"),
        (format!("{get}status = 200\nbody-base64 = '?'"), "`http[1].body-base64` is no base64"),
        (format!("{get}request-body = 1\nstatus = 200"), "`http[1].request-body`: invalid type: integer `1`"),
        (format!("{get}status = 200\nheaders = {{ 'a b' = '' }}"), "not the name of a header"),
        (format!("{get}status = 200\nheaders = {{ a = \"b\\nc\" }}"), "expected a text in one line"),
        (format!("{get}error = 'connection-refuse'"), "did you mean `connection-refused`?"),
        (format!("{get}error = 'x'"), "known are DNS-timeout"),
        (format!("{get}error = 'DNS-error'\nstatus = 200"), "`http[1].error` beside a response"),
    ] {
        let error = entries(&text).expect_err(&text);
        assert!(error.contains(says), "{text}: {error}");
    }
}

fn exchange(body: &[u8], outcome: Result<ResponseOutcome, String>) -> Exchange {
    let (method, url) = ("POST", "https://a.example/?k=[secret KEY]");
    let request = RequestLine::of(&TapeRequest { method, url, body });
    Exchange { request, body: Ok(body.to_vec()), outcome }
}

/// The text of a file with this exchange, and the entry that is read from it.
fn written(exchange: &Exchange) -> (String, HttpEntry) {
    let table = Table::from_iter([("http".to_owned(), vec![entry(exchange).expect("an entry")].into())]);
    let text = toml::to_string_pretty(&table).expect("TOML");
    let read = entries(&text).unwrap_or_else(|error| panic!("{text}\n{error}"));
    (text, read.into_iter().next().expect("one entry"))
}

#[test]
fn a_recorded_exchange_is_read_again() {
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    for (body, key) in [
        (&br#"{"a":[{"b":1}],"c":"x\ny"}"#[..], "[http.json]"),
        (br#"[1, 2.5]"#, "json = ["),
        (br#"{ "a": null }"#, "json-text = "),
        (b"12", "body = \"12\""),
        (b"two\nlines'''\"\"\"", "body = "),
        (b"\x00\xff", "body-base64 = \"AP8=\""),
    ] {
        let headers = [
            ("link", &b"a"[..]),
            ("content-length", b"1"),
            ("set-cookie", b"session"),
            ("x-no-text", b"\xff"),
            ("link", b"b"),
            ("content-type", b"x/y"),
        ];
        let headers = headers.map(|(name, value)| (Bytes::from(name), Bytes::from(value))).to_vec();
        let outcome = ResponseOutcome::Complete { status: 404, headers, body: Bytes::copy_from_slice(body) };
        let (text, read) = written(&exchange(body, Ok(outcome)));
        assert!(text.contains(key) && !text.contains("session"), "{text}");
        assert_eq!(read.request.to_string(), "POST https://a.example/?k=[secret KEY]");
        assert!(read.body.expect("a body").fits(body), "{text}");
        let (status, mut headers, answer) = parts(read.answer);
        assert_eq!(status, 404);
        match json_of(body) {
            Some(json) => assert_eq!(json_of(&answer), Some(json)),
            None => assert_eq!(answer, body),
        }
        headers.sort();
        let length = header("content-length", &answer.len().to_string());
        let others = [header("content-type", "x/y"), header("link", "a"), header("link", "b")];
        assert_eq!(headers, [&[length][..], &others].concat());
    }
    let failed = |name: &str| exchange(b"", Ok(ResponseOutcome::Error(name.to_owned())));
    let (text, read) = written(&failed("connection-timeout"));
    assert!(text.contains("error = \"connection-timeout\"") && read.body.is_none(), "{text}");
    for (exchange, says) in [
        (failed("HTTP-response-body-size"), "it ended with the error HTTP-response-body-size"),
        (exchange(b"", Err("it is too large".to_owned())), "it is too large"),
    ] {
        let error = entry(&exchange).expect_err("not recordable");
        assert_eq!(error, format!("POST https://a.example/?k=[secret KEY]: {says}"));
    }
}
