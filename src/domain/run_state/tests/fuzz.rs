//! Any text as a run state, and any answer to one.

use proptest::prelude::*;

use super::*;
use crate::domain::fuzzing::{config, texts, values};

/// States of turns that have asked, were answered and have rules and grants.
fn valid() -> Vec<String> {
    let mut answered = two();
    let always = json!({"type": "approve", "always": true});
    answered.answer(vec![(id(10), always)], Some("ann"), now(), grant).unwrap();
    answered.context = Some(json!({"user": 3}));
    answered.store = Some(StoreId(Uuid::from_u128(7)));
    answered.rules = serde_json::from_value(json!([{"name": "a", "effect": "ask", "tool": "p*"}])).unwrap();
    [two(), answered, state([asked(12, Some(60.0))])].map(|state| state.write().unwrap()).to_vec()
}

fn documents() -> Vec<Value> {
    valid().iter().map(|text| serde_json::from_str(text).unwrap()).collect()
}

fn decisions() -> Vec<Value> {
    vec![
        json!({"approved": true}),
        json!({"type": "reject", "reason": "no", "always": true}),
        json!({"type": "edit", "args": {"amount": 2}}),
    ]
}

/// What is read is written so that it reads back equal.
fn reads_back(state: &RunState) -> Result<(), TestCaseError> {
    let text = state.write().map_err(|error| TestCaseError::fail(error.to_string()))?;
    let again = RunState::read(&text).map_err(|error| TestCaseError::fail(format!("{error}: {text}")))?;
    prop_assert_eq!(&again, state);
    Ok(())
}

proptest! {
    #![proptest_config(config(4))]

    #[test]
    fn fuzz_a_text_is_no_state_or_reads_back_equal(text in texts(valid())) {
        if let Ok(text) = String::from_utf8(text) {
            match RunState::read(&text) {
                Ok(state) => reads_back(&state)?,
                Err(error) => prop_assert!(error.code().starts_with("run_state_"), "{}", error),
            }
        }
    }

    /// Answering it all or nothing, whatever the state is and whatever is said.
    #[test]
    fn fuzz_a_state_is_refused_or_can_be_answered(
        document in values(documents()),
        answers in prop::collection::vec((9..14_u128, values(decisions())), 0..3),
    ) {
        let mut state = match RunState::read(&document.to_string()) {
            Ok(state) => state,
            Err(error) => {
                prop_assert!(error.code().starts_with("run_state_"), "{}", error);
                return Ok(());
            }
        };
        reads_back(&state)?;
        let before = state.clone();
        let said = answers.into_iter().map(|(number, value)| (id(number), value)).collect();
        match state.answer(said, Some("ann"), now(), grant) {
            Ok(new) => {
                prop_assert_eq!(state.journal.len(), before.journal.len() + new);
                prop_assert_eq!(before.pending().count(), state.pending().count() + new);
                reads_back(&state)?;
            }
            Err(_) => prop_assert_eq!(&state, &before),
        }
        let state = state.expired(now().plus_seconds(1e9)).into_owned();
        reads_back(&state)?;
    }
}
