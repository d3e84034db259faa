//! What is told of a turn that came to no answer, by what its journal holds.

use serde_json::{Value, json};
use uuid::Uuid;

use super::*;
use crate::domain::InterruptId;
use crate::domain::decision::Decider;
use crate::domain::journal::{Ending, Entry, MOST, RecordedEntry, StepIdentity, StepResult};
use crate::domain::payload::{MAX_DEPTH, MAX_STORED_DEPTH, depth};
use crate::domain::time::Timestamp;

/// A journal that is written entry by entry.
#[derive(Default)]
struct Journal(Vec<RecordedEntry>);

impl Journal {
    fn new() -> Self {
        let start = Entry::Start {
            code: "c".to_owned(),
            python: "3.11".to_owned(),
            policy: false,
            abandoned: None,
            traceparent: None,
        };
        Self::default().and(start)
    }

    fn and(mut self, entry: Entry) -> Self {
        self.0.push(RecordedEntry { at: Timestamp::from_millis(0), entry });
        self
    }

    /// A model's message at `path` with calls `(id, tool, arguments)`.
    fn said(self, path: &str, calls: &[(&str, &str, &str)]) -> Self {
        let call = |(id, name, arguments): &(&str, &str, &str)| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
        let calls: Vec<Value> = calls.iter().map(call).collect();
        let message = json!({"role": "assistant", "content": "I will.", "tool_calls": calls});
        let reply = json!({"message": message, "usage": {}, "finish_reason": "tool_calls"});
        self.step(identity(path, "model", "test-model", None), StepResult::Value(reply))
    }

    fn step(self, step: StepIdentity, result: StepResult) -> Self {
        self.and(Entry::Step { step, result })
    }

    fn ran(self, path: &str, name: &str, id: &str, value: Value) -> Self {
        self.step(identity(path, "tool", name, Some(id)), StepResult::Value(value))
    }

    fn began(self, path: &str, name: &str, id: &str) -> Self {
        self.and(Entry::Intent { step: identity(path, "tool", name, Some(id)), arguments: None })
    }

    fn asked(self, path: &str, id: &str, interrupt: u128) -> Self {
        let step = identity(path, "interrupt", "tool_approval", Some(id));
        self.and(Entry::Ask { step, interrupt_id: InterruptId(Uuid::from_u128(interrupt)) })
    }

    fn answered(self, interrupt: u128, value: Value) -> Self {
        self.and(Entry::Answer { interrupt_id: InterruptId(Uuid::from_u128(interrupt)), value })
    }

    fn told(&self) -> Option<Abandoned> {
        known(None, &message("Pay."), &self.0)
    }

    /// The calls of the only message.
    fn calls(&self) -> Vec<AbandonedCall> {
        self.told().unwrap().turns.remove(0).replies.remove(0).calls
    }

    fn outcomes(&self) -> Vec<CallOutcome> {
        self.calls().into_iter().map(|call| call.outcome).collect()
    }
}

fn message(content: &str) -> ChatMessage {
    ChatMessage { content: Some(content.to_owned()), ..ChatMessage::default() }
}

fn identity(path: &str, kind: &str, name: &str, id: Option<&str>) -> StepIdentity {
    StepIdentity {
        path: path.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        location: None,
        arguments: JsonObject::new(),
        tool_call_id: id.map(str::to_owned),
    }
}

const PAY: (&str, &str, &str) = ("c1", "pay", r#"{"cents": 5}"#);

#[test]
fn a_turn_that_did_nothing_is_not_told() {
    assert_eq!(Journal::new().told(), None);
    let answered = Journal::new().said("0#1", &[]);
    assert_eq!(answered.told(), None);
}

#[test]
fn a_call_that_ran_is_told_with_its_arguments_and_its_result() {
    let journal = Journal::new()
        .said("0#1", &[PAY])
        .asked("0.0#1", "c1", 1)
        .answered(1, json!({"approved": true}))
        .began("0.0#2", "pay", "c1")
        .ran("0.0#2", "pay", "c1", json!({"paid": 5}));
    let expected = json!({"turns": [{
        "message": {"role": "user", "content": "Pay."},
        "replies": [{
            "content": "I will.",
            "calls": [{"id": "c1", "name": "pay", "arguments": r#"{"cents": 5}"#, "outcome": {"value": {"paid": 5}}}],
        }],
    }]});
    assert_eq!(json!(journal.told()), expected);
    assert_eq!(serde_json::from_value::<Abandoned>(expected).ok(), journal.told());
}

#[test]
fn a_once_call_that_had_begun_is_of_unknown_outcome() {
    let journal = Journal::new().said("0#1", &[PAY]).began("0.0#1", "pay", "c1");
    assert_eq!(journal.outcomes(), [CallOutcome::Unknown]);
    let asks_for_it = identity("0.0#1/?1", "interrupt", "unknown_outcome", None);
    let asked = journal.and(Entry::Ask { step: asks_for_it, interrupt_id: InterruptId(Uuid::from_u128(1)) });
    assert_eq!(asked.outcomes(), [CallOutcome::Unknown]);
}

#[test]
fn what_was_decided_is_told_where_the_tool_did_not_run() {
    let asked = || Journal::new().said("0#1", &[PAY]).asked("0.0#1", "c1", 1);
    assert_eq!(asked().outcomes(), [CallOutcome::Undecided]);
    let rejected = CallOutcome::Rejected { reason: Some("too much".to_owned()), message: None, by: Decider::Person };
    assert_eq!(asked().answered(1, json!({"approved": false, "reason": "too much"})).outcomes(), [rejected]);
    let denied = json!({"type": "reject", "message": "no", "by": "policy"});
    let by_rule = CallOutcome::Rejected { reason: None, message: Some("no".to_owned()), by: Decider::Policy };
    assert_eq!(asked().answered(1, denied).outcomes(), [by_rule]);
    let responded = asked().answered(1, json!({"type": "respond", "message": {"$hitl": "as it is"}}));
    assert_eq!(responded.outcomes(), [CallOutcome::Responded(json!({"$hitl": "as it is"}))]);
    let expired = asked().and(Entry::Expire { interrupt_id: InterruptId(Uuid::from_u128(1)) });
    assert_eq!(expired.outcomes(), [CallOutcome::Expired]);
    assert_eq!(asked().answered(1, json!({"approved": true})).outcomes(), [CallOutcome::Unfinished]);
}

#[test]
fn an_edit_is_told_beside_the_arguments_of_the_model() {
    let journal = Journal::new()
        .said("0#1", &[PAY])
        .asked("0.0#1", "c1", 1)
        .answered(1, json!({"type": "edit", "args": {"cents": 3}}))
        .ran("0.0#2", "pay", "c1", json!("paid 3"));
    let call = journal.calls().remove(0);
    assert_eq!((call.arguments.as_deref(), json!(call.edited)), (Some(r#"{"cents": 5}"#), json!({"cents": 3})));
    assert_eq!(call.outcome, CallOutcome::Value(json!("paid 3")));
}

#[test]
fn an_error_is_told_as_the_model_would_have_heard_it() {
    let failed = |error| {
        let step = identity("0.0#1", "tool", "pay", Some("c1"));
        Journal::new().said("0#1", &[PAY]).step(step, StepResult::Error(error)).outcomes().remove(0)
    };
    let theirs = json!({"type": "KeyError", "module": "builtins", "message": "'x'"});
    assert_eq!(failed(theirs), CallOutcome::Failed("KeyError: 'x'".to_owned()));
    let ours = json!({"type": "ResultNotStored", "module": "hitl.errors", "message": "it ran"});
    assert_eq!(failed(ours), CallOutcome::Failed("it ran".to_owned()));
}

#[test]
fn an_output_guardrail_has_the_last_word_over_a_result() {
    let journal = |result| {
        let hides = identity("0.0#2", "guardrail", "pay.hide", None);
        Journal::new().said("0#1", &[PAY]).ran("0.0#1", "pay", "c1", json!("secret")).step(hides, result)
    };
    let kept = journal(StepResult::Value(Value::Null)).calls().remove(0);
    assert_eq!((kept.outcome, kept.guardrails), (CallOutcome::Value(json!("secret")), 1));
    let hidden = journal(StepResult::Value(json!("***"))).calls().remove(0);
    assert_eq!((hidden.outcome, hidden.guardrails), (CallOutcome::Value(json!("***")), 1));
    let refused = journal(StepResult::Error(json!({"type": "ValueError", "message": "no"})));
    assert_eq!(refused.outcomes(), [CallOutcome::Failed("ValueError: no".to_owned())]);
}

#[test]
fn a_hook_that_answers_in_the_tool_s_place_is_told() {
    let hook = identity("0.0#1", "hook", "pay.look", Some("c1"));
    let journal = Journal::new().said("0#1", &[PAY]).step(hook, StepResult::Value(json!("not today")));
    assert_eq!(journal.outcomes(), [CallOutcome::Value(json!("not today"))]);
}

#[test]
fn calls_are_told_apart_by_their_ids_over_all_messages() {
    let twice = [("c1", "pay", r#"{"cents": 1}"#), ("c2", "pay", r#"{"cents": 2}"#)];
    let journal = Journal::new()
        .said("0#1", &twice)
        .ran("0.1#1", "pay", "c2", json!("paid 2"))
        .ran("0.0#1", "pay", "c1", json!("paid 1"))
        .said("0#2", &[("c1", "pay", r#"{"cents": 3}"#)])
        .ran("0.2#1", "pay", "c1", json!("paid 3"));
    let told = journal.told().unwrap().turns.remove(0).replies;
    let outcomes = told.iter().map(|reply| reply.calls.iter().map(|call| call.outcome.clone()).collect::<Vec<_>>());
    let value = |text| CallOutcome::Value(json!(text));
    assert_eq!(outcomes.collect::<Vec<_>>(), [vec![value("paid 1"), value("paid 2")], vec![value("paid 3")]]);
}

#[test]
fn without_ids_a_call_is_told_where_its_name_leaves_no_doubt() {
    let older = |calls: &[(&str, &str, &str)], paths: &[&str]| {
        let ran = |journal: Journal, path: &&str| {
            journal.step(identity(path, "tool", "pay", None), StepResult::Value(json!(path)))
        };
        paths.iter().fold(Journal::new().said("0#1", calls), ran).outcomes()
    };
    let two = [PAY, ("c2", "pay", "{}")];
    let value = |path| CallOutcome::Value(json!(path));
    assert_eq!(older(&[PAY, ("c2", "look", "{}")], &["0.0#1"]), [value("0.0#1"), CallOutcome::Unfinished]);
    assert_eq!(older(&two, &["0.10#1", "0.9#1"]), [value("0.9#1"), value("0.10#1")]);
    assert_eq!(older(&two, &["0.0#1"]), [CallOutcome::Unknown, CallOutcome::Unknown]);
}

#[test]
fn what_finished_inside_of_a_call_without_an_end_is_told_with_its_message() {
    let journal = Journal::new()
        .said("0#1", &[("c1", "clerk", r#"{"input": "pay"}"#)])
        .said("0.0#1/0#1", &[PAY, ("c2", "refund", "{}")])
        .asked("0.0#1/0.1#1", "c2", 1)
        .answered(1, json!({"approved": false}))
        .ran("0.0#1/0.0#1", "pay", "c1", json!("paid 5"))
        .step(identity("0.0#1/0.2~note", "step", "note", None), StepResult::Value(json!("a password")));
    let reply = journal.told().unwrap().turns.remove(0).replies.remove(0);
    assert_eq!(reply.calls.iter().map(|call| call.outcome.clone()).collect::<Vec<_>>(), [CallOutcome::Unfinished]);
    let no = CallOutcome::Rejected { reason: None, message: None, by: Decider::Person };
    let within: Vec<_> =
        reply.within.iter().map(|call| (call.name.as_str(), call.arguments.as_deref(), call.outcome.clone())).collect();
    let expected = [
        ("refund", Some("{}"), no),
        ("pay", Some(r#"{"cents": 5}"#), CallOutcome::Value(json!("paid 5"))),
        ("note", None, CallOutcome::Finished),
    ];
    assert_eq!(within, expected);
    // With a result of its own, nothing of its inside is anybody's business.
    let ended = journal.ran("0.0#1", "clerk", "c1", json!("all paid")).told().unwrap().turns.remove(0).replies;
    assert_eq!((ended.len(), ended[0].within.len()), (1, 0));
    assert_eq!(ended[0].calls[0].outcome, CallOutcome::Value(json!("all paid")));
}

#[test]
fn a_once_call_with_steps_of_its_own_is_not_in_flight() {
    let inner = identity("0.0#1/0#1", "step", "charge", None);
    let journal =
        Journal::new().said("0#1", &[PAY]).began("0.0#1", "pay", "c1").step(inner, StepResult::Value(Value::Null));
    let reply = journal.told().unwrap().turns.remove(0).replies.remove(0);
    assert_eq!((&reply.calls[0].outcome, &reply.within[0].outcome), (&CallOutcome::Unfinished, &CallOutcome::Finished));
}

#[test]
fn what_earlier_turns_did_goes_on_to_the_next_one() {
    let first = Journal::new().said("0#1", &[PAY]).ran("0.0#1", "pay", "c1", json!("paid")).told();
    let nothing_new = known(first.as_ref(), &message("Hello?"), &Journal::new().0);
    assert_eq!(nothing_new, first);
    let more = Journal::new().said("0#1", &[PAY]).ran("0.0#1", "pay", "c1", json!("paid again"));
    let both = known(first.as_ref(), &message("Once more."), &more.0).unwrap();
    let said: Vec<_> = both.turns.iter().map(|turn| turn.message.content.as_deref()).collect();
    assert_eq!(said, [Some("Pay."), Some("Once more.")]);
}

#[test]
fn long_texts_are_shortened_and_arguments_stay_json() {
    let long = "ä".repeat(LONGEST);
    let arguments = json!({"text": long}).to_string();
    let journal = Journal::new().said("0#1", &[("c1", "write", &arguments)]).ran("0.0#1", "write", "c1", json!(long));
    let told = known(None, &message(&long), &journal.0).unwrap().turns.remove(0);
    assert!(told.message.content.is_some_and(|content| content.len() <= LONGEST + 3 && content.ends_with("...")));
    let call = &told.replies[0].calls[0];
    let shown: Value = serde_json::from_str(call.arguments.as_deref().unwrap()).unwrap();
    assert!(shown["shortened"].as_str().is_some_and(|start| start.starts_with("{\"text\":\"ää")));
    assert!(
        matches!(&call.outcome, CallOutcome::Beginning(start) if start.starts_with("ää") && start.len() <= LONGEST)
    );
}

/// A picture of more than `LONGEST` bytes, as the worker's codec writes it.
fn picture() -> Value {
    let fields = json!({"media_type": "image/png", "data": "iVBOR".repeat(2000), "url": null, "name": "sales.png"});
    json!({"$hitl": "dataclass", "type": "hitl.attachments:Attachment", "value": fields})
}

#[test]
fn of_a_result_that_holds_a_picture_the_words_are_told_and_the_picture_is_named() {
    let ran = |value| Journal::new().said("0#1", &[PAY]).ran("0.0#1", "pay", "c1", value).outcomes().remove(0);
    let mark = "[attachment 1: sales.png, image/png]";
    assert_eq!(ran(json!(["Sales:", picture()])), CallOutcome::Value(json!(format!("Sales:\n{mark}"))));
    assert_eq!(ran(json!({"drawn": picture()})), CallOutcome::Value(json!({"drawn": mark})));
    let long = "x".repeat(LONGEST);
    let CallOutcome::Beginning(start) = ran(json!([picture(), long])) else { panic!("all of it is told") };
    assert!(start.starts_with(&format!("{mark}\nxxx")) && start.len() <= LONGEST);
}

#[test]
fn what_a_person_answered_in_the_tool_s_place_is_told_as_it_is() {
    let value = json!({"type": "respond", "message": {"$hitl": "dataclass", "type": "hitl.attachments:Attachment"}});
    let said = CallOutcome::Responded(value["message"].clone());
    assert_eq!(Journal::new().said("0#1", &[PAY]).asked("0.0#1", "c1", 1).answered(1, value).outcomes(), [said]);
}

#[test]
fn the_message_keeps_addresses_and_names_the_files_that_it_had() {
    let told = |message: Value| {
        let message: ChatMessage = serde_json::from_value(message).unwrap();
        let journal = Journal::new().said("0#1", &[PAY]).ran("0.0#1", "pay", "c1", json!("paid"));
        known(None, &message, &journal.0).unwrap().turns.remove(0).message
    };
    let far = json!({"media_type": "image/png", "url": "https://example.org/far.png", "name": "far.png"});
    let near = json!({"media_type": "text/plain", "data": "aGk=", "name": "in.txt"});
    let given = json!({"content": "Pay.", "base64_image": "/9j/4AAQ", "attachments": [near, far]});
    let lines = "[attached, and left out here: image/jpeg]\n[attached, and left out here: in.txt, text/plain]";
    let kept = told(given);
    assert_eq!(kept.content, Some(format!("Pay.\n\n{lines}")));
    assert_eq!((json!(kept.attachments), kept.base64_image), (json!([far]), None));
    // Without a word of its own it is no empty message.
    assert_eq!(told(json!({"content": "", "attachments": [near]})).content.as_deref(), lines.lines().last());
    assert_eq!(told(json!({"attachments": [near]})).content.as_deref(), lines.lines().last());
    let alone = told(json!({"attachments": [far]}));
    assert_eq!((alone.content, json!(alone.attachments)), (None, json!([far])));
}

#[test]
fn so_many_files_are_kept_and_named_as_there_is_room_for() {
    let far = |number| json!({"media_type": "image/png", "url": format!("https://example.org/{number}/{}", "x".repeat(1000))});
    let near = |number| json!({"media_type": "text/plain", "data": "aGk=", "name": format!("{number}.txt")});
    let attachments: Vec<Value> = (0..9).map(far).chain((0..1000).map(near)).collect();
    let message: ChatMessage = serde_json::from_value(json!({"attachments": attachments})).unwrap();
    let journal = Journal::new().said("0#1", &[PAY]).ran("0.0#1", "pay", "c1", json!("paid"));
    let told = known(None, &message, &journal.0).unwrap().turns.remove(0).message;
    assert_eq!(json!(told.attachments), json!([far(0), far(1), far(2)]));
    let named = told.content.unwrap();
    assert!(named.len() <= LONGEST + 3 && named.ends_with("..."));
    assert_eq!(named.matches("image/png]").count(), 6);
    assert!(named.contains("[attached, and left out here: 0.txt, text/plain]"));
}

#[test]
fn the_oldest_is_left_out_first_and_counted() {
    let result = json!("x".repeat(LONGEST));
    let turn = |before: Option<Abandoned>, number: usize| {
        let journal = Journal::new().said("0#1", &[PAY]).ran("0.0#1", "pay", "c1", result.clone());
        known(before.as_ref(), &message(&number.to_string()), &journal.0)
    };
    let all = (0..20).fold(None, turn).unwrap();
    assert!(json!(all).to_string().len() <= MOST);
    assert_eq!((all.left_out + all.turns.len(), all.turns.len() > 3), (20, true));
    assert_eq!(all.turns.last().unwrap().message.content.as_deref(), Some("19"));
}

#[test]
fn of_a_single_message_with_too_many_calls_every_call_is_told_shortly() {
    let ids: Vec<String> = (0..20).map(|number| format!("c{number}")).collect();
    let calls: Vec<_> = ids.iter().map(|id| (id.as_str(), "pay", "{}")).collect();
    let ran = |journal: Journal, (number, id): (usize, &String)| {
        journal.ran(&format!("0.{number}#1"), "pay", id, json!("x".repeat(LONGEST)))
    };
    let journal = ids.iter().enumerate().fold(Journal::new().said("0#1", &calls), ran);
    let told = journal.told().unwrap();
    assert!(json!(told).to_string().len() <= MOST);
    assert_eq!((journal.calls().len(), told.left_out), (20, 0));
    assert!(journal.outcomes().iter().all(|outcome| matches!(outcome, CallOutcome::Beginning(_))));
}

#[test]
fn of_a_single_message_with_more_calls_than_fit_the_last_ones_are_told_and_the_others_counted() {
    let ids: Vec<String> = (0..5000).map(|number| format!("c{number}")).collect();
    let calls: Vec<_> = ids.iter().map(|id| (id.as_str(), "pay", "{}")).collect();
    let journal = Journal::new().said("0#1", &calls).ran("0.4999#1", "pay", "c4999", json!("paid"));
    let told = journal.told().unwrap();
    assert!(json!(told).to_string().len() <= MOST);
    let calls = journal.calls();
    assert_eq!(calls.last().unwrap().outcome, CallOutcome::Value(json!("paid")));
    assert_eq!((calls.len() + told.left_out, calls.len() > 100), (5000, true));
}

#[test]
fn of_many_messages_the_last_are_told_and_the_calls_of_the_others_counted() {
    let said = |journal: Journal, number: usize| {
        let (id, result) = (format!("c{number}"), json!("x".repeat(LONGEST)));
        let journal = journal.said(&format!("0#{number}"), &[(&id, "pay", "{}")]);
        journal.ran(&format!("0.{number}#1"), "pay", &id, result)
    };
    let before = Journal::new().said("0#1", &[PAY]).told();
    let journal = (0..3000).fold(Journal::new(), said);
    let told = known(before.as_ref(), &message("go"), &journal.0).unwrap();
    assert!(json!(told).to_string().len() <= MOST);
    let [turn] = told.turns.as_slice() else { panic!("{told:?}") };
    assert_eq!(turn.replies.last().unwrap().calls[0].id.as_deref(), Some("c2999"));
    assert_eq!((turn.replies.len() + told.left_out, turn.replies.len() > 3), (3001, true));
}

#[test]
fn what_nests_too_deeply_to_be_told_in_the_next_turn_is_told_as_text() {
    for levels in 95..=MAX_STORED_DEPTH {
        let deep = (0..levels).fold(json!(1), |inner, _| json!([inner]));
        let journal = Journal::new().said("0#1", &[PAY]).ran("0.0#1", "pay", "c1", deep.clone());
        let told = journal.told().unwrap();
        let start = Entry::Start {
            code: "c".to_owned(),
            python: "3.11".to_owned(),
            policy: false,
            abandoned: Some(Box::new(told)),
            traceparent: None,
        };
        assert!(depth(&json!(start)) <= MAX_STORED_DEPTH, "{levels}");
        let is_whole = journal.outcomes() == [CallOutcome::Value(deep)];
        assert_eq!(is_whole, levels <= MAX_DEPTH, "{levels}");
    }
}

#[test]
fn a_turn_that_has_ended_tells_what_it_did_like_any_other() {
    // Whether it is to be told at all is the session's to say.
    let journal = Journal::new().said("0#1", &[PAY]).ran("0.0#1", "pay", "c1", json!("paid"));
    let told = journal.told();
    assert_eq!(journal.and(Entry::End { ending: Ending::Done }).told(), told);
}

#[test]
fn steps_that_are_named_by_keys_are_those_of_the_last_message_with_their_call() {
    let journal = Journal::new()
        .said("~model:payer", &[PAY, ("c/2", "refund", "{}")])
        .asked("~approval:c1", "c1", 1)
        .ran("~tool:c%2F2", "refund", "c/2", json!("refunded"))
        .answered(1, json!({"type": "edit", "args": {"cents": 3}}))
        .began("~tool:c1", "pay", "c1")
        .ran("~tool:c1", "pay", "c1", json!("paid 3"));
    let calls = journal.calls();
    let outcomes: Vec<_> = calls.iter().map(|call| call.outcome.clone()).collect();
    assert_eq!(outcomes, [CallOutcome::Value(json!("paid 3")), CallOutcome::Value(json!("refunded"))]);
    assert_eq!(json!(calls[0].edited), json!({"cents": 3}));
    // Models use ids again, and an agent that was handed the conversation has another name.
    let again = journal.said("~model:clerk", &[PAY]).asked("~approval:c1#2", "c1", 2);
    let replies = again.told().unwrap().turns.remove(0).replies;
    let outcomes: Vec<_> = replies.iter().map(|reply| reply.calls[0].outcome.clone()).collect();
    assert_eq!(outcomes, [CallOutcome::Value(json!("paid 3")), CallOutcome::Undecided]);
    let begun = again.began("~tool:c1#2", "pay", "c1").told().unwrap().turns.remove(0).replies;
    assert_eq!(begun[1].calls[0].outcome, CallOutcome::Unknown);
}

#[test]
fn a_conversation_goes_through_the_nodes_of_a_graph() {
    let journal = Journal::new()
        .said("~node:model:1/~model:payer", &[PAY])
        .step(identity("~node:model:1", "step", "model", None), StepResult::Value(json!({"writes": []})))
        .asked("~node:gate:2/~approval:c1", "c1", 1)
        .answered(1, json!({"approved": true}))
        .ran("~node:tools:3:0/~tool:c1#!2", "pay", "c1", json!("paid 5"));
    assert_eq!(journal.outcomes(), [CallOutcome::Value(json!("paid 5"))]);
}

#[test]
fn what_a_graph_in_a_tool_did_is_told_with_the_call_and_of_its_nodes_those_without_steps() {
    let inside = "~node:tools:3:0/~tool:c1";
    let node = |journal: Journal, path: &str, name: &str| {
        journal.step(identity(path, "step", name, None), StepResult::Value(json!({"writes": []})))
    };
    let journal = Journal::new()
        .said("~node:model:1/~model:boss", &[("c1", "clerk", "{}")])
        .said(&format!("{inside}/~node:model:1/~model:clerk"), &[PAY]);
    let journal = node(journal, &format!("{inside}/~node:model:1"), "model").ran(
        &format!("{inside}/~node:tools:2/~tool:c1"),
        "pay",
        "c1",
        json!("paid 5"),
    );
    let journal = node(journal, &format!("{inside}/~node:tools:2"), "tools");
    let journal = node(journal, &format!("{inside}/~node:charge:3"), "charge");
    let reply = journal.told().unwrap().turns.remove(0).replies.remove(0);
    assert_eq!(reply.calls[0].outcome, CallOutcome::Unfinished);
    let within: Vec<_> = reply.within.iter().map(|call| (call.name.as_str(), call.outcome.clone())).collect();
    assert_eq!(within, [("pay", CallOutcome::Value(json!("paid 5"))), ("charge", CallOutcome::Finished)]);
    assert_eq!(reply.within[0].arguments.as_deref(), Some(r#"{"cents": 5}"#));
}

#[test]
fn of_a_call_that_runs_elsewhere_the_answer_is_its_result() {
    let put = identity("~ask:c1", "interrupt", "external_call", Some("c1"));
    let put = Entry::Ask { step: put, interrupt_id: InterruptId(Uuid::from_u128(1)) };
    let asked = || Journal::new().said("~model:payer", &[PAY]).and(put.clone());
    assert_eq!(asked().outcomes(), [CallOutcome::Unfinished]);
    assert_eq!(asked().answered(1, json!("paid")).outcomes(), [CallOutcome::Responded(json!("paid"))]);
}
