//! Calls whose arguments do not say what runs.

use serde_json::json;

use super::*;

#[test]
fn a_call_whose_arguments_do_not_say_what_runs_is_for_a_person_whatever_rules_and_grants_say() {
    let (none, large) = (Rules::default(), rules([when(Effect::Deny, "args.amount > 100")]));
    let allow = rules([rule("all", Effect::Allow, "*")]);
    let granted = [grant(1, "pay", GrantedDecision::Approve)];
    for (amount, server, expected) in [
        (5, &allow, ("person", Some("policy:all"))),
        (5, &large, ("person", None)),
        (500, &large, ("reject", Some("policy:rule"))),
    ] {
        for members in [json!({}), json!({"required": false}), json!({"proposed": {"approved": true}})] {
            let payload = json!({"type": "tool_approval", "tool_name": "pay", "tool_args": {"amount": amount}});
            let asked = Ask { is_run: false, payload: payload.as_object().cloned().unwrap(), ..ask(members) };
            let verdict = decide_by(&asked, &none, server, &granted);
            assert_eq!(outcome(&verdict), expected, "{asked:?}");
            let told =
                matches!(&verdict, Verdict::Person { failed: Some(why), .. } if why.contains("something else may run"));
            assert_eq!(told, expected.0 == "person", "{verdict:?}");
        }
    }
    // Without rules there is nothing that they might be wrong about.
    let by_grant = format!("grant:{}", granted[0].grant_id);
    let asked = ask(json!({"is_run": false}));
    assert_eq!(outcome(&decide_by(&asked, &none, &none, &granted)), ("approve", Some(by_grant.as_str())));
}
