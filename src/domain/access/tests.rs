//! Who may do what, as a table.

use serde_json::json;

use super::*;

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
