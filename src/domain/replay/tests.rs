//! What a replay answers, by example.

use serde_json::{Value, json};

use super::*;

mod mismatches;

fn step(path: &str, kind: &str, name: &str) -> StepIdentity {
    step_with(path, kind, name, json!({"input": "1"}))
}

fn step_with(path: &str, kind: &str, name: &str, arguments: Value) -> StepIdentity {
    let step = json!({"path": path, "kind": kind, "name": name, "location": "agent.py:12", "arguments": arguments});
    serde_json::from_value(step).unwrap()
}

fn tool(path: &str) -> StepIdentity {
    step(path, "tool", "work")
}

/// A journal, written down entry by entry; every entry is as many milliseconds after 1970 as its index says.
struct Case(Vec<Value>);

fn case() -> Case {
    Case(vec![json!({"at": 0, "entry": "start", "code": "aaaa", "python": "3.11"})])
}

impl Case {
    fn entry(mut self, mut entry: Value) -> Self {
        entry["at"] = json!(self.0.len());
        self.0.push(entry);
        self
    }

    fn done(self, step: &StepIdentity) -> Self {
        self.entry(json!({"entry": "step", "step": step, "result": {"value": {"kept": ["by", "the", "caller"]}}}))
    }

    fn intent(self, step: &StepIdentity) -> Self {
        self.entry(json!({"entry": "intent", "step": step}))
    }

    fn asked(self, step: &StepIdentity, interrupt: &str) -> Self {
        self.entry(json!({"entry": "ask", "step": step, "interrupt_id": interrupt}))
    }

    fn answer(self, interrupt: &str) -> Self {
        self.entry(json!({"entry": "answer", "interrupt_id": interrupt, "value": null}))
    }

    fn expire(self, interrupt: &str) -> Self {
        self.entry(json!({"entry": "expire", "interrupt_id": interrupt}))
    }

    fn withdraw(self, interrupt: &str) -> Self {
        self.entry(json!({"entry": "withdraw", "interrupt_id": interrupt}))
    }

    fn timer(self, path: &str) -> Self {
        self.entry(json!({"entry": "timer", "path": path, "due": 7}))
    }

    fn wakes(self, wakes: &[(usize, &str)]) -> Self {
        let wakes: Vec<Value> = wakes.iter().map(|(after, task)| json!({"after": after, "task": task})).collect();
        self.entry(json!({"entry": "wakes", "wakes": wakes}))
    }

    fn pause(self) -> Self {
        self.entry(json!({"entry": "pause", "timers": [{"path": "0@1", "due": 9}]}))
    }

    fn taken(self, code: &str) -> Self {
        self.entry(json!({"entry": "taken", "code": code, "python": "3.12"}))
    }

    fn replay(self) -> Replay {
        self.read().unwrap()
    }

    fn read(self) -> Result<Replay, Invalid> {
        let entries = self.0.into_iter().map(|entry| serde_json::from_value(entry).unwrap()).collect();
        Replay::new(entries, "bbbb")
    }
}

fn deliver(index: usize, path: &str) -> ReplayAction<'_> {
    ReplayAction::Deliver { index, path }
}

fn mismatch(refused: Result<StepLookup, AskError>) -> Mismatch {
    match refused {
        Err(AskError::Mismatch(mismatch)) => *mismatch,
        other => panic!("{other:?} is no mismatch"),
    }
}

// -- what becomes of an ask

#[test]
fn what_the_journal_does_not_hold_is_done_live() {
    let mut replay = case().replay();
    assert_eq!(replay.ask(tool("0#1"), false).unwrap(), StepLookup::Live);
    assert_eq!(replay.next(), ReplayAction::End);
    assert!(replay.is_done());
}

#[test]
fn a_finished_step_is_delivered_in_its_turn_and_once() {
    let mut replay = case().done(&tool("0#1")).done(&tool("0#2")).replay();
    assert_eq!(replay.ask(tool("0#1"), false).unwrap(), StepLookup::Recorded);
    assert_eq!(replay.next(), deliver(1, "0#1"));
    assert_eq!(replay.next(), ReplayAction::Wait);
    assert_eq!(replay.ask(tool("0#2"), false).unwrap(), StepLookup::Recorded);
    assert_eq!(replay.next(), deliver(2, "0#2"));
    assert_eq!(replay.next(), ReplayAction::End);
}

#[test]
fn results_come_in_the_order_of_the_journal_whoever_asked_first() {
    let mut replay = case().done(&tool("0.2#1")).done(&tool("0.1#1")).replay();
    replay.ask(tool("0.1#1"), false).unwrap();
    assert_eq!(replay.next(), ReplayAction::Wait);
    replay.ask(tool("0.2#1"), false).unwrap();
    assert_eq!(replay.next(), deliver(1, "0.2#1"));
    assert_eq!(replay.next(), deliver(2, "0.1#1"));
}

#[test]
fn an_interrupt_gets_its_id_then_its_answer_or_expiry() {
    for settle in [Case::answer, Case::expire] {
        let question = step("0#1", "interrupt", "tool_approval");
        let mut replay = settle(case().asked(&question, "i1").pause(), "i1").replay();
        assert_eq!(replay.next(), ReplayAction::Wait);
        assert_eq!(replay.ask(question, false).unwrap(), StepLookup::Interrupt("i1".to_owned()));
        assert_eq!(replay.next(), deliver(3, "0#1"));
        assert_eq!(replay.next(), ReplayAction::End);
    }
}

#[test]
fn an_open_interrupt_keeps_its_id_and_the_turn_goes_live() {
    let question = step("0#1", "interrupt", "tool_approval");
    let mut replay = case().asked(&question, "i1").pause().taken("cccc").replay();
    assert_eq!(replay.ask(question, false).unwrap(), StepLookup::Interrupt("i1".to_owned()));
    assert_eq!(replay.next(), ReplayAction::End);
    assert!(replay.orphans().is_empty());
}

#[test]
fn a_once_step_without_a_result_says_when_it_began() {
    let mut replay = case().intent(&tool("0#1")).intent(&tool("0#1")).replay();
    assert_eq!(replay.next(), ReplayAction::Wait);
    assert_eq!(replay.ask(tool("0#1"), true).unwrap(), StepLookup::Intent(1));
    assert_eq!(replay.intents("0#1"), [1, 2]);
    assert_eq!(replay.intents("0#2"), [0; 0]);
    assert_eq!(replay.next(), ReplayAction::End);
    assert!(replay.warnings().is_empty());
}

#[test]
fn a_step_that_is_once_no_more_has_an_unknown_outcome_all_the_same() {
    let mut replay = case().intent(&tool("0#1")).replay();
    assert_eq!(replay.ask(tool("0#1"), false).unwrap(), StepLookup::Intent(1));
    assert_eq!(
        replay.warnings(),
        ["tool \"work\" (0#1, agent.py:12): it began as a once step, so its outcome counts as unknown"]
    );
}

#[test]
fn asking_what_became_of_a_once_step_is_not_its_body() {
    let question = step("0#1/?1", "interrupt", "unknown_outcome");
    let mut replay = case().intent(&tool("0#1")).asked(&question, "i1").answer("i1").replay();
    assert_eq!(replay.ask(tool("0#1"), true).unwrap(), StepLookup::Intent(1));
    assert_eq!(replay.ask(question, false).unwrap(), StepLookup::Interrupt("i1".to_owned()));
    assert_eq!(replay.next(), deliver(3, "0#1/?1"));
    assert_eq!(replay.next(), ReplayAction::End);
}

#[test]
fn a_finished_once_step_is_just_finished() {
    let mut replay = case().intent(&tool("0#1")).done(&tool("0#1")).replay();
    assert_eq!(replay.ask(tool("0#1"), true).unwrap(), StepLookup::Recorded);
    assert_eq!(replay.next(), deliver(2, "0#1"));
}

#[test]
fn a_path_that_is_asked_twice_is_our_bug() {
    let mut replay = case().replay();
    replay.ask(tool("0#1"), false).unwrap();
    let error = replay.ask(tool("0#1"), false).unwrap_err();
    assert!(matches!(&error, AskError::Invalid(_)), "{error}");
    assert_eq!(error.to_string(), "the step 0#1 was asked for before");
}

// -- nested steps

#[test]
fn a_body_without_a_result_runs_again_and_is_served() {
    let mut replay = case().done(&tool("0#1/0#1")).asked(&step("0#1/0#2", "interrupt", "ok"), "i1").replay();
    assert_eq!(replay.ask(tool("0#1"), false).unwrap(), StepLookup::Body);
    assert_eq!(replay.next(), ReplayAction::Wait);
    assert_eq!(replay.ask(tool("0#1/0#1"), false).unwrap(), StepLookup::Recorded);
    assert_eq!(replay.next(), deliver(1, "0#1/0#1"));
    let asked = replay.ask(step("0#1/0#2", "interrupt", "ok"), false).unwrap();
    assert_eq!(asked, StepLookup::Interrupt("i1".to_owned()));
    assert_eq!(replay.next(), ReplayAction::End);
}

#[test]
fn a_timer_of_a_body_makes_it_run_again() {
    let mut replay = case().timer("0#1/0@1").replay();
    assert_eq!(replay.ask(tool("0#1"), false).unwrap(), StepLookup::Body);
}

#[test]
fn the_inner_entries_of_a_finished_step_are_left_out_with_their_answers() {
    let mut replay = case()
        .done(&tool("0#1/0#1/0#1"))
        .done(&tool("0#1/0#1"))
        .asked(&step("0#1/0#2", "interrupt", "ok"), "i1")
        .timer("0#1/0@1")
        .answer("i1")
        .wakes(&[(1, "0#1/0.1")])
        .intent(&tool("0#1/0#3"))
        .done(&tool("0#1"))
        .replay();
    assert_eq!(replay.ask(tool("0#1"), false).unwrap(), StepLookup::Recorded);
    assert_eq!(replay.next(), deliver(8, "0#1"));
    assert_eq!(replay.next(), ReplayAction::End);
    assert!(matches!(replay.ask(tool("0#1/0#1"), false), Err(AskError::Invalid(_))));
}

#[test]
fn a_keyed_step_holds_its_inner_steps_wherever_it_is_called() {
    let mut replay = case().done(&tool("~charge/0#1")).replay();
    assert_eq!(replay.ask(tool("~charge"), false).unwrap(), StepLookup::Body);
    assert_eq!(replay.ask(tool("~charge#2"), false).unwrap(), StepLookup::Live);
}

// -- timers

#[test]
fn a_timer_fires_in_its_turn_once_it_is_armed() {
    let mut replay = case().timer("0@1").replay();
    assert_eq!(replay.next(), ReplayAction::Wait);
    replay.arm("0@1").unwrap();
    assert_eq!(replay.next(), deliver(1, "0@1"));
    replay.disarm("0@1");
    assert_eq!(replay.next(), ReplayAction::End);
    assert!(replay.arm("0@1").is_err());
}

#[test]
fn a_cancelled_timer_that_fired_is_dropped() {
    let mut replay = case().done(&tool("0#1")).timer("0@1").replay();
    replay.arm("0@1").unwrap();
    replay.ask(tool("0#1"), false).unwrap();
    assert_eq!(replay.next(), deliver(1, "0#1"));
    replay.disarm("0@1");
    assert_eq!(replay.next(), ReplayAction::End);
}

#[test]
fn a_timer_that_is_never_armed_does_not_fit() {
    let mut replay = case().timer("0@1").replay();
    replay.disarm("0@1");
    assert_eq!(replay.next(), ReplayAction::Wait);
    let mismatch = replay.stuck(&[]).unwrap();
    assert!(mismatch.to_string().contains("recorded:  a timer (0@1), entry 1, by code aaaa"), "{mismatch}");
}

// -- giving up

#[test]
fn what_comes_for_a_withdrawn_step_is_dropped() {
    let mut replay = case().done(&tool("0.1#1")).done(&tool("0.2#1")).replay();
    replay.ask(tool("0.1#1"), false).unwrap();
    replay.ask(tool("0.2#1"), false).unwrap();
    assert_eq!(replay.next(), deliver(1, "0.1#1"));
    replay.withdraw("0.2#1");
    assert_eq!(replay.next(), ReplayAction::End);
    assert!(replay.returned().is_none());
}

#[test]
fn withdrawing_what_was_delivered_or_never_asked_changes_nothing() {
    let mut replay = case().done(&tool("0#1")).replay();
    replay.withdraw("0#1");
    replay.withdraw("0#9");
    assert_eq!(replay.next(), ReplayAction::Wait);
    replay.ask(tool("0#1"), false).unwrap();
    assert_eq!(replay.next(), deliver(1, "0#1"));
    replay.withdraw("0#1");
    assert!(replay.orphans().is_empty());
}

#[test]
fn interrupts_that_nobody_waits_for_and_nobody_withdrew_are_orphans() {
    let mut replay = case()
        .asked(&step("0.1#1", "interrupt", "ok"), "lost the race")
        .asked(&step("0.2#1", "interrupt", "ok"), "withdrawn")
        .asked(&step("0.3#1", "interrupt", "ok"), "answered")
        .asked(&step("0.4#1", "interrupt", "ok"), "waited for")
        .asked(&step("0#1/0#1", "interrupt", "ok"), "inside of what is over")
        .withdraw("withdrawn")
        .answer("answered")
        .done(&tool("0#1"))
        .replay();
    for path in ["0.1#1", "0.2#1", "0.3#1", "0.4#1"] {
        replay.ask(step(path, "interrupt", "ok"), false).unwrap();
    }
    for path in ["0.1#1", "0.2#1", "0.3#1"] {
        replay.withdraw(path);
    }
    replay.ask(tool("0#1"), false).unwrap();
    assert_eq!(replay.next(), deliver(8, "0#1"));
    assert_eq!(replay.next(), ReplayAction::End);
    assert_eq!(replay.orphans(), ["lost the race", "inside of what is over"]);
}

#[test]
fn whoever_waits_for_a_withdrawn_interrupt_would_wait_for_ever() {
    let mut replay = case().asked(&step("0#1", "interrupt", "ok"), "i1").withdraw("i1").replay();
    replay.ask(step("0#1", "interrupt", "ok"), false).unwrap();
    assert_eq!(replay.next(), ReplayAction::Wait);
    let mismatch = replay.stuck(&[]).unwrap();
    assert_eq!(mismatch.cause, Cause::StillWaits);
    replay.withdraw("0#1");
    assert_eq!(replay.next(), ReplayAction::End);
}

#[test]
fn below_a_withdrawn_step_an_entry_that_nobody_asks_for_is_dropped_once_nothing_runs() {
    let mut replay = case()
        .asked(&step("0#1/0#1", "interrupt", "ok"), "i1")
        .answer("i1")
        .timer("0#1/0@1")
        .done(&tool("0#2"))
        .replay();
    replay.ask(tool("0#1"), false).unwrap();
    replay.withdraw("0#1");
    replay.ask(tool("0#2"), false).unwrap();
    assert_eq!(replay.next(), ReplayAction::Wait);
    assert!(replay.stuck(&[]).is_none());
    assert_eq!(replay.next(), ReplayAction::Wait);
    assert!(replay.stuck(&[]).is_none());
    assert_eq!(replay.next(), deliver(4, "0#2"));
    let late = mismatch(replay.ask(step("0#1/0#1", "interrupt", "ok"), false));
    assert_eq!(late.cause, Cause::TooLate);
}

#[test]
fn inside_a_withdrawn_step_whose_body_is_over_nothing_is_waited_for() {
    let journal = || {
        case()
            .asked(&step("0#1/0#1", "interrupt", "ok"), "i1")
            .done(&tool("0#1/0#2/0#1"))
            .timer("0#1/0@1")
            .wakes(&[(1, "0#1/0")])
            .done(&tool("0#2"))
    };
    let given_up = |replay: &mut Replay| {
        replay.ask(tool("0#1"), false).unwrap();
        replay.ask(tool("0#2"), false).unwrap();
        replay.withdraw("0#1");
    };
    let mut replay = journal().replay();
    given_up(&mut replay);
    assert_eq!(replay.next(), ReplayAction::Wait, "the body may still get there");
    replay.body_ended("0#1");
    assert_eq!(replay.next(), deliver(5, "0#2"));
    assert_eq!(replay.orphans(), ["i1"]);

    let mut replay = journal().replay();
    replay.ask(tool("0#1"), false).unwrap();
    replay.ask(tool("0#2"), false).unwrap();
    replay.body_ended("0#1");
    assert_eq!(replay.next(), ReplayAction::Wait, "somebody waits for what came of it");
    replay.withdraw("0#1");
    assert_eq!(replay.next(), deliver(5, "0#2"), "in whichever order");

    let mut replay = journal().replay();
    given_up(&mut replay);
    replay.ask(step("0#1/0#1", "interrupt", "ok"), false).unwrap();
    replay.ask(tool("0#1/0#2"), false).unwrap();
    replay.body_ended("0#1");
    assert_eq!(replay.next(), ReplayAction::Wait, "a body inside it goes on by itself");
    replay.withdraw("0#1/0#2");
    replay.body_ended("0#1/0#2");
    assert_eq!(replay.next(), deliver(5, "0#2"));
}

// -- wakes from outside

#[test]
fn a_wake_stands_behind_the_entry_it_followed_not_behind_its_mark() {
    let mut replay =
        case().done(&tool("0.1#1")).done(&tool("0.1#2")).wakes(&[(1, "0.2"), (1, "0.3"), (0, "0.4")]).replay();
    replay.ask(tool("0.1#1"), false).unwrap();
    assert_eq!(replay.next(), ReplayAction::Wake("0.4"));
    assert_eq!(replay.next(), ReplayAction::Wake("0.4"));
    replay.woken().unwrap();
    assert_eq!(replay.next(), deliver(1, "0.1#1"));
    replay.ask(tool("0.1#2"), false).unwrap();
    assert_eq!(replay.next(), ReplayAction::Wake("0.2"));
    replay.woken().unwrap();
    assert_eq!(replay.next(), ReplayAction::Wake("0.3"));
    assert!(!replay.is_done());
    replay.woken().unwrap();
    assert_eq!(replay.next(), deliver(2, "0.1#2"));
    assert!(replay.woken().is_err());
}

#[test]
fn a_wake_that_does_not_come_again_is_let_go() {
    let mut replay = case().wakes(&[(0, "0")]).done(&tool("0#1")).replay();
    replay.ask(tool("0#1"), false).unwrap();
    assert_eq!(replay.next(), ReplayAction::Wake("0"));
    assert!(replay.stuck(&[]).is_none());
    assert_eq!(replay.next(), deliver(2, "0#1"));
}

// -- what cannot be a journal

#[test]
fn a_journal_that_no_turn_can_have_written_names_its_entry() {
    let question = step("0#1", "interrupt", "ok");
    let cases = [
        (case().done(&tool("0#1")).done(&tool("0#1")), "journal[2]: a second result of the step 0#1"),
        (case().asked(&question, "i1").asked(&question, "i2"), "journal[2]: a second interrupt of the step 0#1"),
        (
            case().asked(&question, "i1").asked(&step("0#2", "interrupt", "ok"), "i1"),
            "journal[2]: its interrupt was asked before",
        ),
        (case().answer("i9"), "journal[1]: the interrupt i9 has not been asked"),
        (case().timer("0@1").timer("0@1"), "journal[2]: the timer 0@1 fired before"),
        (case().wakes(&[(2, "0")]), "journal[1]: a wake after entry 2, which does not exist"),
    ];
    for (case, expected) in cases {
        assert_eq!(case.read().unwrap_err().to_string(), expected);
    }
}

#[test]
fn an_entry_with_members_missing_is_refused() {
    let read = |entry: Value| serde_json::from_value::<ReplayRecord>(entry).unwrap_err().to_string();
    assert_eq!(read(json!({"at": 1, "entry": "step", "result": {}})), "an entry `step` has no `step`");
    assert_eq!(read(json!({"at": 1, "entry": "start", "code": "a"})), "an entry `start` has no `python`");
    assert_eq!(read(json!({"at": 1, "entry": "answer"})), "an entry `answer` has no `interrupt_id`");
    assert_eq!(read(json!({"at": 1, "entry": "nap"})), "there is no entry `nap`");
}
