use proptest::prelude::*;

use super::*;
use crate::domain::field_errors;
use crate::domain::schema::{self, Anew};

fn option(label: &str) -> Value {
    json!({"label": label, "description": "what it means"})
}

fn asked() -> Value {
    json!({"questions": [
        {"question": "How?", "header": "Strategy", "options": [option("By date"), option("By type")]},
        {"question": "Where?", "header": "Places", "multiSelect": true,
         "options": [option("Here"), option("There"), option("Elsewhere")]},
    ]})
}

fn questions() -> Vec<Question> {
    read(&asked()).unwrap()
}

/// The places that are wrong in `arguments`, each as `a.0.b`, and the kinds of error.
fn errors(arguments: &Value) -> Vec<(String, String)> {
    places(read(arguments).err().unwrap_or_default())
}

fn places(errors: Vec<FieldError>) -> Vec<(String, String)> {
    let place = |error: &FieldError| {
        let parts: Vec<String> = error
            .loc
            .iter()
            .map(|place| match place {
                LocSegment::Member(name) => name.clone(),
                LocSegment::Index(index) => index.to_string(),
            })
            .collect();
        parts.join(".")
    };
    errors.into_iter().map(|error| (place(&error), error.kind)).collect()
}

/// `asked()` with the value at a JSON Pointer replaced, or its member removed.
fn with(pointer: &str, value: Option<Value>) -> Value {
    let mut arguments = asked();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let parent = arguments.pointer_mut(parent).unwrap();
    match (parent, value) {
        (Value::Object(members), Some(value)) => drop(members.insert(name.to_owned(), value)),
        (Value::Object(members), None) => drop(members.remove(name)),
        (Value::Array(items), Some(value)) => items[name.parse::<usize>().unwrap()] = value,
        other => panic!("{other:?}"),
    }
    arguments
}

#[test]
fn the_payload_carries_what_was_asked_with_the_default_of_multi_select() {
    let payload = payload(&questions());
    assert_eq!(payload["type"], "user_input");
    assert_eq!(payload["questions"][0]["multiSelect"], false);
    assert_eq!(payload["questions"][1]["multiSelect"], true);
    assert_eq!(payload["questions"][0]["options"], json!([option("By date"), option("By type")]));
    assert_eq!(read(&payload), Ok(questions()));
}

#[test]
fn a_preview_is_markdown() {
    for name in ["markdown", "preview"] {
        let mut shown = option("By date");
        shown[name] = json!("2026/\n");
        let read = read(&with("/questions/0/options/0", Some(shown))).unwrap();
        assert_eq!(read[0].options[0].markdown.as_deref(), Some("2026/\n"));
    }
    let null = json!({"label": "A", "description": "a", "markdown": null, "preview": "shown"});
    assert!(read(&with("/questions/0/options/0", Some(null))).is_ok());
}

#[test]
fn each_wrong_field_is_named() {
    for (pointer, value, place, kind) in [
        ("/questions", None, "questions", "missing"),
        ("/questions", Some(json!([])), "questions", "wrong_length"),
        ("/questions", Some(json!({})), "questions", "wrong_type"),
        ("/questions/0", Some(json!("How?")), "questions.0", "wrong_type"),
        ("/questions/0/question", None, "questions.0.question", "missing"),
        ("/questions/0/question", Some(json!("  ")), "questions.0.question", "empty"),
        ("/questions/0/header", Some(json!(1)), "questions.0.header", "wrong_type"),
        ("/questions/0/multiSelect", Some(json!("true")), "questions.0.multiSelect", "wrong_type"),
        ("/questions/0/multi_select", Some(json!(true)), "questions.0.multi_select", "unknown_member"),
        ("/questions/0/options", Some(json!([option("A")])), "questions.0.options", "wrong_length"),
        ("/questions/0/options", Some(json!(vec![option("A"); 5])), "questions.0.options", "wrong_length"),
        ("/questions/0/options/1", Some(json!("B")), "questions.0.options.1", "wrong_type"),
        ("/questions/0/options/1/label", None, "questions.0.options.1.label", "missing"),
        ("/questions/0/options/1/label", Some(json!("By date")), "questions.0.options.1.label", "duplicate"),
        ("/questions/0/options/1/description", Some(json!(null)), "questions.0.options.1.description", "wrong_type"),
        ("/questions/0/options/1/markdown", Some(json!(5)), "questions.0.options.1.markdown", "wrong_type"),
        ("/questions/1/question", Some(json!("How?")), "questions.1.question", "duplicate"),
        ("/extra", Some(json!(1)), "extra", "unknown_member"),
    ] {
        let errors = errors(&with(pointer, value.clone()));
        assert!(errors.contains(&(place.to_owned(), kind.to_owned())), "{pointer} {value:?}: {errors:?}");
    }
    assert_eq!(errors(&json!(["How?"])), [(String::new(), "wrong_type".to_owned())]);
    let five: Vec<Value> = (0..5)
        .map(|number| {
            json!({
                "question": number.to_string(), "header": "H", "options": [option("A"), option("B")],
            })
        })
        .collect();
    assert_eq!(errors(&json!({"questions": five})), [("questions".to_owned(), "wrong_length".to_owned())]);
}

#[test]
fn a_header_of_any_length_is_taken() {
    assert!(read(&with("/questions/0/header", Some(json!("x".repeat(500))))).is_ok());
}

#[test]
fn labels_and_free_text_are_answers() {
    for answers in [
        json!({"How?": "By date", "Where?": "Here"}),
        json!({"How?": "Something else entirely", "Where?": ["Here", "There"]}),
        json!({"How?": "By date", "Where?": ["On the moon"]}),
    ] {
        assert_eq!(check_answer(&questions(), &json!({"answers": answers})), vec![], "{answers}");
    }
}

#[test]
fn every_other_answer_is_refused_where_it_is_wrong() {
    for (value, place, kind) in [
        (json!(null), "", "wrong_type"),
        (json!({}), "answers", "missing"),
        (json!({"answers": []}), "answers", "wrong_type"),
        (json!({"answers": {"How?": "A"}}), "answers.Where?", "missing"),
        (json!({"answers": {"How?": "A", "Where?": "B", "Why?": "C"}}), "answers.Why?", "unknown_member"),
        (json!({"answers": {"How?": ["By date"], "Where?": "B"}}), "answers.How?", "wrong_type"),
        (json!({"answers": {"How?": "", "Where?": "B"}}), "answers.How?", "empty"),
        (json!({"answers": {"How?": null, "Where?": "B"}}), "answers.How?", "wrong_type"),
        (json!({"answers": {"How?": 1, "Where?": "B"}}), "answers.How?", "wrong_type"),
        (json!({"answers": {"How?": "A", "Where?": []}}), "answers.Where?", "empty"),
        (json!({"answers": {"How?": "A", "Where?": [1]}}), "answers.Where?", "wrong_type"),
        (json!({"answers": {"How?": "A", "Where?": ["B", "B"]}}), "answers.Where?", "duplicate"),
        (json!({"answers": {"How?": "A", "Where?": "B"}, "note": 1}), "note", "unknown_member"),
    ] {
        let errors = places(check_answer(&questions(), &value));
        assert_eq!(errors, [(place.to_owned(), kind.to_owned())], "{value}");
    }
}

#[test]
fn a_question_may_have_the_name_of_a_keyword() {
    let named = json!({"questions": [{"question": "$ref", "header": "H", "options": [option("A"), option("B")]}]});
    let questions = read(&named).unwrap();
    let schema = response_schema(&questions);
    assert_eq!(schema::validate(&schema, &json!({"answers": {"$ref": "A"}}), &Anew), vec![]);
    assert_eq!(schema::validate(&schema, &json!({"answers": {}}), &Anew).len(), 1);
}

/// JSON near to an answer of `questions()`.
fn near_answer() -> impl Strategy<Value = Value> {
    let leaf = || prop::sample::select(vec![json!("A"), json!("Here"), json!(""), json!(1), json!(null), json!(true)]);
    let answer = prop_oneof![leaf(), prop::collection::vec(leaf(), 0..3).prop_map(Value::from)];
    let name = prop::sample::select(vec!["How?", "Where?", "Why?"]);
    let answers = prop::collection::btree_map(name, answer, 0..4)
        .prop_map(|members| Value::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()));
    prop_oneof![
        1 => leaf(),
        8 => answers.clone().prop_map(|answers| json!({"answers": answers})),
        1 => answers.prop_map(|answers| json!({"answers": answers, "more": 1})),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_schema_takes_exactly_what_is_checked(value in near_answer()) {
        let questions = questions();
        let is_valid = check_answer(&questions, &value).is_empty();
        let errors = schema::validate(&response_schema(&questions), &value, &Anew);
        prop_assert_eq!(is_valid, errors.is_empty(), "{} {:?}", value, errors);
    }
}

#[test]
fn as_many_labels_as_fit_are_chosen_and_no_more() {
    let answer = |count: usize| {
        let labels: Vec<String> = (0..count).map(|number| number.to_string()).collect();
        json!({"answers": {"How?": "By date", "Where?": labels}})
    };
    let check = |value: &Value| places(check_answer(&questions(), value));
    let schema = response_schema(&questions());
    assert_eq!(check(&answer(MOST_LABELS)), []);
    assert_eq!(schema::validate(&schema, &answer(MOST_LABELS), &Anew), []);
    assert_eq!(check(&answer(MOST_LABELS + 1)), [("answers.Where?".to_owned(), "too_long".to_owned())]);
    assert_ne!(schema::validate(&schema, &answer(MOST_LABELS + 1), &Anew), []);
}

#[test]
fn what_is_wrong_with_an_answer_is_told_up_to_a_bound() {
    let unknown: JsonObject = (0..1000).map(|number| (format!("Who {number}?"), json!("me"))).collect();
    let mut answers = unknown;
    answers.extend([("How?".to_owned(), json!("By date")), ("Where?".to_owned(), json!("Here"))]);
    let told = check_answer(&questions(), &json!({"answers": answers}));
    assert_eq!(told.len(), field_errors::MOST + 1);
    assert_eq!(told.last(), Some(&FieldError::new(NOWHERE, "too_many_errors", "and 950 more")));
}
