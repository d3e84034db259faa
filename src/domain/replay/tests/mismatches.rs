//! What does not fit, and how people are told.

use super::*;

#[test]
fn another_step_shows_both_sides() {
    let recorded = step_with("0#2", "tool", "delete_file", json!({"path": "1", "force": "2", "mode": "3"}));
    let attempted = step_with("0#2", "tool", "write_file", json!({"path": "9", "content": "5", "mode": "3"}));
    let mut replay = case().taken("cccc").done(&recorded).replay();
    let text = mismatch(replay.ask(attempted, false)).to_string();
    assert_eq!(
        text,
        "the agent asks for another step than its journal holds\n  \
         recorded:  tool \"delete_file\" (0#2, agent.py:12), entry 2, by code cccc on Python 3.12\n  \
         attempted: tool \"write_file\" (0#2, agent.py:12), by code bbbb\n  \
         arguments that differ: path, force (only recorded), content (only attempted)\n\n\
         hint: deploy code cccc again, or let turns that began under it go its way: `if await \
         hitl.patched(\"...\"): <new> else: <old>`. The answers are kept; the turn is retried when the code version \
         changes, and on POST /sessions/{id}/retry."
    );
}

#[test]
fn other_arguments_are_named_and_never_shown() {
    let mut replay = case().done(&step_with("~pay", "tool", "pay", json!({"amount": "secret1"}))).replay();
    let other = mismatch(replay.ask(step_with("~pay", "tool", "pay", json!({"amount": "secret2"})), false));
    let text = other.to_string();
    assert!(text.contains("recorded:  tool \"pay\" (key \"pay\", path ~pay, agent.py:12), entry 1"), "{text}");
    assert!(text.contains("arguments that differ: amount\n"), "{text}");
    assert!(!text.contains("secret"), "{text}");
}

#[test]
fn a_finished_model_call_with_other_arguments_is_a_warning() {
    let recorded = step_with("0#1", "model", "gpt", json!({"messages": "1", "tools": "2"}));
    let attempted = step_with("0#1", "model", "gpt", json!({"messages": "3", "tools": "2"}));
    let mut replay = case().done(&recorded).replay();
    assert_eq!(replay.ask(attempted, false).unwrap(), StepLookup::Recorded);
    assert_eq!(
        replay.warnings(),
        ["model \"gpt\" (0#1, agent.py:12): other arguments than its recorded answer had: messages"]
    );
}

#[test]
fn only_a_finished_model_call_and_only_its_arguments_may_differ() {
    let call = |name: &str, input: &str| step_with("0#1", "model", name, json!({"messages": input}));
    assert!(case().intent(&call("gpt", "1")).replay().ask(call("gpt", "2"), false).is_err());
    assert!(case().done(&call("gpt", "1")).replay().ask(call("other", "2"), false).is_err());
    assert!(
        case()
            .done(&step_with("0#1", "tool", "t", json!({"a": "1"})))
            .replay()
            .ask(step_with("0#1", "tool", "t", json!({"a": "2"})), false)
            .is_err()
    );
}

#[test]
fn where_a_step_stands_in_its_file_does_not_matter() {
    let mut moved = tool("0#1");
    moved.location = Some("agent.py:99".to_owned());
    assert_eq!(case().done(&tool("0#1")).replay().ask(moved, false).unwrap(), StepLookup::Recorded);
}

#[test]
fn a_step_that_was_inserted_is_told_where_the_recorded_one_went() {
    let mut replay = case().done(&step("0#1", "tool", "a")).done(&step("0#2", "tool", "b")).replay();
    let text = mismatch(replay.ask(step("0#1", "tool", "b"), false)).to_string();
    assert!(text.contains("\n  the journal holds the attempted step at 0#2\n"), "{text}");
}

#[test]
fn an_entry_in_the_way_shows_what_is_held() {
    let mut replay = case().done(&tool("0#1")).replay();
    replay.ask(step("~new", "tool", "extra"), false).unwrap();
    assert_eq!(replay.next(), ReplayAction::Wait);
    let mismatch = replay.stuck(&[step("~new", "tool", "extra")]).unwrap();
    assert_eq!((&mismatch.cause, mismatch.entry), (&Cause::Unasked, 1));
    let text = mismatch.to_string();
    assert!(text.contains("attempted: tool \"extra\" (key \"new\", path ~new, agent.py:12), by code bbbb"), "{text}");
}

#[test]
fn an_entry_in_the_way_shows_what_is_asked_for_instead() {
    let mut replay = case().done(&step("~a", "tool", "a")).done(&step("~b", "tool", "b")).replay();
    replay.ask(step("~b", "tool", "b"), false).unwrap();
    let text = replay.stuck(&[]).unwrap().to_string();
    assert!(text.contains("recorded:  tool \"a\""), "{text}");
    assert!(text.contains("attempted: tool \"b\""), "{text}");
}

#[test]
fn stuck_without_anything_in_the_way_is_no_mismatch() {
    let mut replay = case().done(&tool("0#1")).replay();
    replay.ask(tool("0#1"), false).unwrap();
    assert!(replay.stuck(&[]).is_none());
    assert_eq!(replay.next(), deliver(1, "0#1"));
    assert!(replay.stuck(&[]).is_none());
}

#[test]
fn an_agent_that_returns_early_leaves_entries_unasked() {
    let mut replay = case().done(&tool("0#1")).done(&tool("0#2")).replay();
    replay.ask(tool("0#1"), false).unwrap();
    let text = replay.returned().unwrap().to_string();
    assert!(text.contains("recorded:  tool \"work\" (0#2, agent.py:12), entry 2"), "{text}");
    assert!(text.contains("attempted: nothing: the agent returned, by code bbbb"), "{text}");
}

#[test]
fn what_was_asked_for_may_be_left_over() {
    let mut replay = case()
        .done(&tool("0#1"))
        .asked(&step("0#2", "interrupt", "ok"), "i1")
        .answer("i1")
        .timer("0@1")
        .wakes(&[(3, "0.1")])
        .replay();
    replay.ask(tool("0#1"), false).unwrap();
    replay.ask(step("0#2", "interrupt", "ok"), false).unwrap();
    replay.arm("0@1").unwrap();
    assert!(replay.returned().is_none());
}

#[test]
fn a_body_that_was_left_behind_may_have_gone_on_while_the_agent_returned() {
    let journal = |after| {
        case().done(&tool("0#1")).wakes(&[(after, "0.1#1/0@1")]).intent(&tool("0.1#1/0#1")).done(&tool("0.1#1/0#1"))
    };
    let returned = |after: usize| {
        let mut replay = journal(after).replay();
        replay.ask(tool("0.1#1"), false).unwrap();
        replay.ask(tool("0#1"), false).unwrap();
        while replay.next() != deliver(1, "0#1") {
            replay.woken().unwrap();
        }
        replay.returned()
    };
    assert!(returned(1).is_none());
    assert!(returned(0).is_some(), "its timer fired in this replay, before the agent returned");
}

#[test]
fn the_mark_of_an_edit_may_go_once_the_edit_is_taken_for_granted() {
    let mark = step("~patched:faster", "step", "patched");
    let journal = || case().done(&mark).done(&tool("0#1"));
    let mut replay = journal().replay();
    replay.ask(tool("0#1"), false).unwrap();
    assert_eq!(replay.next(), ReplayAction::Wait);
    assert!(replay.stuck(&[]).is_none());
    assert_eq!(replay.next(), deliver(2, "0#1"));
    assert!(journal().done(&tool("0#2")).replay().returned().is_some());
    assert!(case().done(&mark).replay().returned().is_none());
}

#[test]
fn with_the_same_code_the_hint_is_about_determinism() {
    let mut replay = case().taken("bbbb").done(&tool("0#1")).replay();
    let text = mismatch(replay.ask(step("0#1", "tool", "other"), false)).to_string();
    let hint = text.split("\n\nhint: ").nth(1).unwrap();
    assert!(hint.starts_with("the code version is the same"), "{hint}");
    assert!(hint.contains("@hitl.agent(version=...)"), "{hint}");
}

#[test]
fn long_and_multiline_names_are_cut() {
    let name = "x\n".repeat(500);
    let text = mismatch(case().done(&step("0#1", "tool", &name)).replay().ask(tool("0#1"), false)).to_string();
    assert!(text.lines().count() == 5, "{text}");
    assert!(text.len() < 1000, "{text}");
}
