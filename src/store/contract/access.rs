//! Keys, sign-ins, and the policy that was pushed.

use super::fixture::*;
use crate::domain::Error;
use crate::domain::access::Key;
use crate::domain::policy::{CheckedPolicy, PolicyChange, PushedPolicy};
use crate::store::upkeep::Sweep;

super::for_each_store!(
    keys_come_back_oldest_first_with_all_they_have,
    a_name_is_free_again_once_its_key_is_revoked,
    a_key_is_revoked_once,
    sign_ins_come_and_go,
    no_more_sign_ins_are_swept_at_once_than_it_is_told,
    a_policy_comes_in_the_place_of_another_and_goes,
    a_policy_is_as_before_where_its_job_fails,
);

async fn keys_come_back_oldest_first_with_all_they_have(it: Fixture) {
    let (first, second) = (key(7, "ada"), Key { groups: Vec::new(), created_by: None, ..key(2, "bob") });
    let stored = [first.clone(), second.clone()];
    it.write(move |transaction| stored.iter().try_for_each(|key| transaction.insert_key(key))).await;
    assert_eq!(it.read(|reader| reader.keys()).await, [first, second]);
}

async fn a_name_is_free_again_once_its_key_is_revoked(it: Fixture) {
    it.write(|transaction| transaction.insert_key(&key(1, "ada"))).await;
    let taken = it.refuse(|transaction| transaction.insert_key(&key(2, "ada"))).await;
    assert_eq!(taken, Error::KeyExists("ada".to_owned()));
    it.write(|transaction| {
        transaction.revoke_key(key_id(1), at(5))?;
        transaction.insert_key(&key(2, "ada"))
    })
    .await;
    let revoked = Key { revoked_at: Some(at(5)), ..key(1, "ada") };
    assert_eq!(it.read(|reader| reader.keys()).await, [revoked, key(2, "ada")]);
}

async fn a_key_is_revoked_once(it: Fixture) {
    it.write(|transaction| transaction.insert_key(&key(1, "ada"))).await;
    it.write(|transaction| transaction.revoke_key(key_id(1), at(5))).await;
    for id in [key_id(1), key_id(2)] {
        let unknown = it.refuse(move |transaction| transaction.revoke_key(id, at(6))).await;
        assert_eq!(unknown, Error::UnknownKey(id.to_string()));
    }
    assert_eq!(it.read(|reader| reader.keys()).await[0].revoked_at, Some(at(5)));
}

async fn sign_ins_come_and_go(it: Fixture) {
    it.write(|transaction| (1..=3).try_for_each(|number| transaction.insert_sign_in(&sign_in(number, number.into()))))
        .await;
    it.write(|transaction| transaction.delete_sign_in(&[3; 32].into())).await;
    it.write(|transaction| transaction.delete_sign_in(&[9; 32].into())).await;
    assert_eq!(it.read(|reader| reader.sign_ins()).await, [sign_in(1, 1), sign_in(2, 2)]);
    // One that ends now has ended.
    assert_eq!(it.upkeep().sweep(Sweep::SignIns, at(1), 10).await, Ok(1));
    assert_eq!(it.read(|reader| reader.sign_ins()).await, [sign_in(2, 2)]);
}

async fn no_more_sign_ins_are_swept_at_once_than_it_is_told(it: Fixture) {
    it.write(|transaction| {
        // The order of their tokens is not that of their ends.
        let ends = [(1, 5), (2, 3), (3, 4), (4, 3), (5, 11), (6, 10)];
        ends.into_iter().try_for_each(|(number, ends)| transaction.insert_sign_in(&sign_in(number, ends)))
    })
    .await;
    let sweep = async |limit| it.upkeep().sweep(Sweep::SignIns, at(10), limit).await.unwrap();
    let kept = async || {
        let kept = it.read(|reader| reader.sign_ins()).await;
        let mut numbers: Vec<u8> = kept.iter().map(|sign_in| sign_in.token.bytes()[0]).collect();
        numbers.sort_unstable();
        numbers
    };
    assert_eq!((sweep(0).await, kept().await.len()), (0, 6));
    assert_eq!(sweep(3).await, 3);
    assert_eq!(kept().await, [1, 5, 6]);
    assert_eq!(sweep(3).await, 2);
    assert_eq!(kept().await, [5]);
    assert_eq!(sweep(3).await, 0);
}

fn policy(tool: &str) -> PushedPolicy {
    // As it is written, comments and lines without anything too.
    let text = format!("# caf\u{e9}\n\n[[rule]]\nname = 'a'\neffect = 'deny'\ntool = '{tool}'\n");
    CheckedPolicy::of(text).unwrap().pushed(Some("ada").filter(|_| tool == "pay"), at(7))
}

async fn a_policy_comes_in_the_place_of_another_and_goes(it: Fixture) {
    assert_eq!(it.read(|reader| reader.pushed_policy()).await, None);
    for tool in ["pay", "refund"] {
        it.write(move |transaction| transaction.change_policy(&PolicyChange::Pushed(policy(tool)))).await;
        assert_eq!(it.read(|reader| reader.pushed_policy()).await, Some(policy(tool)));
    }
    for _ in 0..2 {
        it.write(|transaction| transaction.change_policy(&PolicyChange::Removed)).await;
        assert_eq!(it.read(|reader| reader.pushed_policy()).await, None);
    }
}

async fn a_policy_is_as_before_where_its_job_fails(it: Fixture) {
    it.write(|transaction| transaction.change_policy(&PolicyChange::Pushed(policy("pay")))).await;
    for change in [PolicyChange::Removed, PolicyChange::Pushed(policy("refund"))] {
        let failed = it.refuse(move |transaction| {
            transaction.change_policy(&change)?;
            assert_ne!(transaction.pushed_policy()?, Some(policy("pay")), "the job sees what it has changed");
            Err::<(), _>(Error::SessionNotFound)
        });
        assert_eq!(failed.await, Error::SessionNotFound);
        assert_eq!(it.read(|reader| reader.pushed_policy()).await, Some(policy("pay")));
    }
}
