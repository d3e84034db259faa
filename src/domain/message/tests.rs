use serde_json::json;

use super::*;

#[test]
fn an_empty_object_is_a_message_of_the_user() {
    let message: ChatMessage = serde_json::from_value(json!({})).unwrap();
    assert_eq!(message, ChatMessage::default());
    assert_eq!(message.role, Role::User);
}

#[test]
fn nine_members_are_written_nulls_too_and_attachments_where_there_are_any() {
    let written = serde_json::to_value(ChatMessage::default()).unwrap();
    let names: Vec<&str> = written.as_object().unwrap().keys().map(String::as_str).collect();
    let expected = "role content reasoning reasoning_details tool_calls tool_call_id name base64_image user_params";
    assert_eq!(names, expected.split_whitespace().collect::<Vec<_>>());
    let attachment = json!({"media_type": "image/png", "data": "aGk="});
    let message: ChatMessage = serde_json::from_value(json!({"attachments": [attachment]})).unwrap();
    assert_eq!(serde_json::to_value(message).unwrap()["attachments"], json!([attachment]));
}

#[test]
fn a_media_type_has_two_names_and_no_parameters() {
    for text in ["image/png", "application/vnd.oasis.opendocument.text", "image/svg+xml", "x/1"] {
        assert!(is_media_type(text), "{text}");
    }
    for text in ["", "png", "/", "image/", "/png", "image/png/x", "text/plain; charset=utf-8", "image/ png", "i\n/p"] {
        assert!(!is_media_type(text), "{text:?}");
    }
    assert!(!is_media_type(&format!("image/{}", "x".repeat(128))));
}

#[test]
fn an_address_is_one_that_nobody_has_to_mend() {
    let flaws = |url: &str| Attachment { media_type: "a/b".to_owned(), url: Some(url.to_owned()), ..none() }.flaws();
    for url in ["https://a.b", "HTTP://a.b:80/c?d#e", "https://[::1]/", "https://user@a.b/%20", "http://\u{e9}.example"]
    {
        assert_eq!(flaws(url), [], "{url}");
    }
    let mended =
        ["http:a.b", "http:///a.b", "https:\\\\a.b", "https:/a.b", " https://a.b", "https://a.b ", "ht\ntp://a"];
    let none =
        ["", "a.b", "https://", "ftp://a.b", "data:image/png,x", "http://a:99999/", "https://a/\u{2028}", "http://a b"];
    for url in mended.into_iter().chain(none) {
        assert_eq!(flaws(url).len(), 1, "{url:?}");
    }
}

#[test]
fn bytes_are_base64_as_one_writes_it() {
    let flaws = |data: &str| Attachment { media_type: "a/b".to_owned(), data: Some(data.to_owned()), ..none() }.flaws();
    assert_eq!((flaws(""), flaws("aGk="), flaws("++//")), (vec![], vec![], vec![]));
    for data in ["aGk", "aGl=", "aG-_", "aGk=\n", "a Gk=", "====", "\u{e9}"] {
        assert_eq!(flaws(data).len(), 1, "{data:?}");
    }
}

/// Neither bytes nor an address.
fn none() -> Attachment {
    Attachment { media_type: String::new(), data: None, url: None, name: None }
}

#[test]
fn nulls_are_left_out_where_that_is_asked_but_not_inside_values() {
    let message = ChatMessage {
        content: Some(String::new()),
        user_params: json!({"a": null}).as_object().cloned(),
        ..ChatMessage::default()
    };
    assert_eq!(message.without_nulls(), json!({"role": "user", "content": "", "user_params": {"a": null}}));
}

#[test]
fn wrong_types_and_roles_are_refused() {
    for value in [
        json!({"role": "robot"}),
        json!({"role": null}),
        json!({"content": 7}),
        json!({"tool_calls": [{"id": "1", "type": "tool", "function": {"name": "f", "arguments": ""}}]}),
        json!({"tool_calls": [{"id": "1", "function": {"name": "f", "arguments": {}}}]}),
        json!({"user_params": []}),
    ] {
        assert!(serde_json::from_value::<ChatMessage>(value.clone()).is_err(), "{value}");
    }
}

#[test]
fn a_tool_call_without_a_type_is_a_function() {
    let call: ToolCall =
        serde_json::from_value(json!({"id": "1", "function": {"name": "f", "arguments": "{"}})).unwrap();
    assert_eq!(serde_json::to_value(call).unwrap()["type"], "function");
}
