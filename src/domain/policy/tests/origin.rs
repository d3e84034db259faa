//! What rules see of where a call comes from: the tool's source, and what the agent's code says of the call.

use serde_json::{Value, json};

use super::failing::answered;
use super::*;
use crate::domain::access::Actor;
use crate::domain::interrupt::{Interrupt, UNKNOWN_OUTCOME};
use crate::domain::{Error, JsonObject};

const FROM_FILES: &str = "source == 'mcp:files'";
const OF_ACME: &str = "metadata.tenant == 'acme'";

/// A call of `pay` from the MCP server `files`, for a tenant.
fn origin(metadata: &JsonObject) -> Option<Origin<'_>> {
    Some(Origin { source: Some("mcp:files"), metadata: Some(metadata) })
}

fn object(value: Value) -> JsonObject {
    value.as_object().cloned().unwrap()
}

/// Whether one rule with this expression is for a call; `None` where it cannot tell.
fn tells(expression: &str, origin: Option<Origin<'_>>) -> Option<bool> {
    let args = json!({"amount": 5});
    let says = first_say(&rules([when(Effect::Deny, expression)]), Call { origin, ..call(&args) });
    says.map_or(Some(false), |matched| matched.failed.is_none().then_some(true))
}

#[test]
fn an_expression_sees_source_and_metadata() {
    let metadata = object(json!({"tenant": "acme", "labels": ["prod"]}));
    for (expression, holds) in [
        (FROM_FILES, true),
        ("source.startsWith('mcp:')", true),
        ("source == null", false),
        (OF_ACME, true),
        ("has(metadata.tenant) && metadata.tenant != 'acme'", false),
        ("metadata.labels.exists(label, label == 'prod')", true),
        ("args.amount < 10 && source == 'mcp:files' && has(metadata.labels)", true),
    ] {
        assert_eq!(tells(expression, origin(&metadata)), Some(holds), "{expression}");
    }
}

#[test]
fn a_tool_of_the_agents_own_has_no_source_and_a_call_of_which_nothing_is_said_empty_metadata() {
    let own = Some(Origin::default());
    assert_eq!(tells("source == null && size(metadata) == 0", own), Some(true));
    assert_eq!(tells(FROM_FILES, own), Some(false));
    assert_eq!(tells("has(metadata.tenant)", own), Some(false));
    assert_eq!(tells(OF_ACME, own), None, "a member that is missing is no other value");
    assert_eq!(tells("source.startsWith('mcp:')", own), None);
}

#[test]
fn what_nobody_knows_any_more_is_told_as_neither_there_nor_missing() {
    for expression in [FROM_FILES, "source == null", OF_ACME, "has(metadata.tenant)", "size(metadata) == 0"] {
        assert_eq!(tells(expression, None), None, "{expression}");
    }
    assert_eq!(tells("args.amount > 100 && source == 'mcp:files'", None), Some(false));
    let args = json!({});
    let says = first_say(&rules([when(Effect::Deny, FROM_FILES)]), Call { origin: None, ..call(&args) });
    assert_eq!(says.unwrap().failed.unwrap(), "nobody knows the source of a call that a crash hit");
}

#[test]
fn metadata_is_bounded_as_arguments_are() {
    let refused = |expression| Rules::compile(vec![when(Effect::Allow, expression)]).unwrap_err()[0].msg.clone();
    assert!(refused("args.a.all(x, x in metadata.b)").contains("metadata inside of a loop"));
    let half = "x".repeat(MAX_ARGS / 2 + 1);
    let (args, metadata) = (json!({"text": half}), object(json!({"text": half})));
    let rule = rules([when(Effect::Allow, "tool == 'pay'")]);
    let alone = Call { origin: Some(Origin::default()), ..call(&args) };
    assert_eq!(first_say(&rule, alone).unwrap().failed, None);
    let both = Call { origin: origin(&metadata), ..alone };
    assert!(first_say(&rule, both).unwrap().failed.unwrap().starts_with("the arguments and metadata are"));
}

#[test]
fn a_rule_decides_by_source_and_metadata_over_what_asks_and_over_an_edit_of_it() {
    let server = rules([
        Rule { when: Some(format!("{FROM_FILES} && args.amount > 100")), ..rule("large", Effect::Deny, "*") },
        Rule { when: Some(OF_ACME.to_owned()), ..rule("acme", Effect::Allow, "*") },
    ]);
    let none = Rules::default();
    let of = |members: Value| outcome_of(&decide_by(&ask(members), &none, &server, &[]));
    let acme = json!({"tool_source": "mcp:files", "metadata": {"tenant": "acme"}});
    assert_eq!(of(acme.clone()), "approve by policy:acme");
    assert_eq!(of(json!({"metadata": {"tenant": "other"}})), "person by nobody");
    assert_eq!(of(json!({})), "person by policy:acme", "it cannot tell, and allows nothing");
    let mut edited = acme;
    edited["proposed"] = json!({"type": "edit", "args": {"amount": 101}});
    let by_code =
        rules([Rule { when: Some(format!("{FROM_FILES} && args.amount > 100")), ..rule("large", Effect::Deny, "*") }]);
    assert_eq!(outcome_of(&decide_by(&ask(edited), &none, &by_code, &[])), "reject by policy:large");
}

fn outcome_of(verdict: &Verdict) -> String {
    let (how, by) = outcome(verdict);
    format!("{how} by {}", by.unwrap_or("nobody"))
}

#[test]
fn an_answer_is_judged_by_where_its_call_comes_from() {
    let (none, server) = (Rules::default(), rules([when(Effect::Deny, FROM_FILES)]));
    let said = |interrupt: &Interrupt| {
        objection(interrupt, RuleSets { session: &none, server: &server }, Some(&Actor::anyone()), true).map_err(
            |error| match error {
                Error::InvalidAnswer(errors) => errors[0].kind.to_string(),
                error => error.code().to_owned(),
            },
        )
    };
    let yes = answered(&json!({}), &json!({"approved": true}), &[]);
    assert_eq!(said(&yes), Ok(()));
    let from_files = Interrupt { tool_source: Some("mcp:files".to_owned()), ..yes.clone() };
    assert_eq!(said(&from_files), Err("denied".to_owned()));
    let unknown = |outcome: &str| Interrupt {
        kind: UNKNOWN_OUTCOME.to_owned(),
        value: Some(json!({"outcome": outcome, "result": 1})),
        ..yes.clone()
    };
    assert_eq!(said(&unknown("not_done")), Err("rule_failed".to_owned()), "nobody knows whether it is theirs");
    assert_eq!(said(&unknown("done")), Ok(()), "nothing runs");
}

#[test]
fn a_rule_knows_an_mcp_server_by_its_name_and_by_the_hash_that_it_says() {
    let one = "mcp:notes:0123456789abcdef";
    for (when, source, denied) in [
        ("source == 'mcp:notes'", one, true),
        ("source == 'mcp:notes'", "mcp:notes", true),
        ("source == 'mcp:notes'", "mcp:others:0123456789abcdef", false),
        ("source == 'mcp:notes:0123456789abcdef'", one, true),
        ("source == 'mcp:notes:0123456789abcdef'", "mcp:notes:ffffffffffffffff", false),
        ("source in ['mcp:notes:ffffffffffffffff', 'mcp:notes']", one, true),
        ("source.startsWith('mcp:notes:')", one, true),
        ("source.matches('^mcp:notes:')", one, true),
        ("source.startsWith('mcp:notes:01')", one, true),
        ("source.startsWith('mcp:notes:ff')", one, false),
        ("source == 'mcp:a:b'", "mcp:a:b:0123456789abcdef", true),
        ("source == 'mcp:0123456789abcde'", "mcp:0123456789abcdef", false),
        ("source == 'of:notes'", "of:notes:0123456789abcdef", false),
        ("source in ['mcp:notes', 'mcp:notes:eu']", one, true),
        ("source in ['mcp:notes', 'mcp:notes:de']", one, true),
        ("source == 'mcp:notes'", "agent:boss/small mcp:notes:0123456789abcdef", true),
        ("source == 'mcp:notes:0123456789abcdef'", "agent:boss/small mcp:notes:0123456789abcdef", true),
        ("source == 'mcp:my agent:x'", "mcp:my agent:x:0123456789abcdef", true),
        ("source == null", "agent:boss/small", true),
        ("source == 'agent:boss/small'", "agent:boss/small", false),
    ] {
        let rule = json!({"name": "no", "effect": "deny", "tool": "*", "when": when});
        let server = Rules::compile(vec![serde_json::from_value(rule).unwrap()]).unwrap();
        let verdict = decide_by(&ask(json!({"tool_source": source})), &Rules::default(), &server, &[]);
        let expected = if denied { ("reject", Some("policy:no")) } else { ("person", None) };
        assert_eq!(outcome(&verdict), expected, "{when} of {source}");
    }
}
