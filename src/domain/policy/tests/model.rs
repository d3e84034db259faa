//! Random rules, calls, answers and changes of the rules, against a model of who may decide.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::failing::{answered, people};
use super::*;
use crate::domain::access::Actor;

/// What the rules ask of a decision, as plainly as it can be said.
#[derive(Debug, Default)]
struct Model {
    denies: bool,
    asks: bool,
    unsure: bool,
    allows: bool,
    /// Each of these has to mean whoever decides.
    approvers: Vec<Vec<String>>,
}

impl Model {
    fn of(session: &[Rule], server: &[Rule], args: &Value) -> Self {
        let mut model = Self::default();
        let is_settled = model.look(session, args);
        if !is_settled || model.unsure {
            model.look(server, args);
        }
        model
    }

    /// Whether a rule clearly matched.
    fn look(&mut self, rules: &[Rule], args: &Value) -> bool {
        for rule in rules.iter().filter(|rule| rule.tool != "other") {
            let holds = tells(rule.when.as_deref(), args);
            if holds == Some(false) {
                continue;
            }
            self.unsure |= holds.is_none();
            self.denies |= rule.effect == Effect::Deny;
            self.asks |= rule.effect == Effect::Ask || (rule.effect == Effect::Allow && holds.is_none());
            self.allows |= rule.effect == Effect::Allow && holds == Some(true);
            self.approvers.extend((!rule.approvers.is_empty()).then(|| rule.approvers.clone()));
            if holds == Some(true) {
                return true;
            }
        }
        false
    }

    /// Whether a person may let the call run, the tool itself naming `own`.
    fn lets(&self, actor: &Actor, own: &[String]) -> bool {
        let is_meant = |approvers: &Vec<String>| {
            let is =
                |name: &String| actor.name() == Some(name) || (name == "group:finance" && actor.name() == Some("bob"));
            approvers.is_empty() || approvers.iter().any(is)
        };
        let named = if self.approvers.is_empty() { vec![own.to_vec()] } else { self.approvers.clone() };
        !self.denies && named.iter().all(is_meant)
    }
}

const EXPRESSIONS: [&str; 4] = ["args.n > 2", "has(args.n) && args.n < 4", "args.gone", "size(args.n) > 1"];

/// What an expression says of a call; `None` where it cannot tell.
fn tells(when: Option<&str>, args: &Value) -> Option<bool> {
    let (n, number) = (args.get("n"), args.get("n").and_then(Value::as_i64));
    match EXPRESSIONS.iter().position(|expression| Some(*expression) == when) {
        None => Some(true),
        _ if args.get("pad").is_some() => None,
        Some(0) => number.map(|n| n > 2),
        Some(1) => n.map_or(Some(false), |_| number.map(|n| n < 4)),
        Some(2) => None,
        Some(_) => n.and_then(|n| n.as_str().map(str::len).or(n.as_array().map(Vec::len))).map(|size| size > 1),
    }
}

fn some_approvers() -> impl Strategy<Value = Vec<String>> {
    prop::sample::select(vec![vec![], vec!["ada".to_owned()], vec!["group:finance".to_owned()]])
}

fn some_rules() -> impl Strategy<Value = Vec<Rule>> {
    let effect = prop::sample::select(vec![Effect::Allow, Effect::Ask, Effect::Deny]);
    let tool = prop::sample::select(vec!["pay", "*", "other"]);
    let when = prop::option::weighted(0.8, prop::sample::select(EXPRESSIONS.to_vec()));
    let one = (effect, tool, when, some_approvers()).prop_map(|(effect, tool, when, approvers)| Rule {
        when: when.map(str::to_owned),
        approvers: if effect == Effect::Ask { approvers } else { Vec::new() },
        ..rule("", effect, tool)
    });
    let named = |(number, one)| Rule { name: format!("r{number}"), ..one };
    prop::collection::vec(one, 0..5).prop_map(move |rules| rules.into_iter().enumerate().map(named).collect())
}

fn some_args() -> impl Strategy<Value = Value> {
    let odd = vec![json!({}), json!({"n": null}), json!({"n": "x"}), json!({"n": "xx"}), json!({"n": [1]})];
    let large = Just(()).prop_map(|()| json!({"n": 3, "pad": "x".repeat(MAX_ARGS)}));
    prop_oneof![8 => (0..6).prop_map(|n| json!({"n": n})), 8 => prop::sample::select(odd), 1 => large]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// A call when it is made: by rules, by the tool's own code, by grants.
    #[test]
    fn a_call_runs_by_itself_only_where_the_model_lets_it(
        session in some_rules(),
        server in some_rules(),
        args in some_args(),
        edited in prop::option::of(some_args()),
        required in any::<bool>(),
        own in some_approvers(),
        is_granted in any::<bool>(),
    ) {
        let asked = ask(json!({
            "payload": {"type": "tool_approval", "tool_name": "pay", "tool_args": args}, "required": required,
            "approvers": own, "proposed": edited.as_ref().map(|args| json!({"type": "edit", "args": args})),
        }));
        let grants: Vec<Grant> = is_granted.then(|| grant(1, "pay", GrantedDecision::Approve)).into_iter().collect();
        let verdict = decide_by(&asked, &rules(session.clone()), &rules(server.clone()), &grants);
        let model = Model::of(&session, &server, &args);
        match &verdict {
            Verdict::Decided(decided) if decided.rule.starts_with("policy:") => {
                let denies = model.denies
                    || (!model.asks && !model.allows && edited.is_some_and(|args| Model::of(&session, &server, &args).denies));
                prop_assert_eq!(decided.decision == Decision::PASSED, !denies);
                prop_assert!(denies || (model.allows && !model.asks && !model.unsure));
            }
            Verdict::Decided(decided) if decided.rule == ON_APPROVAL => {
                let after = Model::of(&session, &server, &edited.unwrap());
                prop_assert!(!model.denies && !model.asks && !after.denies && !after.asks && !after.unsure);
            }
            Verdict::Decided(decided) if decided.rule == DEFAULT => {
                prop_assert!(!required && !model.denies && !model.asks && !model.unsure);
            }
            Verdict::Decided(_) => {
                prop_assert!(is_granted && !model.denies && !model.unsure && model.approvers.is_empty() && own.is_empty());
            }
            Verdict::Person { failed, approvers, .. } => {
                prop_assert!(!model.denies);
                prop_assert_eq!(failed.is_some() || model.unsure, failed.is_some());
                prop_assert!(model.approvers.is_empty() || model.approvers.contains(approvers));
            }
        }
    }

    /// What a person says of it, when the rules are others by then: a yes, an edit, an answer in its place, a second run,
    /// and each call that an "always" would sweep in.
    #[test]
    fn what_a_person_says_counts_only_where_the_model_lets_it(
        session in some_rules(),
        server in some_rules(),
        args in some_args(),
        edited in some_args(),
        own in some_approvers(),
        who in 0_usize..3,
    ) {
        let (own_rules, of_server) = (rules(session.clone()), rules(server.clone()));
        let standing = RuleSets { session: &own_rules, server: &of_server };
        let actor = &people()[who];
        let (asked, after) = (Model::of(&session, &server, &args), Model::of(&session, &server, &edited));
        for (value, lets) in [
            (json!({"approved": true}), asked.lets(actor, &own)),
            (json!({"type": "approve", "always": true}), asked.lets(actor, &own)),
            (json!({"type": "respond", "message": 1}), asked.lets(actor, &own)),
            (json!({"type": "edit", "args": edited}), after.lets(actor, &own)),
            (json!({"approved": false}), true),
        ] {
            let interrupt = answered(&args, &value, &own);
            prop_assert_eq!(objection(&interrupt, standing, Some(actor), true).is_ok(), lets, "{}", value);
            let sweeps = lets_sweep(&interrupt, standing, actor);
            let unsure = if value["type"] == "edit" { after.unsure } else { asked.unsure };
            prop_assert_eq!(sweeps, value["approved"] == false || (lets && !unsure), "{}", value);
        }
        let again = answered(&args, &json!({"outcome": "not_done"}), &own);
        let again = crate::domain::interrupt::Interrupt { kind: "unknown_outcome".to_owned(), ..again };
        prop_assert_eq!(objection(&again, standing, Some(actor), true).is_ok(), asked.lets(actor, &own));
    }
}
