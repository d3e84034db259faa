//! A job changes rows of what it says that it is about, and of nothing else.

use super::fixture::*;
use super::outbox::notice;
use crate::domain::Error;
use crate::domain::audit::{Action, Deed};
use crate::domain::journal::Entry;
use crate::domain::policy::PolicyChange;
use crate::store::about::About;
use crate::store::record::{DueKind, StoredReply};
use crate::store::{StoreExt, Transaction};

super::for_each_store!(
    a_job_changes_rows_of_what_it_is_about,
    a_job_that_changes_rows_of_another_session_is_refused,
    what_says_who_may_is_for_jobs_about_it,
);

type Job = fn(&mut dyn Transaction) -> Result<(), Error>;

/// Each of them changes rows of the first session.
const OF_THE_FIRST: [Job; 17] = [
    |tx| tx.update_session(&session(1)),
    |tx| tx.set_messages(session_id(1), &[message("a")]),
    |tx| tx.insert_interrupt(&approval(1, 5, "rm")),
    |tx| tx.update_interrupt(&custom(1, 1)),
    |tx| tx.set_aside(DueKind::Interrupt(interrupt_id(1))),
    |tx| tx.set_aside(DueKind::Timers(turn_id(1))),
    |tx| tx.insert_turn(&turn(session_id(1), 5)),
    |tx| tx.claim_turn(turn_id(1), me(), 0).map(drop),
    |tx| tx.append(turn_id(1), 1, &Entry::Cancel {}, at(0)).map(drop),
    |tx| tx.append_foreign(turn_id(1), &Entry::Cancel {}, at(0)).map(drop),
    |tx| tx.note_turn(turn_id(1), None, vec!["a".to_owned()]),
    |tx| tx.insert_reply(&format!("messages:{}:1", session_id(1)), "k", &reply()),
    |tx| tx.append_audit(Deed::new(Action::Seen).session(session_id(1)), at(0)),
    |tx| tx.append_event(&event(1, "x"), at(0)).map(drop),
    |tx| tx.insert_notice(&notice(7, 1)),
    |tx| tx.delete_notice(notice(7, 1).id).map(drop),
    |tx| tx.delete_session(session_id(1)).map(drop),
];

fn reply() -> StoredReply {
    StoredReply { request_digest: String::new(), body: serde_json::json!(1), created_at: at(0) }
}

async fn two_sessions(it: &Fixture) {
    it.open_turn().await;
    it.write(|tx| {
        tx.insert_interrupt(&approval(1, 1, "rm"))?;
        tx.insert_session(&session(2), &[])?;
        tx.insert_turn(&turn(session_id(2), 2))?;
        tx.insert_interrupt(&approval(2, 2, "rm"))
    })
    .await;
}

async fn a_job_changes_rows_of_what_it_is_about(it: Fixture) {
    two_sessions(&it).await;
    let about = [About::Session(session_id(1)), About::Turn(turn_id(1)), About::Interrupt(interrupt_id(1))];
    for (number, job) in OF_THE_FIRST.into_iter().enumerate() {
        assert_eq!(it.store.transact(about[number % 3], job).await, Ok(()), "{number}");
    }
    // It may be made in the job that is about it, and what is nobody's may come along.
    let made = it.store.transact(about[0], |tx| {
        tx.insert_session(&session(1), &[])?;
        tx.insert_reply("ready", "", &reply())?;
        tx.append_audit(Deed::new(Action::PolicyLoaded), at(0))
    });
    assert_eq!(made.await, Ok(()));
}

async fn a_job_that_changes_rows_of_another_session_is_refused(it: Fixture) {
    two_sessions(&it).await;
    it.write(|tx| tx.insert_notice(&notice(7, 1))).await;
    let others = [
        About::Session(session_id(2)),
        About::Session(session_id(3)),
        About::Turn(turn_id(2)),
        About::Turn(turn_id(9)),
        About::Interrupt(interrupt_id(2)),
        About::Access,
        About::Nothing,
    ];
    for about in others {
        for (number, job) in OF_THE_FIRST.into_iter().enumerate() {
            let refused = it.store.transact(about, job).await;
            let is_refused = matches!(&refused, Err(Error::Internal(why)) if why.contains("changes rows of"));
            assert!(is_refused, "{about:?}, {number}: {refused:?}");
        }
    }
    assert_eq!(it.read(|reader| reader.session(session_id(1))).await, Some(session(1)));
}

async fn what_says_who_may_is_for_jobs_about_it(it: Fixture) {
    let jobs: [Job; 5] = [
        |tx| tx.insert_key(&key(1, "ci")),
        |tx| tx.revoke_key(key_id(1), at(1)),
        |tx| tx.insert_sign_in(&sign_in(1, 1)),
        |tx| tx.delete_sign_in(&[1; 32].into()),
        |tx| tx.change_policy(&PolicyChange::Removed),
    ];
    for job in jobs {
        let refused = it.store.transact(About::Nothing, job).await;
        assert!(matches!(refused, Err(Error::Internal(_))), "{refused:?}");
        assert_eq!(it.store.transact(About::Access, job).await, Ok(()));
    }
}
