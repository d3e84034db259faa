//! What a turn asked and began, found without the rest of its journal.

use serde_json::json;

use super::fixture::*;
use crate::domain::interrupt::Interrupt;
use crate::domain::journal::Entry;
use crate::store::Transaction;

super::for_each_store!(
    the_step_that_asked_for_an_interrupt_is_found,
    a_step_is_found_as_it_was_when_it_last_began,
    the_last_with_approvers_that_is_it_is_found,
    nothing_before_what_is_found_is_looked_at,
);

fn append(tx: &mut dyn Transaction, turn: u128, entry: &Entry) {
    tx.append_foreign(turn_id(turn), entry, at(0)).unwrap();
}

/// An `ask` of a turn for an interrupt that names approvers, or names none.
fn ask(tx: &mut dyn Transaction, turn: u128, number: u128, tool: &str, approvers: &[&str]) {
    let approvers = approvers.iter().map(|approver| (*approver).to_owned()).collect();
    let asked = Interrupt { approvers, turn_id: turn_id(turn), ..approval(1, number, tool) };
    tx.insert_interrupt(&asked).unwrap();
    append(tx, turn, &asking(number));
}

fn asking(number: u128) -> Entry {
    Entry::Ask { step: identity(&format!("0#{number}"), "interrupt"), interrupt_id: interrupt_id(number) }
}

async fn the_step_that_asked_for_an_interrupt_is_found(it: Fixture) {
    it.open_turn().await;
    it.write(|tx| {
        tx.insert_turn(&turn(session_id(1), 2))?;
        append(tx, 1, &asking(1));
        append(tx, 1, &step("pay", json!("paid")));
        append(tx, 1, &asking(2));
        append(tx, 1, &Entry::Answer { interrupt_id: interrupt_id(1), value: json!(true) });
        append(tx, 2, &asking(3));
        Ok(())
    })
    .await;
    let asking = async |turn, number| {
        let found = it.read(move |reader| reader.asking_step(turn_id(turn), interrupt_id(number))).await;
        found.map(|step| step.path)
    };
    assert_eq!(asking(1, 1).await.as_deref(), Some("0#1"));
    assert_eq!(asking(1, 2).await.as_deref(), Some("0#2"));
    assert_eq!(asking(2, 3).await.as_deref(), Some("0#3"));
    assert_eq!(asking(1, 3).await, None, "it is another turn's");
    assert_eq!(asking(1, 4).await, None);
    assert_eq!(asking(9, 1).await, None);
    let Entry::Ask { step: whole, .. } = self::asking(1) else { unreachable!() };
    assert_eq!(it.read(|reader| reader.asking_step(turn_id(1), interrupt_id(1))).await, Some(whole));
}

async fn a_step_is_found_as_it_was_when_it_last_began(it: Fixture) {
    it.open_turn().await;
    it.write(|tx| {
        tx.insert_turn(&turn(session_id(1), 2))?;
        append(tx, 1, &Entry::Intent { step: identity("0#1", "model"), arguments: None });
        append(tx, 1, &Entry::Intent { step: identity("0#1", "tool"), arguments: None });
        append(tx, 1, &Entry::Intent { step: identity("0#2", "model"), arguments: None });
        // It stands at the same path, and is no beginning.
        append(tx, 1, &step("pay", json!("paid")));
        append(tx, 1, &Entry::Timer { path: "0@3".to_owned(), due: at(5) });
        append(tx, 2, &Entry::Intent { step: identity("0#1", "other"), arguments: None });
        Ok(())
    })
    .await;
    let begun = async |turn, path: &'static str| it.read(move |reader| reader.begun_step(turn_id(turn), path)).await;
    assert_eq!(begun(1, "0#1").await, Some(identity("0#1", "tool")));
    assert_eq!(begun(1, "0#2").await, Some(identity("0#2", "model")));
    assert_eq!(begun(2, "0#1").await, Some(identity("0#1", "other")));
    assert_eq!(begun(1, "0@3").await, None);
    assert_eq!(begun(1, "0#").await, None);
    assert_eq!(begun(9, "0#1").await, None);
}

async fn the_last_with_approvers_that_is_it_is_found(it: Fixture) {
    it.open_turn().await;
    it.write(|tx| {
        tx.insert_turn(&turn(session_id(1), 2))?;
        ask(tx, 1, 1, "pay", &["ada"]);
        ask(tx, 1, 2, "pay", &["bob", "group:finance"]);
        ask(tx, 1, 3, "wire", &["cleo"]);
        ask(tx, 1, 4, "pay", &[]);
        ask(tx, 2, 5, "pay", &["dan"]);
        // Nobody was asked: there is no record of it.
        append(tx, 1, &asking(6));
        Ok(())
    })
    .await;
    let last = async |turn, tool: &'static str| {
        let is_it = move |asked: &Interrupt| asked.payload["tool_name"] == tool;
        it.read(move |reader| reader.last_with_approvers(turn_id(turn), &is_it)).await
    };
    assert_eq!(last(1, "pay").await.map(|asked| asked.interrupt_id), Some(interrupt_id(2)));
    assert_eq!(last(1, "pay").await.unwrap().approvers, ["bob", "group:finance"]);
    assert_eq!(last(1, "wire").await.map(|asked| asked.interrupt_id), Some(interrupt_id(3)));
    assert_eq!(last(2, "pay").await.map(|asked| asked.interrupt_id), Some(interrupt_id(5)));
    assert_eq!(last(2, "wire").await, None);
    assert_eq!(last(9, "pay").await, None);
}

async fn nothing_before_what_is_found_is_looked_at(it: Fixture) {
    it.open_turn().await;
    it.write(|tx| {
        (1..=3).for_each(|number| ask(tx, 1, number, "pay", &["ada"]));
        Ok(())
    })
    .await;
    let looked_at = it.read(|reader| {
        let looked_at = std::cell::RefCell::new(Vec::new());
        reader.last_with_approvers(turn_id(1), &|asked| {
            looked_at.borrow_mut().push(asked.interrupt_id);
            asked.interrupt_id == interrupt_id(2)
        })?;
        Ok(looked_at.into_inner())
    });
    assert_eq!(looked_at.await, [interrupt_id(3), interrupt_id(2)]);
}
