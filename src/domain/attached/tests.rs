//! Where attachments are found in what the codec wrote.

use serde_json::json;

use super::*;

fn encoded(media_type: &str, data: &str, name: Option<&str>) -> Value {
    let fields = json!({"media_type": media_type, "data": data, "url": null, "name": name});
    json!({"$hitl": "dataclass", "type": "hitl.attachments:Attachment", "value": fields})
}

fn attachment(media_type: &str, data: &str, name: Option<&str>) -> Attachment {
    let (media_type, data) = (media_type.to_owned(), Some(data.to_owned()));
    Attachment { media_type, data, url: None, name: name.map(str::to_owned) }
}

#[test]
fn one_of_a_class_made_of_it_is_told_by_its_member() {
    let mut photo = encoded("image/png", "aGk=", Some("sales.png"));
    photo["type"] = json!("shop:Photo");
    photo["value"]["taken"] = json!(2026);
    assert_eq!(Marked::of(&photo), None);
    photo["attachment"] = json!(true);
    let marked = Marked::of(&photo).unwrap();
    assert_eq!(marked.value, json!("[attachment 1: sales.png, image/png]"));
    assert_eq!(marked.attachments, [attachment("image/png", "aGk=", Some("sales.png"))]);
}

#[test]
fn a_mark_stands_where_an_attachment_was_at_any_depth() {
    let (chart, report) =
        (encoded("image/png", "aGk=", Some("sales.png")), encoded("application/pdf", "JVBERg==", None));
    let table = json!({"$hitl": "dataclass", "type": "shop:Table", "value": {"drawn": chart, "year": 2026}});
    let value = json!({"$hitl": "dict", "value": [["jährlich", table], ["rest", [report]]]});
    let marked = Marked::of(&value).unwrap();
    let table = json!({"$hitl": "dataclass", "type": "shop:Table", "value": {"drawn": "[attachment 1: sales.png, image/png]", "year": 2026}});
    let expected =
        json!({"$hitl": "dict", "value": [["jährlich", table], ["rest", ["[attachment 2: application/pdf]"]]]});
    assert_eq!(marked.value, expected);
    let attached =
        [attachment("image/png", "aGk=", Some("sales.png")), attachment("application/pdf", "JVBERg==", None)];
    assert_eq!(marked.attachments, attached);
}

#[test]
fn a_value_without_any_is_left_alone() {
    for value in [
        json!("text"),
        json!({"paid": [1]}),
        json!({"$hitl": "dataclass", "type": "shop:Attachment", "value": {"data": "aGk="}}),
        // A plain object that has the codec's member is written as pairs.
        json!({"$hitl": "dict", "value": [["$hitl", "dataclass"], ["type", "hitl.attachments:Attachment"]]}),
    ] {
        assert_eq!(Marked::of(&value), None, "{value}");
    }
}

#[test]
fn a_series_of_texts_and_attachments_is_read_as_lines_and_all_else_as_it_is() {
    let chart = encoded("image/png", "aGk=", None);
    let read = |value: &Value| Marked::of(value).unwrap().into_read();
    let lines = json!("Sales:\n[attachment 1: image/png]");
    assert_eq!(read(&chart), json!("[attachment 1: image/png]"));
    assert_eq!(read(&json!(["Sales:", chart])), lines);
    assert_eq!(read(&json!({"$hitl": "tuple", "value": ["Sales:", chart]})), lines);
    assert_eq!(read(&json!([7, chart])), json!([7, "[attachment 1: image/png]"]));
    assert_eq!(read(&json!({"value": [chart]})), json!({"value": ["[attachment 1: image/png]"]}));
}

#[test]
fn one_that_another_release_wrote_is_named_without_its_bytes() {
    let odd =
        json!({"$hitl": "dataclass", "type": "hitl.attachments:Attachment", "value": {"kind": 7, "data": "aGk="}});
    assert_eq!(Marked::of(&odd).unwrap().value, json!("[attachment 1: application/octet-stream]"));
}
