#![allow(clippy::unwrap_used)]

mod fuzz;

use serde_json::json;
use uuid::Uuid;

use super::*;
use crate::domain::interrupt::{Ask, Opening};
use crate::domain::journal::StepIdentity;

fn now() -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000)
}

fn asked(id: u128, expires_in: Option<f64>) -> (RecordedEntry, Interrupt) {
    let mut ask: Ask = serde_json::from_value(json!({
        "type": "tool_approval",
        "payload": {"type": "tool_approval", "tool_name": "pay", "tool_args": {"amount": id as u64}},
        "tool_call_id": "call_1",
        "agent": "agent",
    }))
    .unwrap();
    ask.expires_in = expires_in;
    let opening = Opening {
        id: InterruptId(Uuid::from_u128(id)),
        session: SessionId(Uuid::from_u128(1)),
        turn: TurnId(Uuid::from_u128(2)),
        now: now(),
        default_ttl: 0.0,
        max_payload: 16_384,
    };
    let interrupt = Interrupt::opened(ask, opening).unwrap();
    let step = StepIdentity {
        path: format!("0#{id}"),
        kind: "interrupt".to_owned(),
        name: "tool_approval".to_owned(),
        location: None,
        arguments: serde_json::Map::new(),
        tool_call_id: None,
    };
    (RecordedEntry { at: now(), entry: Entry::Ask { step, interrupt_id: interrupt.interrupt_id } }, interrupt)
}

fn state(asks: impl IntoIterator<Item = (RecordedEntry, Interrupt)>) -> RunState {
    let start = Entry::Start {
        code: "code".to_owned(),
        python: "3.11".to_owned(),
        policy: false,
        abandoned: None,
        traceparent: None,
    };
    let mut journal = vec![RecordedEntry { at: now(), entry: start }];
    let mut interrupts = Vec::new();
    for (entry, interrupt) in asks {
        journal.push(entry);
        interrupts.push(interrupt);
    }
    journal.push(RecordedEntry { at: now(), entry: Entry::Pause { timers: Vec::new(), context: None } });
    RunState {
        library: "0.1.0".to_owned(),
        agent: "agent".to_owned(),
        agent_name: None,
        code: "code".to_owned(),
        store: None,
        session: SessionId(Uuid::from_u128(1)),
        turn: TurnId(Uuid::from_u128(2)),
        message: ChatMessage { content: Some("hello".to_owned()), ..ChatMessage::default() },
        messages: Vec::new(),
        journal,
        interrupts,
        grants: Vec::new(),
        rules: Vec::new(),
        context: None,
    }
}

fn two() -> RunState {
    state([asked(10, None), asked(11, None)])
}

fn grant() -> GrantId {
    GrantId(Uuid::from_u128(99))
}

fn id(number: u128) -> String {
    Uuid::from_u128(number).to_string()
}

#[test]
fn what_is_written_reads_back_whole() {
    let mut before = two();
    before.answer(vec![(id(10), json!({"type": "approve"}))], Some("key"), now(), grant).unwrap();
    before.context = Some(json!({"user": 3}));
    before.store = Some(StoreId(Uuid::from_u128(7)));
    let text = before.write().unwrap();
    assert_eq!(RunState::read(&text).unwrap(), before);
    assert!(!text.contains("null"), "nulls are left out: {text}");
}

#[test]
fn a_state_that_says_two_things_is_none() {
    let text = two().write().unwrap();
    let doubled = text.replacen('{', r#"{"agent":"another","#, 1);
    let Err(Error::RunStateInvalid(why)) = RunState::read(&doubled) else { panic!("{doubled} was taken") };
    assert!(why.contains("is there more than once"), "{why}");
}

#[test]
fn a_later_format_is_refused_whatever_else_is_in_it() {
    let text = json!({"version": 2, "library": "9.9.9", "journal": "of another kind"}).to_string();
    let error = RunState::read(&text).unwrap_err();
    assert_eq!(
        error.to_string(),
        "The run state has version 2, written by hitl 9.9.9; this version of hitl reads up to 1"
    );
}

#[test]
fn what_is_no_state_says_why() {
    let mut ended = two();
    ended.journal.push(RecordedEntry { at: now(), entry: Entry::Cancel {} });
    let mut headless = two();
    headless.journal.remove(0);
    let mut unasked = two();
    unasked.journal.remove(1);
    let mut unlisted = two();
    unlisted.interrupts.remove(0);
    let texts = [
        ("[]".to_owned(), "no JSON object"),
        ("{}".to_owned(), "it has no version"),
        (json!({"version": 0}).to_string(), "no version 0"),
        (json!({"version": 1}).to_string(), "missing field"),
        (ended.write().unwrap(), "its turn has ended"),
        (headless.write().unwrap(), "does not begin with a start"),
        (unlisted.write().unwrap(), "of which it says nothing"),
        (unasked.write().unwrap(), "nothing in its journal asks interrupt"),
    ];
    for (text, why) in texts {
        let error = RunState::read(&text).unwrap_err();
        assert!(matches!(error, Error::RunStateInvalid(_)) && error.to_string().contains(why), "{error}");
    }
}

#[test]
fn an_answer_is_an_entry_of_the_journal() {
    let mut state = two();
    assert!(state.is_undecided());
    assert_eq!(state.answer(vec![(id(11), json!({"approved": true}))], None, now(), grant).unwrap(), 1);
    assert!(
        matches!(state.journal.last().unwrap().entry, Entry::Answer { interrupt_id, .. } if interrupt_id.0.as_u128() == 11)
    );
    assert_eq!(state.pending().map(|open| open.interrupt_id.0.as_u128()).collect::<Vec<_>>(), [10]);
    assert!(!state.is_undecided());
}

#[test]
fn a_decision_for_always_is_a_grant_of_the_state() {
    let mut state = two();
    state.answer(vec![(id(10), json!({"type": "approve", "always": true}))], Some("ann"), now(), grant).unwrap();
    let read = RunState::read(&state.write().unwrap()).unwrap();
    assert_eq!(read.grants.len(), 1);
    assert_eq!((read.grants[0].tool.as_str(), read.grants[0].created_by.as_deref()), ("pay", Some("ann")));
}

#[test]
fn what_is_refused_changes_nothing() {
    let approve = || json!({"type": "approve"});
    let cases = [
        (vec![(id(10), approve()), (id(12), approve())], Error::UnknownInterrupt(id(12)).code()),
        (vec![(id(10), approve()), ("?".to_owned(), approve())], Error::UnknownInterrupt(String::new()).code()),
        (vec![(id(10), approve()), (id(10), approve())], Error::DuplicateAnswer(String::new()).code()),
        (vec![(id(10), approve()), (id(11), json!({"approved": "yes"}))], Error::InvalidAnswer(Vec::new()).code()),
    ];
    for (answers, code) in cases {
        let mut state = two();
        assert_eq!(state.answer(answers, None, now(), grant).unwrap_err().code(), code);
        assert_eq!(state, two());
    }
    let mut nothing = state([]);
    assert_eq!(nothing.answer(vec![(id(10), approve())], None, now(), grant), Err(Error::NothingPending));
}

#[test]
fn the_first_decision_counts_and_the_same_again_is_none() {
    let mut state = two();
    state.answer(vec![(id(10), json!({"type": "approve"}))], None, now(), grant).unwrap();
    assert_eq!(state.answer(vec![(id(10), json!({"approved": true}))], None, now(), grant), Ok(0));
    let other = state.answer(vec![(id(10), json!({"type": "reject"}))], None, now(), grant);
    assert_eq!(other.unwrap_err().code(), "already_resolved");
}

#[test]
fn what_was_settled_before_the_pause_is_no_unknown_interrupt() {
    let mut later = two();
    later.answer(vec![(id(10), json!({"type": "approve"}))], None, now(), grant).unwrap();
    later.interrupts.remove(0);
    let again = later.answer(vec![(id(10), json!({"type": "approve"}))], None, now(), grant);
    assert_eq!(again.unwrap_err().code(), "already_resolved");
}

#[test]
fn what_nobody_answered_in_time_expires_and_takes_no_answer() {
    let mut state = state([asked(10, Some(60.0)), asked(11, None)]);
    let late = now().plus_seconds(61.0);
    let refused = state.answer(vec![(id(10), json!({"type": "approve"}))], None, late, grant);
    assert_eq!(refused.unwrap_err().code(), "interrupt_expired");
    let state = state.expired(late).into_owned();
    assert!(matches!(state.journal.last().unwrap().entry, Entry::Expire { .. }));
    assert_eq!(state.pending().count(), 1);
}

#[test]
fn a_context_stands_in_it_once() {
    let mut state = two();
    for (place, user) in [(1, 1), (4, 2)] {
        let entry = Entry::Pause { timers: Vec::new(), context: Some(json!({"owner": user})) };
        state.journal.insert(place, RecordedEntry { at: now(), entry });
    }
    let apart = state.clone().with_context_apart();
    assert_eq!(apart.context, Some(json!({"owner": 2})));
    assert_eq!(apart.write().unwrap().matches("owner").count(), 1);
    let whole = apart.whole_journal();
    assert!(
        matches!(&whole.last().unwrap().entry, Entry::Pause { context: Some(context), .. } if context["owner"] == 2)
    );
}

#[test]
fn what_an_interrupt_lets_run_is_known_elsewhere_too() {
    let mut before = two();
    before.interrupts[0].lets_run = true;
    before.interrupts[0].kind = "hook_interrupt".to_owned();
    before.interrupts[0].response_schema = None;
    let read = RunState::read(&before.write().unwrap()).unwrap();
    assert_eq!(read.interrupts.iter().map(|asked| asked.lets_run).collect::<Vec<_>>(), [true, false]);
}

#[test]
fn a_state_is_of_the_agent_that_is_imported_from_there_or_calls_itself_so() {
    let cases = [
        // (agent of the state, its name), (served, its name)
        (("shop:agent", None), ("shop:agent", None), true),
        (("shop:agent", Some("clerk")), ("bank:agent", Some("clerk")), false),
        (("clerk", None), ("shop:agent", Some("clerk")), true),
        (("clerk", None), ("shop:agent", Some("boss")), false),
        (("clerk", None), ("shop:agent", None), false),
        (("clerk", None), ("clerk", None), true),
        (("clerk", None), ("boss", None), false),
        (("shop:agent", Some("clerk")), ("clerk", None), true),
        // Of an older release: nobody knows what it calls itself.
        (("shop:agent", None), ("clerk", None), false),
    ];
    for ((agent, agent_name), (served, name), is_of) in cases {
        let state = RunState { agent: agent.to_owned(), agent_name: agent_name.map(str::to_owned), ..two() };
        assert_eq!(state.is_of(served, name), is_of, "{agent} {agent_name:?} {served} {name:?}");
    }
}

#[test]
fn a_state_goes_on_from_where_its_turn_stood() {
    let mut later = two();
    let stand = JournalPosition::of(&later.journal).unwrap();
    assert_eq!(later.goes_on_from(&stand), Ok(true));
    later.answer(vec![(id(10), json!({"type": "approve"}))], None, now(), grant).unwrap();
    assert_eq!(later.goes_on_from(&stand), Ok(true));
    assert_eq!(two().goes_on_from(&JournalPosition::of(&later.journal).unwrap()), Ok(false));
    let mut other = two();
    other.answer(vec![(id(10), json!({"type": "reject"}))], None, now(), grant).unwrap();
    assert_eq!(other.goes_on_from(&JournalPosition::of(&later.journal).unwrap()), Ok(false));
    // The context is held apart, and may be another one.
    let mut stored = later.clone();
    if let Entry::Pause { context, .. } = &mut stored.journal[3].entry {
        *context = Some(json!({"user": 1}));
    }
    assert_eq!(later.goes_on_from(&JournalPosition::of(&stored.journal).unwrap()), Ok(true));
}
