//! Keys and sign-ins.

use super::fixture::*;
use crate::domain::Error;
use crate::domain::access::Key;

super::for_each_store!(
    keys_come_back_oldest_first_with_all_they_have,
    a_name_is_free_again_once_its_key_is_revoked,
    a_key_is_revoked_once,
    sign_ins_come_and_go,
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
    it.write(|transaction| transaction.sweep_sign_ins(at(1))).await;
    assert_eq!(it.read(|reader| reader.sign_ins()).await, [sign_in(2, 2)]);
}
