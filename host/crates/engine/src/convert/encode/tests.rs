use super::*;

const LIMIT: u64 = 1 << 20;

fn text(text: &str) -> Content {
    Content::Text(TextBlock { text: text.to_owned(), annotations: None, meta: None })
}

fn of(content: Vec<Content>) -> ToolResult {
    ToolResult { content, structured_content: None, is_error: false, meta: None }
}

/// Encodes a result with its structured content.
fn whole(mut given: ToolResult) -> Result<RunEnd, Failure> {
    let structured = structured(given.structured_content.take())?;
    result(given, structured, LIMIT)
}

fn encoded(given: ToolResult) -> String {
    match whole(given).expect("encodes") {
        RunEnd::Result { result, .. } => {
            RawJson::parse(result.bytes()).expect("well formed");
            result.as_str().to_owned()
        }
        other => panic!("{other:?}"),
    }
}

fn malformed(given: ToolResult, says: &str) {
    match whole(given) {
        Err(Failure::Malformed(what)) => assert!(what.contains(says), "{what}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn text_is_escaped_and_what_the_guest_says_of_it_is_kept_to_the_letter() {
    let block = TextBlock {
        text: "a\"b\n\u{1}é".into(),
        annotations: Some(" {\"priority\" : 1.0} ".into()),
        meta: Some("{\"x\":1}".into()),
    };
    assert_eq!(
        encoded(of(vec![Content::Text(block), text("")])),
        r#"{"content":[{"type":"text","text":"a\"b\n\u0001é","annotations":{"priority" : 1.0},"_meta":{"x":1}},{"type":"text","text":""}],"isError":false}"#
    );
    assert_eq!(encoded(of(vec![])), r#"{"content":[],"isError":false}"#);
}

#[test]
fn media_are_base64_whatever_their_length() {
    for length in [0, 1, 2, 3, 3071, 3072, 3073, 6145] {
        let data: Vec<u8> = (0..length).map(|n| n as u8).collect();
        let media =
            Media { data: data.clone(), mime_type: "image/png".into(), annotations: None, meta: None };
        assert_eq!(
            encoded(of(vec![Content::Image(media)])),
            format!(
                r#"{{"content":[{{"type":"image","data":"{}","mimeType":"image/png"}}],"isError":false}}"#,
                STANDARD.encode(&data)
            )
        );
    }
}

fn nested(levels: usize) -> String {
    "{\"a\":".repeat(levels) + "1" + &"}".repeat(levels)
}

/// TL-11: links and resources; text and media are tested above.
#[test]
fn blocks_given_as_json_get_our_type_and_only_ours() {
    let link = |json: &str| of(vec![Content::ResourceLink(json.into())]);
    assert_eq!(
        encoded(link(r#"{"uri":"a:b","type":"x","name":"n","more":[1]}"#)),
        r#"{"content":[{"type":"resource_link","uri":"a:b","name":"n","more":[1]}],"isError":false}"#
    );
    malformed(link(r#"{"uri":"a:b"}"#), "name");
    malformed(link(r#"{"name":"n"}"#), "uri");
    malformed(link(r#"{"type":"text","uri":"a:b","name":"n","type":"image"}"#), "\"type\" twice");
    malformed(link("[]"), "object");
    malformed(link("{"), "JSON");
    malformed(of(vec![Content::EmbeddedResource("{}".into())]), "resource");
    malformed(of(vec![Content::Other("{}".into())]), "type");
    malformed(of(vec![Content::Other("{\"type\":5}".into())]), "type");
    malformed(of(vec![Content::Other(format!("{{\"type\":\"x\",\"a\":{}}}", nested(200)))]), "128");
    let annotated = TextBlock { text: "x".into(), annotations: Some("[]".into()), meta: None };
    malformed(of(vec![Content::Text(annotated)]), "`annotations` is not a JSON object");
    assert!(encoded(of(vec![Content::Other("{\"type\":\"new\"}".into())])).contains(r#"[{"type":"new"}]"#));
}

/// 26TL-2 wants the same.
#[test]
fn tl_6_structured_content_without_text_is_given_as_text_too() {
    let given = ToolResult { structured_content: Some("{\"n\":\"1\"}".into()), ..of(vec![]) };
    assert_eq!(
        encoded(given),
        r#"{"content":[{"type":"text","text":"{\"n\":\"1\"}"}],"structuredContent":{"n":"1"},"isError":false}"#
    );
    let both = ToolResult { structured_content: Some("{}".into()), ..of(vec![text("x")]) };
    assert!(encoded(both).starts_with(r#"{"content":[{"type":"text","text":"x"}],"structuredContent":{}"#));
    let structured = |json: &str| ToolResult { structured_content: Some(json.into()), ..of(vec![]) };
    malformed(structured("[1]"), "object");
    malformed(structured(&nested(200)), "128");
    for wrong in ["{\"a\":", "{},\"injected\":{}", "{\"a\":NaN}"] {
        malformed(structured(wrong), "`structured-content`: not valid JSON");
    }
    malformed(structured("{\"a\":1e999999}"), "`structured-content`");
}

#[test]
fn t_39_a_guest_cannot_say_which_task_a_result_is_of() {
    let meta = |json: &str| encoded(ToolResult { meta: Some(json.into()), ..of(vec![]) });
    assert!(meta("{\"a\":1}").ends_with(r#","_meta":{"a":1}}"#));
    // The second spelling is the same key, which a text search would miss.
    for key in ["io.modelcontextprotocol/related-task", "\\u0069o.modelcontextprotocol/related-task"] {
        let related = meta(&format!(r#"{{"a":1,"{key}":{{"taskId":"x"}},"b":[]}}"#));
        assert!(related.ends_with(r#","_meta":{"a":1,"b":[]}}"#), "{related}");
        assert!(meta(&format!("{{\"{key}\":1}}")).ends_with(r#","_meta":{}}"#));
    }
    let twice = r#"{"io.modelcontextprotocol/related-task":1,"\u0069o.modelcontextprotocol/related-task":2}"#;
    malformed(ToolResult { meta: Some(twice.into()), ..of(vec![]) }, "twice");
    malformed(ToolResult { meta: Some("{no}".into()), ..of(vec![]) }, "meta");
}

#[test]
fn the_limit_counts_encoded_bytes() {
    let whole = encoded(of(vec![text("\u{1}\u{2}")])).len() as u64;
    assert!(result(of(vec![text("\u{1}\u{2}")]), None, whole).is_ok());
    assert_eq!(result(of(vec![text("\u{1}\u{2}")]), None, whole - 1), Err(Failure::Output));
    let media = Media { data: vec![0; 5000], mime_type: String::new(), annotations: None, meta: None };
    assert_eq!(result(of(vec![Content::Audio(media)]), None, 5000), Err(Failure::Output));
}

#[test]
fn an_error_carries_its_first_words_for_the_status() {
    let given = ToolResult { is_error: true, ..of(vec![text(""), text(&"é".repeat(300))]) };
    match result(given, None, LIMIT).expect("encodes") {
        RunEnd::Result { is_error: true, message: Some(message), .. } => {
            assert_eq!(message.chars().count(), 201)
        }
        other => panic!("{other:?}"),
    }
}
