//! Which store it is.

use super::fixture::*;

super::for_each_store!(a_store_says_which_one_it_is_and_no_other_says_the_same);

async fn a_store_says_which_one_it_is_and_no_other_says_the_same(it: Fixture) {
    let id = it.read(|reader| reader.store_id()).await;
    it.write(|transaction| transaction.insert_session(&session(1), &[])).await;
    assert_eq!(it.write(|transaction| transaction.store_id()).await, id);
    assert_eq!(it.read(|reader| reader.store_id()).await, id);
    for other in [Fixture::memory(), Fixture::sqlite()] {
        assert_ne!(other.read(|reader| reader.store_id()).await, id);
    }
}
