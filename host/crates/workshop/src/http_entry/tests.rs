use super::*;
use serde_json::json;

fn entries(text: &str) -> Result<Vec<HttpEntry>, String> {
    let mut table: Table = text.parse().expect("TOML");
    read(table.remove("http"))
}

fn response(text: &str) -> TapeResponse {
    let text = format!("[[http]]\nrequest = 'GET https://a.example/'\n{text}");
    match entries(&text).expect("an entry").remove(0).answer {
        Ok(response) => response,
        Err(name) => panic!("{name:?}"),
    }
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
    let Ok(response) = &read[0].answer else { panic!("{read:?}") };
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let headers = [header("link", "a"), header("link", "b"), header("content-type", "text/plain")];
    assert_eq!((response.status, response.body.as_slice()), (200, &b"rain"[..]));
    assert!(headers.iter().all(|header| response.headers.contains(header)), "{response:?}");
    assert_eq!(read[1].request.to_string(), "GET http://127.0.0.1/");
    assert_eq!(read[1].answer, Err("DNS-error"));
    assert_eq!(entries("").expect("none"), []);
}

#[test]
fn a_body_is_text_json_or_base64() {
    assert_eq!(response("status = 204").body, b"");
    assert_eq!(response("status = 200\nbody-base64 = 'AP8A'").body, [0, 255, 0]);
    let length = |length: &str| ("content-length".to_owned(), length.to_owned());
    let json = response("status = 200\njson = { b = 1, a = [1.5] }");
    assert_eq!(json_of(&json.body), Some(json!({"a": [1.5], "b": 1})));
    assert_eq!(json.headers, [("content-type".to_owned(), "application/json".to_owned()), length("17")]);
    let text = response("status = 200\njson-text = '{ \"a\": null }'\nheaders = { content-type = 'x/y' }");
    assert_eq!(text.body, br#"{ "a": null }"#, "as it is written");
    assert_eq!(text.headers, [("content-type".to_owned(), "x/y".to_owned()), length("13")]);
    assert_eq!(response("status = 204").headers, []);
    let chunked = response("status = 200\nheaders = { transfer-encoding = 'chunked' }");
    assert_eq!(chunked.headers.len(), 1);
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

fn exchange(body: &[u8], response: TapeResponse) -> TapeExchange {
    let (method, url) = ("POST".to_owned(), "https://a.example/?k=[secret KEY]".to_owned());
    TapeExchange { method, url, body: body.to_vec(), outcome: TapeOutcome::Response(response) }
}

/// The text of a file with this exchange, and the entry that is read from it.
fn written(exchange: &TapeExchange) -> (String, HttpEntry) {
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
        let headers = vec![
            header("link", "a"),
            header("content-length", "1"),
            header("set-cookie", "session"),
            header("link", "b"),
            header("content-type", "x/y"),
        ];
        let recorded = exchange(body, TapeResponse { status: 404, headers, body: body.to_vec() });
        let (text, read) = written(&recorded);
        assert!(text.contains(key) && !text.contains("session"), "{text}");
        assert_eq!(read.request.to_string(), "POST https://a.example/?k=[secret KEY]");
        assert!(read.body.expect("a body").fits(body), "{text}");
        let Ok(response) = read.answer else { panic!("{text}") };
        assert_eq!(response.status, 404);
        match json_of(body) {
            Some(json) => assert_eq!(json_of(&response.body), Some(json)),
            None => assert_eq!(response.body, body),
        }
        let mut headers = response.headers;
        headers.sort();
        let length = header("content-length", &response.body.len().to_string());
        let others = [header("content-type", "x/y"), header("link", "a"), header("link", "b")];
        assert_eq!(headers, [&[length][..], &others].concat());
    }
    let outcome = TapeOutcome::Failed("connection-timeout");
    let failed = TapeExchange { outcome, ..exchange(b"", TapeResponse::default()) };
    let (text, read) = written(&failed);
    assert!(text.contains("error = \"connection-timeout\"") && read.body.is_none(), "{text}");
    let outcome = TapeOutcome::NotRecordable("it is too large".to_owned());
    let error = entry(&TapeExchange { outcome, ..failed }).expect_err("not recordable");
    assert_eq!(error, "POST https://a.example/?k=[secret KEY]: it is too large");
}
