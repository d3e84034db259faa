//! Rules that cannot tell, and what people say about calls that rules are for.

use serde_json::{Value, json};
use uuid::Uuid;

use super::*;
use crate::domain::access::Actor;
use crate::domain::interrupt::{Interrupt, Opening};
use crate::domain::scope::Scopes;
use crate::domain::{Error, InterruptId, SessionId, TurnId};

/// Ada, and Bob of finance.
pub fn people() -> [Actor; 3] {
    let none = Scopes::default();
    [Actor::named("ada", none, &[]), Actor::named("bob", none, &["finance".to_owned()]), Actor::anyone()]
}

/// What a person is asked about a call, and their answer. The tool's own approvers are `tool_approvers`.
pub fn answered(args: &Value, value: &Value, tool_approvers: &[String]) -> Interrupt {
    let asked = ask(json!({
        "allowed_decisions": ["approve", "edit", "reject", "respond"], "args_schema": {"type": "object"},
        "payload": {"type": "tool_approval", "tool_name": "pay", "tool_args": args},
    }));
    let (id, session, turn) = (InterruptId(Uuid::nil()), SessionId(Uuid::nil()), TurnId(Uuid::nil()));
    let now = Timestamp::from_millis(0);
    let opening = Opening { id, session, turn, now, default_ttl: 0.0, max_payload: usize::MAX };
    let interrupt = Interrupt::opened(asked, opening).unwrap();
    Interrupt { value: Some(value.clone()), tool_approvers: tool_approvers.to_vec(), ..interrupt }
}

fn named(name: &str, effect: Effect, when: &str) -> Rule {
    Rule { when: Some(when.to_owned()), ..rule(name, effect, "*") }
}

fn by_finance(rule: Rule) -> Rule {
    Rule { approvers: vec!["group:finance".to_owned()], ..rule }
}

/// Calls over which `args.amount > 1000` cannot tell.
fn odd_calls() -> Vec<Value> {
    let large = json!({"amount": 2000, "to": "x".repeat(MAX_ARGS)});
    vec![json!({"amount": null}), json!({"amount": "5000"}), json!({"amount": [5000]}), json!({}), json!(null), large]
}

fn decided(args: &Value, session: &Rules, server: &Rules) -> Verdict {
    let asked = ask(json!({"payload": {"type": "tool_approval", "tool_name": "pay", "tool_args": args}}));
    decide_by(&asked, session, server, &[grant(1, "pay", GrantedDecision::Approve)])
}

#[test]
fn why_a_rule_could_not_tell_is_said_in_few_words_and_with_types() {
    let secret = "s3cret".repeat(1000);
    let args = json!({"key": secret, "n": 1, "rows": [{"key": secret}], "map": {"key": secret}});
    for (expression, why) in [
        ("args.rows - args.map == 1", "there is no \"sub\" of list and map"),
        ("args.key > 1", "found no matching overload for '_>_' applied to '(string, int)'"),
        ("args.rows.startsWith(args.key)", "found no matching overload for 'startsWith'"),
        ("args.map.matches('a')", "a value is of another type than string"),
        ("args.map[args.rows] == 1", ""),
        ("args.map[args.key] == 1", "No such key: "),
        ("args.n / 0 == 1", "division by zero"),
        ("args.n % 0 == 1", "remainder of a division by zero"),
        ("args.n + 9223372036854775807 > 1", "\"add\" leaves the range of int"),
        ("args.rows[7] == 1", "a list has no such index"),
        ("args.gone == 1", "No such key: gone"),
        ("args.n", "is int and no boolean"),
    ] {
        let (_, failed) = tell(expression, &args);
        let failed = failed.unwrap();
        assert!(failed.starts_with(why), "{expression}: {failed}");
        assert!(failed.len() < 300, "{expression}: {failed}");
    }
}

#[test]
fn why_rules_could_not_tell_has_a_longest_text_however_many_they_are() {
    let unsure = |number: usize| named(&format!("{number}-{}", "n".repeat(40)), Effect::Ask, "args.missing");
    let verdict = decided(&json!({}), &Rules::default(), &rules((0..100).map(unsure)));
    let Verdict::Person { failed: Some(failed), .. } = verdict else { panic!("{verdict:?}") };
    assert!(failed.starts_with("rule \"0-n") && failed.ends_with('…'), "{failed}");
    assert_eq!(failed.chars().count(), 1001);
}

#[test]
fn a_deny_rule_that_cannot_tell_denies_and_no_grant_answers() {
    let (none, deny) = (Rules::default(), rules([named("no-bulk", Effect::Deny, "args.amount > 1000")]));
    assert_eq!(outcome(&decided(&json!({"amount": 5}), &none, &deny)).0, "approve");
    for args in odd_calls() {
        let Verdict::Decided(denied) = decided(&args, &none, &deny) else { panic!("asked") };
        assert_eq!((denied.decision.kind().as_str(), denied.rule.as_str()), ("reject", "policy:no-bulk"));
        assert!(denied.failed.is_some_and(|why| why.starts_with("rule \"no-bulk\" could not tell: ")));
    }
}

#[test]
fn one_that_asks_or_allows_has_a_person_asked_and_neither_grant_nor_code_answers() {
    let none = Rules::default();
    let asks = by_finance(named("large", Effect::Ask, "args.amount > 1000"));
    for (rule, expected) in [(asks, &["group:finance"][..]), (named("small", Effect::Allow, "args.amount > 1000"), &[])]
    {
        let name = format!("policy:{}", rule.name);
        let rules = rules([rule]);
        for args in odd_calls() {
            let asked = ask(json!({
                "proposed": {"approved": true}, "required": false,
                "payload": {"type": "tool_approval", "tool_name": "pay", "tool_args": args},
            }));
            for verdict in [decided(&args, &none, &rules), decide_by(&asked, &none, &rules, &[])] {
                let Verdict::Person { rule, approvers, failed, .. } = verdict else { panic!("{verdict:?}") };
                assert_eq!((rule.as_ref(), approvers), (Some(&name), expected.iter().map(|&a| a.to_owned()).collect()));
                assert!(failed.is_some());
            }
        }
    }
}

#[test]
fn what_comes_after_a_rule_that_cannot_tell_is_looked_at_and_the_servers_rules_always() {
    let (odd, none) = (json!({}), Rules::default());
    let unsure = || named("unsure", Effect::Allow, "args.amount < 10");
    let (allow, ask, deny) =
        (rule("yes", Effect::Allow, "*"), rule("look", Effect::Ask, "*"), rule("never", Effect::Deny, "*"));
    for (session, server, expected) in [
        (vec![], vec![unsure(), deny.clone()], ("reject", Some("policy:never"))),
        (vec![unsure()], vec![deny.clone()], ("reject", Some("policy:never"))),
        (vec![unsure(), allow.clone()], vec![deny.clone()], ("reject", Some("policy:never"))),
        (vec![unsure(), allow.clone()], vec![], ("person", Some("policy:unsure"))),
        (vec![unsure(), ask.clone()], vec![allow.clone()], ("person", Some("policy:unsure"))),
        // One that can tell is the last word of its list, and one of the session the last of all.
        (vec![allow.clone(), unsure()], vec![deny.clone()], ("approve", Some("policy:yes"))),
        (vec![], vec![allow.clone(), deny.clone()], ("approve", Some("policy:yes"))),
    ] {
        assert_eq!(outcome(&decided(&odd, &rules(session), &rules(server))), expected);
    }
    assert_eq!(outcome(&decided(&odd, &none, &none)).0, "approve");
}

#[test]
fn approvers_of_every_rule_that_asks_have_to_be_met() {
    let [ada, bob, _] = people();
    let none = Rules::default();
    let of_ada = Rule { approvers: vec!["ada".to_owned()], ..named("unsure", Effect::Ask, "args.missing") };
    let both = rules([of_ada, by_finance(rule("all", Effect::Ask, "*"))]);
    let yes = answered(&json!({}), &json!({"approved": true}), &[]);
    for (actor, rule) in [(&ada, "all"), (&bob, "unsure")] {
        let refused = objection(&yes, RuleSets { session: &none, server: &both }, Some(actor), true).unwrap_err();
        let Error::NotAnApprover { rule: named, .. } = &refused else { panic!("{refused}") };
        assert_eq!(named.as_deref(), Some(rule));
        assert!(refused.to_string().contains(rule));
    }
}

/// What the rules say to an answer of somebody: `ok`, the code of the error, or what is wrong with it.
fn said(args: &Value, value: Value, server: &Rules, actor: &Actor, tool_approvers: &[String]) -> String {
    let none = Rules::default();
    let interrupt = answered(args, &value, tool_approvers);
    match objection(&interrupt, RuleSets { session: &none, server }, Some(actor), true) {
        Ok(()) => "ok".to_owned(),
        Err(Error::InvalidAnswer(errors)) => errors[0].kind.to_string(),
        Err(error) => error.code().to_owned(),
    }
}

#[test]
fn an_edit_and_a_plain_yes_are_for_the_rules_with_what_would_run() {
    let [ada, bob, nobody] = people();
    let large = rules([by_finance(named("large", Effect::Ask, "has(args.amount) && args.amount > 1000"))]);
    let denied = rules([named("no", Effect::Deny, "args.amount > 1000")]);
    let (small, much) = (json!({"amount": 5}), json!({"amount": 999_999}));
    let edit = |args: &Value| json!({"type": "edit", "args": args});
    let padded = json!({"amount": 999_999, "to": "x".repeat(MAX_ARGS)});
    for (args, value, expected) in [
        (&small, json!({"approved": true}), "ok"),
        (&small, edit(&small), "ok"),
        (&small, edit(&much), "not_an_approver"),
        (&small, json!({"approved": true, "args": much}), "not_an_approver"),
        (&small, edit(&padded), "not_an_approver"),
        (&much, json!({"approved": true}), "not_an_approver"),
        (&much, json!({"type": "respond", "message": "done"}), "not_an_approver"),
        (&much, json!({"approved": false}), "ok"),
        (&much, edit(&small), "ok"),
    ] {
        for actor in [&ada, &nobody] {
            assert_eq!(said(args, value.clone(), &large, actor, &[]), expected, "{value}");
        }
        assert_eq!(said(args, value.clone(), &large, &bob, &[]), "ok", "{value}");
    }
    for actor in people() {
        assert_eq!(said(&small, edit(&much), &denied, &actor, &[]), "denied");
        assert_eq!(said(&much, json!({"type": "respond", "message": "done"}), &denied, &actor, &[]), "denied");
        for odd in odd_calls().into_iter().filter(Value::is_object) {
            assert_eq!(said(&small, edit(&odd), &denied, &actor, &[]), "rule_failed");
            assert_eq!(said(&odd, json!({"approved": false}), &denied, &actor, &[]), "ok");
        }
    }
}

#[test]
fn where_no_rule_says_who_the_tool_does_also_after_an_edit() {
    let [ada, bob, _] = people();
    let (small, much) = (json!({"amount": 5}), json!({"amount": 5000}));
    // Asked by Ada's rule, in place of the tool's own finance.
    let of_ada = Rule { approvers: vec!["ada".to_owned()], ..named("small", Effect::Ask, "args.amount < 10") };
    let (server, finance) = (rules([of_ada]), ["group:finance".to_owned()]);
    let edit = json!({"type": "edit", "args": much});
    assert_eq!(said(&small, json!({"approved": true}), &server, &ada, &finance), "ok");
    assert_eq!(said(&small, edit.clone(), &server, &ada, &finance), "not_an_approver");
    assert_eq!(said(&small, edit, &server, &bob, &finance), "ok");
}

#[test]
fn a_step_runs_again_only_where_the_rules_let_it() {
    let [ada, bob, _] = people();
    let none = Rules::default();
    let deny = rules([named("no", Effect::Deny, "args.amount > 10")]);
    let large = rules([by_finance(rule("look", Effect::Ask, "pay"))]);
    let unknown = |args: Value, outcome: &str| Interrupt {
        kind: "unknown_outcome".to_owned(),
        ..answered(&args, &json!({"outcome": outcome}), &[])
    };
    let check = |asked: &Interrupt, server: &Rules, actor: &Actor, is_tool: bool| {
        objection(asked, RuleSets { session: &none, server }, Some(actor), is_tool).map_err(|error| error.code())
    };
    for args in [json!({"amount": 50}), json!(null), json!({"amount": "50"})] {
        let again = unknown(args.clone(), "not_done");
        assert_eq!(check(&again, &deny, &ada, true), Err("invalid_answer"), "{args}");
        assert_eq!(check(&again, &deny, &ada, false), Ok(()), "no rule is for what is no tool");
        assert_eq!(check(&unknown(args.clone(), "done"), &deny, &ada, true), Ok(()));
        assert_eq!(check(&unknown(args, "failed"), &deny, &ada, true), Ok(()));
    }
    let again = unknown(json!({"amount": 5}), "not_done");
    assert_eq!(check(&again, &deny, &ada, true), Ok(()));
    assert_eq!(check(&again, &large, &ada, true), Err("not_an_approver"));
    assert_eq!(check(&again, &large, &bob, true), Ok(()));
}

#[test]
fn always_settles_only_what_a_plain_answer_would_and_what_rules_can_judge() {
    let [ada, bob, _] = people();
    let none = Rules::default();
    let sweeps = |args: &Value, value: Value, server: &Rules, actor: &Actor| {
        lets_sweep(&answered(args, &value, &[]), RuleSets { session: &none, server }, actor)
    };
    let (yes, no) = (json!({"type": "approve"}), json!({"type": "reject"}));
    let deny = rules([named("no", Effect::Deny, "args.amount > 1000")]);
    assert!(sweeps(&json!({"amount": 5}), yes.clone(), &deny, &ada));
    assert!(!sweeps(&json!({"amount": 5000}), yes.clone(), &deny, &ada));
    assert!(sweeps(&json!({"amount": 5000}), no, &deny, &ada));
    let large = rules([by_finance(rule("look", Effect::Ask, "*"))]);
    assert!(!sweeps(&json!({"amount": 5}), yes.clone(), &large, &ada));
    assert!(sweeps(&json!({"amount": 5}), yes.clone(), &large, &bob));
    let unsure = rules([named("unsure", Effect::Allow, "args.amount < 10")]);
    assert!(sweeps(&json!({"amount": 50}), yes.clone(), &unsure, &ada));
    assert!(!sweeps(&json!({"amount": null}), yes, &unsure, &ada));
}

#[test]
fn always_settles_no_call_whose_arguments_are_not_what_would_run_where_there_are_rules_by_then() {
    let [ada, ..] = people();
    let (none, allow) = (Rules::default(), rules([named("small", Effect::Allow, "args.amount < 10")]));
    let sweeps = |value: &Value, server: &Rules| {
        let settled = Interrupt { is_hidden: true, ..answered(&json!({"amount": 5}), value, &[]) };
        lets_sweep(&settled, RuleSets { session: &none, server }, &ada)
    };
    let (yes, no) = (json!({"type": "approve"}), json!({"type": "reject"}));
    assert!(sweeps(&yes, &none));
    assert!(!sweeps(&yes, &allow));
    assert!(sweeps(&no, &allow));
}

#[test]
fn a_stored_rule_that_is_none_any_more_never_can_tell() {
    let stored = Rules::stored(vec![named("never", Effect::Deny, "args.a.map(x, x + x).map(x, x + x) == []")]);
    let says = stored.says(call(&json!({})));
    assert_eq!((says[0].effect, says[0].name.as_str()), (Effect::Deny, "never"));
    assert!(says[0].failed.as_ref().is_some_and(|why| why.contains("what a loop made")));
}
