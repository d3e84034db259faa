//! Who may do what, as a table.

use serde_json::json;

use super::*;
use crate::domain::approver::check_approvers;
use crate::domain::decision::{Decider, Decision};
use crate::domain::grant::Grant;
use crate::domain::interrupt::{Interrupt, Opening};
use crate::domain::standing::{check_standing, grant_counts};
use crate::domain::{Error, GrantId, InterruptId, SessionId, Timestamp, TurnId};

fn scopes(text: &[&str]) -> Scopes {
    text.iter().map(|word| Scope::parse(word).unwrap()).collect()
}

#[test]
fn a_scope_allows_itself_and_admin_allows_all() {
    for given in Scope::ALL {
        for asked in Scope::ALL {
            let allowed = Scopes::from_iter([given]).allow(asked);
            assert_eq!(allowed, given == asked || given == Scope::Admin, "{given} for {asked}");
        }
    }
}

#[test]
fn without_scopes_nothing_may_be_done() {
    assert!(Scopes::NONE.is_empty());
    assert!(Scope::ALL.iter().all(|scope| !Scopes::NONE.allow(*scope)));
}

#[test]
fn scopes_are_a_list_of_words_in_one_order() {
    let given = scopes(&["answer", "read", "answer"]);
    assert_eq!(serde_json::to_value(given).unwrap(), json!(["read", "answer"]));
    assert_eq!(serde_json::from_value::<Scopes>(json!(["answer", "read"])).unwrap(), given);
    assert!(serde_json::from_value::<Scopes>(json!(["write"])).is_err());
}

#[test]
fn words_are_scopes_only_as_they_are_written() {
    assert!(Scope::ALL.iter().all(|scope| Scope::parse(scope.as_str()) == Some(*scope)));
    assert!(["", "Read", "admin ", "*"].iter().all(|word| Scope::parse(word).is_none()));
}

#[test]
fn whoever_calls_without_keys_may_do_everything_and_has_no_name() {
    let anyone = Actor::anyone();
    assert_eq!(anyone.name(), None);
    assert!(Scope::ALL.iter().all(|scope| anyone.may(*scope)));
}

fn asked(kind: &str, sent_by: Option<&str>, approvers: &[&str]) -> Interrupt {
    let ask = json!({
        "type": kind, "payload": {"type": kind, "tool_name": "rm", "tool_args": {}}, "approvers": approvers,
    });
    let id = uuid::Uuid::nil();
    let opening = Opening {
        id: InterruptId(id),
        session: SessionId(id),
        turn: TurnId(id),
        now: Timestamp::from_millis(0),
        default_ttl: 0.0,
        max_payload: 1000,
    };
    let opened = Interrupt::opened(serde_json::from_value(ask).unwrap(), opening).unwrap();
    Interrupt { sent_by: sent_by.map(str::to_owned), ..opened }
}

fn holder(name: &str, scopes: &[&str], groups: &[&str]) -> Actor {
    let groups: Vec<String> = groups.iter().map(|group| (*group).to_owned()).collect();
    Actor::named(name, self::scopes(scopes), &groups)
}

#[test]
fn whoever_sent_the_message_cannot_let_its_tools_run() {
    for scopes in [&["answer"][..], &["admin"]] {
        let ada = holder("ada", scopes, &[]);
        for kind in ["tool_approval", "unknown_outcome"] {
            let own = asked(kind, Some("ada"), &[]);
            assert_eq!(check_standing(&own, &ada, true), Err(Error::SelfApproval), "{kind}");
            assert_eq!(check_standing(&own, &ada, false), Ok(()));
            assert_eq!(check_standing(&asked(kind, Some("bob"), &[]), &ada, true), Ok(()));
        }
        // What somebody who asks says of it makes it stricter, never laxer.
        for (kind, says, refused) in [
            ("hook", true, true),
            ("hook", false, false),
            ("tool_approval", false, true),
            ("unknown_outcome", false, true),
        ] {
            let own = Interrupt { lets_run: says, ..asked(kind, Some("ada"), &[]) };
            assert_eq!(check_standing(&own, &ada, true).is_err(), refused, "{kind} {says}");
        }
        // A question of the agent is for whoever talks with it.
        assert_eq!(check_standing(&asked("user_input", Some("ada"), &[]), &ada, true), Ok(()));
    }
}

#[test]
fn where_nobody_knows_who_sent_it_an_admin_decides() {
    let unknown = asked("tool_approval", None, &[]);
    let refused = Err(Error::MissingScope(Scope::Admin));
    assert_eq!(check_standing(&unknown, &holder("ada", &["answer"], &[]), true), refused);
    assert_eq!(check_standing(&unknown, &holder("ada", &["admin"], &[]), true), Ok(()));
}

#[test]
fn approvers_are_names_and_groups_and_nobody_else() {
    let wanted = asked("tool_approval", None, &["ada", "group:finance"]);
    let refused = Err(Error::NotAnApprover { approvers: wanted.approvers.clone(), rule: None });
    assert_eq!(check_standing(&wanted, &holder("ada", &["answer"], &[]), false), Ok(()));
    assert_eq!(check_standing(&wanted, &holder("bob", &["answer"], &["finance"]), false), Ok(()));
    for other in [
        holder("bob", &["admin"], &["sales", "ada"]),
        holder("finance", &["answer"], &[]),
        holder("group:finance", &["answer"], &[]),
        Actor::anyone(),
    ] {
        assert_eq!(check_standing(&wanted, &other, false), refused, "{other:?}");
    }
}

#[test]
fn a_list_of_approvers_names_what_can_have_the_name() {
    let check = |approvers: &[&str]| {
        check_approvers(&approvers.iter().map(|approver| (*approver).to_owned()).collect::<Vec<_>>()).is_ok()
    };
    assert!(check(&[]) && check(&["ada", "group:finance", "api-key"]));
    for wrong in ["", "Ada", "group:", "group:a b", "groups:finance", "*"] {
        assert!(!check(&["ada", wrong]), "{wrong}");
    }
    assert!(!check(&["a"; 33]));
}

fn grant(created_by: Option<&str>, approvers: &[&str]) -> Grant {
    let decision = Decision::Approve { always: true, by: Decider::Person };
    let asked = asked("tool_approval", None, approvers);
    let id = GrantId(uuid::Uuid::nil());
    Grant::new(id, asked.scope(), &decision, created_by, &asked.approvers, Timestamp::from_millis(0)).unwrap()
}

#[test]
fn a_grant_decides_over_messages_of_others_only() {
    for (made_by, sent_by, counts) in [
        (Some("ada"), Some("bob"), true),
        (Some("ada"), Some("ada"), false),
        // Either may be the other.
        (None, Some("ada"), false),
        (Some("ada"), None, false),
        (None, None, false),
        // The tool's own code is nobody.
        (Some("on_approval"), Some("ada"), true),
        (Some("on_approval"), None, true),
    ] {
        let grant = grant(made_by, &[]);
        assert_eq!(grant_counts(&grant, sent_by, true), counts, "{made_by:?} {sent_by:?}");
        assert!(grant_counts(&grant, sent_by, false));
    }
}

#[test]
fn a_grant_decides_only_what_its_maker_could_have() {
    let of = |approvers: &[&str]| approvers.iter().map(|approver| (*approver).to_owned()).collect::<Vec<_>>();
    assert!(grant(Some("ada"), &[]).is_open_to(&[]));
    assert!(!grant(Some("ada"), &[]).is_open_to(&of(&["ada"])), "anybody could have made it");
    let of_finance = grant(Some("ada"), &["ada", "group:finance"]);
    assert!(of_finance.is_open_to(&[]) && of_finance.is_open_to(&of(&["ada", "group:finance"])));
    assert!(!of_finance.is_open_to(&of(&["ada"])) && !of_finance.is_open_to(&of(&["bob"])));
}

#[test]
fn a_digest_is_compared_and_never_shown() {
    let known = digest(b"first");
    assert_eq!(known, digest(b"first"));
    assert_ne!(known, digest(b"second"));
    assert_eq!(format!("{known:?}"), "Digest(..)");
}
