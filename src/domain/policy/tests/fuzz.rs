//! Any text as a policy, any rules of a session, and any expression over any arguments.

use proptest::sample::select;

use super::*;
use crate::domain::fuzzing::{config, odd, texts, values};

/// The most that is said of why a rule could not tell, in bytes: it is kept, shown and told to models.
const LONGEST_WHY: usize = 2000;

fn files() -> Vec<String> {
    let large = r#"
# the first rule that matches decides
[[rule]]
name = "large-payments"
effect = "deny"
tool = "pay"
when = "args.amount > 10000"
reason = "ask the treasurer"

[[rule]]
name = "look"
effect = "ask"
tool = "delete_*"
agent = "b?nk"
approvers = ["ada", "group:finance"]
"#;
    vec![
        large.to_owned(),
        "rules = \"none\"\n".to_owned(),
        "[[rule]]\nname = 'a'\neffect = 'allow'\ntool = '*'\nwhen = '''args.to.matches('@x[.]nz$')'''\n".to_owned(),
    ]
}

fn of_sessions() -> Vec<Value> {
    vec![json!([
        {"name": "a", "effect": "deny", "tool": "pay", "when": "has(args.amount) && args.amount > 5", "reason": "no"},
        {"name": "b", "effect": "ask", "tool": "*", "agent": "bank", "approvers": ["ada"]},
        {"name": "c", "effect": "allow", "tool": "p?y", "when": "args.tags.all(tag, tag != 'prod')"},
    ])]
}

fn calls() -> Vec<Value> {
    vec![json!({
        "amount": 50, "currency": "NZD", "to": "ada@x.nz", "tags": ["prod", "eu"],
        "rows": [{"n": 1, "to": "a"}, {"n": 2.5, "to": "b"}],
    })]
}

/// What can be said of any rules and any call, whatever they are.
fn ask_them(rules: &Rules, args: &Value) -> Result<(), TestCaseError> {
    let says = rules.says(call(args));
    prop_assert_eq!(&rules.says(call(args)), &says, "the same call is judged alike");
    let (last, before) = says.split_last().map_or((None, &says[..]), |(last, before)| (Some(last), before));
    prop_assert!(before.iter().all(|said| said.failed.is_some()), "what comes after a clear match has no say");
    for said in last.into_iter().chain(before) {
        prop_assert!(said.failed.is_none() || said.effect != Effect::Allow, "a rule that cannot tell allows nothing");
        let why = said.failed.as_deref().unwrap_or_default();
        prop_assert!(why.len() <= LONGEST_WHY, "{} bytes: {}...", why.len(), why.chars().take(200).collect::<String>());
    }
    Ok(())
}

/// Parts of expressions, from the smallest on. `x` is the element of a loop.
fn expressions() -> impl Strategy<Value = String> {
    let leaf = select(vec![
        "args.amount",
        "args.tags",
        "args.rows",
        "args.to",
        "args.gone",
        "args",
        "tool",
        "agent",
        "x",
        "x.n",
        "1",
        "0",
        "-1",
        "2.5",
        "1u",
        "'eu'",
        "b'a'",
        "''",
        "true",
        "null",
        "[]",
        "{}",
        "9223372036854775807",
        "args['to']",
        "int",
        "[1, 2]",
        "{'a': 1}",
        "size(args)",
        "args.rows[0]",
        "args.tags[-1]",
        "args.rows[0].n",
    ]);
    leaf.prop_map(str::to_owned).prop_recursive(5, 24, 3, |inner| {
        let operators = vec!["+", "-", "*", "/", "%", "==", "!=", "<", ">=", "in", "&&", "||"];
        let loops = vec!["all", "exists", "exists_one", "map", "filter"];
        let functions = vec![
            "size",
            "int",
            "uint",
            "double",
            "string",
            "bytes",
            "type",
            "bool",
            "dyn",
            "timestamp",
            "duration",
            "min",
            "max",
        ];
        let texts = vec!["startsWith", "endsWith", "contains", "matches", "size", "foo"];
        let pairs = (inner.clone(), inner.clone());
        prop_oneof![
            4 => (pairs.clone(), select(operators)).prop_map(|((a, b), with)| format!("({a} {with} {b})")),
            2 => (pairs.clone(), select(loops)).prop_map(|((a, b), go)| format!("{a}.{go}(x, {b})")),
            2 => (inner.clone(), select(functions)).prop_map(|(a, name)| format!("{name}({a})")),
            2 => (pairs.clone(), select(texts)).prop_map(|((a, b), name)| format!("{a}.{name}({b})")),
            1 => (inner.clone(), pairs.clone()).prop_map(|(a, (b, c))| format!("({a} ? {b} : {c})")),
            1 => pairs.clone().prop_map(|(a, b)| format!("{a}[{b}]")),
            1 => pairs.prop_map(|(a, b)| format!("{{{a}: {b}}}")),
            1 => inner.clone().prop_map(|a| format!("!{a}")),
            1 => inner.clone().prop_map(|a| format!("-({a})")),
            1 => inner.prop_map(|a| format!("has({a})")),
        ]
    })
}

proptest! {
    #![proptest_config(config(8))]

    #[test]
    fn fuzz_a_file_is_refused_with_a_line_or_can_be_asked(text in texts(files()), args in values(calls())) {
        let Ok(text) = String::from_utf8(text) else { return Ok(()) };
        match file::read(&text) {
            Ok(rules) => ask_them(&rules, &args)?,
            Err(error) => prop_assert!((1..=text.lines().count() + 1).contains(&error.line), "{}", error),
        }
    }

    /// Rules that are taken can be written, and are the same rules then.
    #[test]
    fn fuzz_rules_of_a_session_are_refused_by_place_or_can_be_asked(value in values(of_sessions()), args in values(calls())) {
        let Ok(read) = serde_json::from_value::<Vec<Rule>>(value) else { return Ok(()) };
        let again: Result<Vec<Rule>, _> = serde_json::from_value(json!(read));
        prop_assert!(again.is_ok_and(|again| again == read));
        // What a later release does not take any more can be asked as well.
        ask_them(&Rules::stored(read.clone()), &args)?;
        match Rules::compile(read) {
            Ok(rules) => ask_them(&rules, &args)?,
            Err(errors) => prop_assert!(!errors.is_empty()),
        }
    }

    #[test]
    fn fuzz_an_expression_is_refused_or_says_yes_no_or_why(
        expression in expressions(),
        effect in select(vec![Effect::Allow, Effect::Ask, Effect::Deny]),
        args in prop_oneof![4 => values(calls()), 1 => odd()],
    ) {
        match Rules::compile(vec![when(effect, &expression)]) {
            Ok(rules) => ask_them(&rules, &args)?,
            Err(errors) => prop_assert!(errors[0].msg.len() <= LONGEST_WHY),
        }
    }

    #[test]
    fn fuzz_a_text_as_an_expression(text in texts(vec!["args.rows.all(x, x.n > 1 && args.to.matches('^a'))".to_owned()])) {
        if let (Ok(text), args) = (String::from_utf8(text), &calls()[0])
            && let Ok(rules) = Rules::compile(vec![when(Effect::Deny, &text)])
        {
            ask_them(&rules, args)?;
        }
    }
}
