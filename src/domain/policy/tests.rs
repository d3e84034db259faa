mod bounds;
mod failing;
mod fuzz;
mod hidden;
mod model;
mod origin;
mod stack;

use proptest::prelude::*;
use serde_json::{Value, json};
use uuid::Uuid;

use super::*;
use crate::domain::decision::{Decider, Decision};
use crate::domain::grant::{Grant, GrantedDecision};
use crate::domain::interrupt::Ask;
use crate::domain::schema::Anew;
use crate::domain::{GrantId, Timestamp};

fn rule(name: &str, effect: Effect, tool: &str) -> Rule {
    Rule {
        name: name.to_owned(),
        effect,
        tool: tool.to_owned(),
        agent: None,
        when: None,
        reason: None,
        approvers: Vec::new(),
        unsigned: false,
    }
}

fn when(effect: Effect, when: &str) -> Rule {
    Rule { when: Some(when.to_owned()), ..rule("rule", effect, "*") }
}

fn rules(rules: impl IntoIterator<Item = Rule>) -> Rules {
    Rules::compile(rules.into_iter().collect()).unwrap()
}

fn call(args: &Value) -> Call<'_> {
    Call { tool: "pay", args, agent: Some("bank"), origin: Some(Origin::default()) }
}

/// The first rule that has a say in a call.
fn first_say(rules: &Rules, call: Call<'_>) -> Option<Matched> {
    rules.says(call).into_iter().next()
}

/// What one rule with this expression makes of a call: whether it is for it, and why it could not tell.
fn tell(expression: &str, args: &Value) -> (bool, Option<String>) {
    match first_say(&rules([when(Effect::Allow, expression)]), call(args)) {
        Some(Matched { effect: Effect::Allow, failed: None, .. }) => (true, None),
        Some(Matched { effect: Effect::Ask, failed: Some(why), .. }) => (false, Some(why)),
        None => (false, None),
        other => panic!("{expression}: {other:?}"),
    }
}

/// A call of `pay` by the agent `bank` that asks.
fn ask(members: Value) -> Ask {
    let mut ask = json!({
        "type": "tool_approval", "agent": "bank", "allowed_decisions": ["approve", "edit", "reject"],
        "payload": {"type": "tool_approval", "tool_name": "pay", "tool_args": {"amount": 5}},
    });
    ask.as_object_mut().unwrap().extend(members.as_object().cloned().unwrap());
    serde_json::from_value(ask).unwrap()
}

fn grant(number: u128, tool: &str, decision: GrantedDecision) -> Grant {
    Grant {
        grant_id: GrantId(Uuid::from_u128(number)),
        agent: Some("bank".to_owned()),
        tool: tool.to_owned(),
        tool_source: None,
        decision,
        reason: None,
        message: None,
        created_at: Timestamp::from_millis(0),
        created_by: Some("alice".to_owned()),
        approvers: Vec::new(),
        turn_id: None,
    }
}

fn decide_by(ask: &Ask, session: &Rules, server: &Rules, grants: &[Grant]) -> Verdict {
    decide(ask, &RuleSets { session, server }.rule_on(ask, &Anew), grants)
}

/// How it was decided, and by what; `person` where it was not.
fn outcome(verdict: &Verdict) -> (&str, Option<&str>) {
    match verdict {
        Verdict::Person { rule, .. } => ("person", rule.as_deref()),
        Verdict::Decided(decided) => (decided.decision.kind().as_str(), Some(&decided.rule)),
    }
}

#[test]
fn names_fit_patterns() {
    for (pattern, fitting, others) in [
        ("delete_file", &["delete_file"][..], &["delete_files", "Delete_file", ""][..]),
        ("delete_*", &["delete_", "delete_file"], &["undelete_x", "delete"]),
        ("*", &["", "anything"], &[]),
        ("*_prod_*", &["x_prod_y", "_prod_"], &["prod", "x_prody"]),
        ("?at", &["cat", "üat"], &["at", "chat"]),
        ("a*b*c", &["abc", "aXbYc", "abcbc"], &["acb", "ab"]),
        ("**", &["", "x"], &[]),
        ("[a]", &["[a]"], &["a"]),
    ] {
        for name in fitting {
            assert!(glob::fits(pattern, name), "{pattern} {name}");
        }
        for name in others {
            assert!(!glob::fits(pattern, name), "{pattern} {name}");
        }
    }
}

#[test]
fn a_pattern_of_many_stars_is_matched_at_once() {
    let started = std::time::Instant::now();
    assert!(!glob::fits(&"*a".repeat(200), &"a".repeat(5000).replace("aa", "ab")) || started.elapsed().as_secs() < 5);
    assert!(!glob::fits(&format!("{}b", "a*".repeat(100)), &"a".repeat(5000)));
    assert!(started.elapsed().as_secs() < 5);
}

#[test]
fn an_expression_sees_tool_args_and_agent() {
    let args = json!({
        "amount": 150, "rate": 0.5, "large": u64::MAX, "to": "bob@example.com", "tags": ["a", "b"], "note": null,
        "address": {"country": "NZ"},
    });
    for (expression, holds) in [
        ("args.amount > 100", true),
        ("args.amount > 150", false),
        ("args.amount > 99.5 && args.rate < 1", true),
        ("args.large > 100", true),
        ("args.amount >= 100 || args.missing", true),
        ("args['to'].endsWith('@example.com')", true),
        ("args.to.matches('^[a-z]+@')", true),
        ("args.address.country in ['NZ', 'AU']", true),
        ("args.tags.exists(tag, tag == 'b')", true),
        ("size(args.tags) == 3", false),
        ("has(args.missing)", false),
        ("args.note == null", true),
        ("tool == 'pay' && agent == 'bank'", true),
    ] {
        assert_eq!(tell(expression, &args), (holds, None), "{expression}");
    }
}

#[test]
fn an_expression_that_cannot_tell_is_never_false() {
    let args = json!({"amount": 150, "to": "bob", "items": [1]});
    for expression in [
        "args.missing > 100",
        "args.to > 100",
        "args.amount",
        "'yes'",
        "args.amount / 0 > 1",
        "args.amount * 9223372036854775807 > 0",
        "args.items[7] == 1",
        "args.amount.matches('1')",
        "args.to.amount > 1",
    ] {
        let (_, failed) = tell(expression, &args);
        assert!(failed.is_some_and(|why| !why.is_empty()), "{expression}");
    }
    for (effect, at_least) in [(Effect::Allow, Effect::Ask), (Effect::Ask, Effect::Ask), (Effect::Deny, Effect::Deny)] {
        let matched = first_say(&rules([when(effect, "args.missing")]), call(&args)).unwrap();
        assert_eq!(matched.effect, at_least);
    }
    let nothing = Call { agent: None, ..call(&Value::Null) };
    let allow = rules([when(Effect::Allow, "args.amount < 5")]);
    assert_eq!(first_say(&allow, nothing).unwrap().effect, Effect::Ask);
}

#[test]
fn arguments_that_are_too_large_to_be_looked_at_fail_a_rule() {
    let args = json!({"text": "x".repeat(MAX_ARGS)});
    let (_, failed) = tell("tool == 'pay'", &args);
    assert!(failed.unwrap().contains("at most"));
    // Without an expression nobody looks at them.
    assert_eq!(first_say(&rules([rule("all", Effect::Allow, "*")]), call(&args)).unwrap().effect, Effect::Allow);
}

#[test]
fn an_expression_that_could_take_for_ever_is_none() {
    for (expression, why) in [
        ("args.a.all(x, args.a.all(y, x < y))".to_owned(), "inside of a loop"),
        ("args.a.all(x, [1, 2].all(y, x < y))".to_owned(), "loops inside of a loop"),
        ("args.a.map(x, args.a)".to_owned(), "args inside of a loop"),
        ("args.a.map(x, x + 1).map(x, x + 1).exists(x, x > 1)".to_owned(), ""),
        (format!("{}true", "!".repeat(MAX_LENGTH)), "longer than"),
        (format!("{}1{}", "(".repeat(400), ")".repeat(400)), ""),
        ("[".repeat(900), ""),
        (vec!["1"; 490].join("+") + " > 1", "deeper"),
        (format!("args{}", ".a".repeat(490)), "deeper"),
        (format!("{}true", "true ? true : ".repeat(70)), ""),
        (vec!["args.a == 1"; 70].join(" && "), ""),
    ] {
        let compiled = Rules::compile(vec![when(Effect::Allow, &expression)]);
        if !why.is_empty() {
            let errors = compiled.unwrap_err();
            assert!(errors[0].msg.contains(why), "{}: {}", &expression[..20], errors[0].msg);
        }
    }
}

#[test]
fn a_loop_over_the_largest_arguments_ends_soon() {
    let args = json!({"a": vec![1; MAX_ARGS / 2 - 100]});
    let started = std::time::Instant::now();
    assert_eq!(tell("args.a.all(x, x == 1)", &args), (true, None));
    assert!(started.elapsed().as_secs() < 30, "{:?}", started.elapsed());
}

#[test]
fn what_is_wrong_with_rules_is_said_by_place() {
    let wrong = Rules::compile(vec![
        rule("a", Effect::Ask, "x"),
        Rule { agent: Some(String::new()), ..rule("", Effect::Ask, "") },
        when(Effect::Ask, "1 +"),
        Rule { name: "a".to_owned(), ..when(Effect::Ask, "arg.amount > 1") },
    ])
    .unwrap_err();
    let said: Vec<String> = wrong.iter().map(ToString::to_string).collect();
    assert_eq!(
        said[..4],
        [
            "1.name: must not be empty",
            "1.tool: must not be empty",
            "1.agent: must not be empty",
            "2.when: at character 4: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', \
         'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}",
        ]
    );
    assert_eq!(said[4], "3.name: another rule has the name \"a\"");
    assert_eq!(said[5], "3.when: there is no variable \"arg\"; there are tool, args, agent, source and metadata");
    assert_eq!(said.len(), 6);
}

#[test]
fn a_rule_of_a_file_has_nothing_of_a_run_state() {
    let text = "[[rule]]\nname = \"a\"\neffect = \"ask\"\ntool = \"x\"\nunsigned = true\n";
    let wrong = file::read(text).unwrap_err();
    assert_eq!(wrong.to_string(), "line 5: rule \"a\": unsigned: is of rules that came with a run state");
}

#[test]
fn a_file_is_read_in_its_order() {
    let text = r#"
# money
[[rule]]
name = "small"
effect = "allow"
tool = "pay"
agent = "b*"
when = "args.amount < 10"

[[rule]]
name = "never"
effect = "deny"
tool = "*"
reason = "not here"
"#;
    let read = file::read(text).unwrap();
    assert_eq!(read.len(), 2);
    assert_eq!(first_say(&read, call(&json!({"amount": 5}))).unwrap().name, "small");
    let denied = first_say(&read, call(&json!({"amount": 50}))).unwrap();
    assert_eq!((denied.name.as_str(), denied.reason.as_deref()), ("never", Some("not here")));
    assert!(file::read("# closed for now\nrules = \"none\"\n").unwrap().is_empty());
}

#[test]
fn a_file_that_cannot_be_read_says_in_which_line() {
    let head = "# rules\n[[rule]]\nname = \"a\"\n";
    for (rest, line, message) in [
        ("effect = \"allow\"\ntool = ", 5, "value"),
        ("effect = \"permit\"\ntool = \"x\"", 4, "permit"),
        ("effect = \"allow\"\n", 2, "tool"),
        ("effect = \"allow\"\ntool = \"x\"\nwen = \"true\"", 6, "wen"),
        ("effect = \"allow\"\ntool = \"x\"\nwhen = \"1 +\"", 6, "rule \"a\": when: at character 4"),
        (
            "effect = \"allow\"\ntool = \"x\"\n\n[[rule]]\nname = \"a\"\neffect = \"ask\"\ntool = \"y\"",
            8,
            "another rule",
        ),
        ("effect = \"allow\"\ntool = \"\"", 5, "must not be empty"),
        ("effect = \"ask\"\ntool = \"x\"\napprovers = []", 6, "approvers must name somebody"),
        ("effect = \"allow\"\ntool = \"x\"\n[rules]", 6, "rules"),
    ] {
        let error = file::read(&format!("{head}{rest}")).unwrap_err();
        assert_eq!(error.line, line, "{error}");
        assert!(error.message.contains(message), "{error}");
    }
}

#[test]
fn a_file_without_rules_says_so() {
    let one = "[[rule]]\nname = \"a\"\neffect = \"deny\"\ntool = \"x\"\n".to_owned();
    for (text, line, message) in [
        (String::new(), 1, "there are no rules"),
        ("# deny = everything\n\n".to_owned(), 1, "there are no rules"),
        ("rule = []".to_owned(), 1, "there are no rules"),
        ("\nrules = \"all\"".to_owned(), 2, "can only be"),
        ("rules = []".to_owned(), 1, "rules can only be"),
        (format!("# none\nrules = \"none\"\n{one}"), 2, "there are rules"),
    ] {
        let error = file::read(&text).unwrap_err();
        assert_eq!(error.line, line, "{error}");
        assert!(error.message.contains(message), "{error}");
    }
    assert_eq!(file::read(&one).unwrap().len(), 1);
}

#[test]
fn a_rule_of_the_session_comes_before_one_of_the_server() {
    let (allow, deny) = (rules([rule("mine", Effect::Allow, "pay")]), rules([rule("theirs", Effect::Deny, "*")]));
    let asked = ask(json!({}));
    assert_eq!(outcome(&decide_by(&asked, &allow, &deny, &[])), ("approve", Some("policy:mine")));
    assert_eq!(outcome(&decide_by(&asked, &deny, &allow, &[])), ("reject", Some("policy:theirs")));
}

#[test]
fn a_rule_comes_before_the_tools_own_code_and_that_before_a_grant() {
    let (none, asks) = (Rules::default(), rules([rule("look", Effect::Ask, "*")]));
    let proposed = ask(json!({"proposed": {"approved": false}}));
    let granted = [grant(1, "pay", GrantedDecision::Approve)];
    let by_grant = format!("grant:{}", granted[0].grant_id);
    for (asked, server, grants, expected) in [
        (&proposed, &asks, &[][..], ("person", Some("policy:look"))),
        (&proposed, &asks, &granted[..], ("approve", Some(by_grant.as_str()))),
        (&proposed, &none, &granted[..], ("reject", Some("on_approval"))),
        (&ask(json!({})), &none, &granted[..], ("approve", Some(by_grant.as_str()))),
        (&ask(json!({})), &none, &[][..], ("person", None)),
        (&ask(json!({"required": false})), &none, &granted[..], ("approve", Some("default"))),
        (&ask(json!({"required": false})), &asks, &[][..], ("person", Some("policy:look"))),
    ] {
        assert_eq!(outcome(&decide_by(asked, &none, server, grants)), expected, "{asked:?}");
    }
}

#[test]
fn a_rule_cannot_allow_what_nobody_may_approve_and_can_deny_what_nobody_may_reject() {
    let none = Rules::default();
    let only = |kind: &str| ask(json!({"allowed_decisions": [kind]}));
    let allow = rules([rule("yes", Effect::Allow, "*")]);
    assert_eq!(outcome(&decide_by(&only("reject"), &allow, &none, &[])), ("person", Some("policy:yes")));
    let deny = rules([Rule { reason: Some("closed".to_owned()), ..rule("no", Effect::Deny, "*") }]);
    let Verdict::Decided(denied) = decide_by(&only("approve"), &deny, &none, &[]) else { panic!("not decided") };
    let reason = Some("closed".to_owned());
    assert_eq!(denied.decision, Decision::Reject { reason, message: None, always: false, by: Decider::Policy });
    assert_eq!(denied.by.as_deref(), Some("policy"));
}

#[test]
fn an_edit_by_the_tools_own_code_is_for_the_rules_again() {
    let none = Rules::default();
    let limited = rules([
        Rule { name: "much".to_owned(), ..when(Effect::Deny, "args.amount > 100") },
        Rule { name: "some".to_owned(), ..when(Effect::Ask, "args.amount > 10") },
    ]);
    for (amount, expected) in [
        (500, ("reject", Some("policy:much"))),
        (50, ("person", Some("policy:some"))),
        (7, ("edit", Some("on_approval"))),
    ] {
        let asked = ask(json!({"proposed": {"type": "edit", "args": {"amount": amount}}}));
        assert_eq!(outcome(&decide_by(&asked, &none, &limited, &[])), expected, "{amount}");
    }
}

#[test]
fn what_is_no_tool_approval_is_for_a_person_whatever_the_rules_say() {
    let allow = rules([rule("all", Effect::Allow, "*")]);
    for members in [json!({"type": "free"}), json!({"payload": {"type": "tool_approval"}}), json!({"payload": {}})] {
        let asked = ask(members);
        let verdict = decide_by(&asked, &allow, &allow, &[grant(1, "pay", GrantedDecision::Approve)]);
        assert_eq!(outcome(&verdict), ("person", None), "{asked:?}");
    }
}

/// The same by trying everything.
fn fits_slowly(pattern: &[char], text: &[char]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some(('*', rest)) => (0..=text.len()).any(|taken| fits_slowly(rest, &text[taken..])),
        Some(('?', rest)) => text.split_first().is_some_and(|(_, text)| fits_slowly(rest, text)),
        Some((wanted, rest)) => text.split_first().is_some_and(|(got, text)| got == wanted && fits_slowly(rest, text)),
    }
}

fn fits_naively(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    fits_slowly(&pattern, &text)
}

fn some_rules() -> impl Strategy<Value = Vec<Rule>> {
    let effect = prop::sample::select(vec![Effect::Allow, Effect::Ask, Effect::Deny]);
    let agent = prop::option::of(prop::sample::select(vec!["bank", "b*", "shop", "?"]));
    prop::collection::vec((effect, "[pay*?]{0,3}p[ay*?]{0,3}", agent), 0..6).prop_map(|rules| {
        rules
            .into_iter()
            .enumerate()
            .map(|(number, (effect, tool, agent))| Rule {
                agent: agent.map(str::to_owned),
                ..rule(&format!("r{number}"), effect, &tool)
            })
            .collect()
    })
}

fn some_ask() -> impl Strategy<Value = Ask> {
    let proposed = prop::sample::select(vec![
        Value::Null,
        json!({"approved": true}),
        json!({"approved": false, "always": true}),
        json!({"approved": "true"}),
        json!({"type": "edit", "args": {"amount": 1}}),
        json!({"type": "respond", "message": "x"}),
    ]);
    let agent = prop::option::of(prop::sample::select(vec!["bank", "shop"]));
    let source = prop::option::of(prop::sample::select(vec!["mcp:a", "mcp:b"]));
    let tool = prop::sample::select(vec!["pay", "p", "payp"]);
    (tool, agent, source, proposed, any::<bool>()).prop_map(|(tool, agent, source, proposed, required)| {
        ask(json!({
            "agent": agent, "tool_source": source, "proposed": proposed, "required": required,
            "payload": {"type": "tool_approval", "tool_name": tool, "tool_args": {"amount": 5}},
        }))
    })
}

fn some_grants() -> impl Strategy<Value = Vec<Grant>> {
    let decision = prop::sample::select(vec![GrantedDecision::Approve, GrantedDecision::Reject]);
    let agent = prop::option::of(prop::sample::select(vec!["bank", "shop"]));
    let source = prop::option::of(prop::sample::select(vec!["mcp:a", "mcp:b"]));
    let tool = prop::sample::select(vec!["pay", "p", "payp", "*"]);
    prop::collection::vec((tool, agent, source, decision), 0..4).prop_map(|grants| {
        grants
            .into_iter()
            .zip(1..)
            .map(|((tool, agent, source, decision), number)| Grant {
                agent: agent.map(str::to_owned),
                tool_source: source.map(str::to_owned),
                ..grant(number, tool, decision)
            })
            .collect()
    })
}

#[test]
fn a_rule_that_nobody_signed_is_not_the_last_word() {
    let of_session = |unsigned| {
        let approvers = vec!["mallory".to_owned()];
        rules([Rule { approvers, unsigned, ..rule("own", Effect::Ask, "*") }])
    };
    let (deny, finance) = (rule("no", Effect::Deny, "pay"), vec!["group:finance".to_owned()]);
    let call = Call { tool: "pay", args: &json!({}), agent: None, origin: None };
    let ruling =
        |unsigned, server: Rule| RuleSets { session: &of_session(unsigned), server: &rules([server]) }.ruling(call);
    assert_eq!(ruling(false, deny.clone()).deciding().unwrap().name, "own");
    assert_eq!(ruling(true, deny).deciding().unwrap().name, "no");
    let asked = ruling(true, Rule { approvers: finance, ..rule("asks", Effect::Ask, "pay") });
    assert_eq!(asked.with_approvers().map(|matched| matched.name.as_str()).collect::<Vec<_>>(), ["own", "asks"]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_pattern_fits_what_trying_everything_says(pattern in "[ab*?]{0,7}", text in "[ab]{0,7}") {
        prop_assert_eq!(glob::fits(&pattern, &text), fits_naively(&pattern, &text));
    }

    #[test]
    fn the_first_match_decides_and_nothing_that_is_for_others(
        session in some_rules(),
        server in some_rules(),
        asked in some_ask(),
        grants in some_grants(),
    ) {
        let tool = asked.payload["tool_name"].as_str().unwrap();
        let is_for_it = |rule: &&Rule| {
            let agent = rule.agent.as_deref();
            fits_naively(&rule.tool, tool)
                && agent.is_none_or(|agent| asked.agent.as_deref().is_some_and(|name| fits_naively(agent, name)))
        };
        let server: Vec<Rule> =
            server.into_iter().map(|rule| Rule { name: format!("server-{}", rule.name), ..rule }).collect();
        let first = session.iter().chain(&server).find(is_for_it).cloned();
        let verdict = decide_by(&asked, &rules(session), &rules(server), &grants);
        let named = first.as_ref().map(|rule| format!("policy:{}", rule.name));
        match (&verdict, first.map(|rule| rule.effect)) {
            (Verdict::Decided(decided), Some(Effect::Allow)) => {
                prop_assert_eq!(&decided.decision, &Decision::PASSED);
                prop_assert_eq!(Some(&decided.rule), named.as_ref());
            }
            (Verdict::Decided(decided), Some(Effect::Deny)) => {
                prop_assert_eq!(decided.decision.kind().as_str(), "reject");
                prop_assert_eq!(Some(&decided.rule), named.as_ref());
            }
            (Verdict::Person { rule, .. }, Some(Effect::Ask)) => prop_assert_eq!(rule, &named),
            (Verdict::Person { rule, .. }, None) => {
                prop_assert_eq!(rule, &None);
                prop_assert!(asked.required);
            }
            (Verdict::Decided(decided), Some(Effect::Ask) | None) => {
                let by_grant = grants.iter().find(|grant| grant.rule() == decided.rule);
                if let Some(grant) = by_grant {
                    prop_assert_eq!(&grant.tool, tool);
                    prop_assert_eq!(&grant.agent, &asked.agent);
                    prop_assert_eq!(&grant.tool_source, &asked.tool_source);
                    prop_assert_eq!(&decided.decision, &grant.decision());
                } else if decided.rule == DEFAULT {
                    prop_assert!(!asked.required && named.is_none());
                    prop_assert_eq!(&decided.decision, &Decision::PASSED);
                } else {
                    prop_assert_eq!(&decided.rule, "on_approval");
                    prop_assert!(asked.required && named.is_none() && asked.proposed.is_some());
                }
            }
            (Verdict::Person { .. }, Some(Effect::Allow | Effect::Deny)) => prop_assert!(false, "{:?}", verdict),
        }
    }

    #[test]
    fn no_expression_ends_the_process(expression in "[args.mount()\\[\\]{}!?:<>=&|+*/'\" 0-9-]{0,60}") {
        if let Ok(rules) = Rules::compile(vec![when(Effect::Allow, &expression)]) {
            rules.says(call(&json!({"amount": 5, "a": [1, 2]})));
        }
    }
}
