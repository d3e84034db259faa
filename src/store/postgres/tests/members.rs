//! Those who have a store: who may come beside whom, and what whoever was buried can still do.

use std::sync::Arc;

use serde_json::json;

use super::support::*;
use crate::domain::Error;
use crate::domain::journal::Entry;
use crate::domain::session::Session;
use crate::store::StoreExt;
use crate::store::about::About;
use crate::store::contract::fixture::*;
use crate::store::open::{self, Address};
use crate::store::open_error::{OpenError, ServerTrouble};
use crate::store::postgres::migrating;
use crate::store::postgres::opening::{MIGRATIONS, NEWEST};
use crate::store::postgres::servers::PostgresServers;
use crate::store::presence::Presence;
use crate::store::schema_state::SchemaState;
use crate::store::shared::options::OptionsDigests;
use crate::store::shared::servers::{Registered, RunningNow, ServerId, ServerKind, ServerRole, ServerRow, ServerRows};
use crate::store::signals::{KnownTurn, OrphanedTurn, Signal, TurnTaker};

fn somebody(kind: ServerKind) -> ServerRow {
    ServerRow { machine: None, ..ServerRow::of_this_process(kind, ServerRole::default()) }
}

async fn rows(database: &Database) -> PostgresServers {
    drop(database.store().await);
    PostgresServers::new(database.address())
}

#[tokio::test]
async fn of_servers_and_runs_who_come_at_once_those_of_one_kind_have_the_store() {
    let database = Database::new().await;
    let rows = Arc::new(rows(&database).await);
    let comers = (0..8).map(|number| {
        tokio::spawn({
            // Each on a connection of its own.
            let rows = PostgresServers::new(database.address());
            let kind = if number % 2 == 0 { ServerKind::Server } else { ServerKind::Run };
            async move { (kind, rows.register(somebody(kind)).await.unwrap() == Registered::Yes) }
        })
    });
    let mut admitted = Vec::new();
    for comer in comers.collect::<Vec<_>>() {
        let (kind, is_there) = comer.await.unwrap();
        admitted.extend(is_there.then_some(kind));
    }
    assert_eq!(admitted.len(), 4, "{admitted:?}");
    assert!(admitted.iter().all(|kind| *kind == admitted[0]), "{admitted:?}");
    let excluded = if admitted[0] == ServerKind::Server { ServerKind::Run } else { ServerKind::Server };
    let Registered::Occupied(others) = rows.register(somebody(excluded)).await.unwrap() else { panic!() };
    assert_eq!(others.len(), 4);
    assert_eq!((others[0].beat, others[0].row.pid), (0, std::process::id()));
    let tool = somebody(ServerKind::Tool);
    assert_eq!(rows.register(tool.clone()).await, Ok(Registered::Yes));
    assert_eq!(rows.others(tool.id).await.map(|others| others.len()), Ok(4));
}

#[tokio::test]
async fn a_row_is_counted_up_and_taken_away_only_as_it_was_seen() {
    let database = Database::new().await;
    let rows = rows(&database).await;
    let me = somebody(ServerKind::Server);
    let beat = async || rows.beat(me.id, 0, RunningNow::default(), false).await;
    assert_eq!(rows.register(me.clone()).await, Ok(Registered::Yes));
    assert_eq!(beat().await, Ok(Some(false)));
    assert_eq!(rows.bury(me.id, 0).await, Ok(false));
    assert_eq!(beat().await, Ok(Some(false)));
    assert_eq!(rows.bury(me.id, 2).await, Ok(true));
    assert_eq!(beat().await, Ok(None));
    assert_eq!(rows.bury(me.id, 2).await, Ok(false));
}

#[tokio::test]
async fn a_server_whose_row_is_there_already_has_come() {
    let database = Database::new().await;
    let rows = rows(&database).await;
    let me = somebody(ServerKind::Server);
    assert_eq!(rows.register(me.clone()).await, Ok(Registered::Yes));
    assert_eq!(rows.beat(me.id, 0, RunningNow::default(), false).await, Ok(Some(false)));
    // The reply to the first one was lost.
    assert_eq!(rows.register(me.clone()).await, Ok(Registered::Yes));
    assert_eq!(rows.bury(me.id, 1).await, Ok(true));
}

#[tokio::test]
async fn others_read_what_a_server_runs_as_it_came_and_as_it_says_with_each_beat() {
    let database = Database::new().await;
    let rows = rows(&database).await;
    let running = |code: Option<&str>, policy: Option<&str>| RunningNow {
        code: code.map(str::to_owned),
        policy: policy.map(str::to_owned),
    };
    let role = ServerRole {
        agent: Some("a:b".to_owned()),
        serves_http: true,
        workers: 2,
        options: Some(OptionsDigests::parse("o/r")),
        running: running(Some("v1"), None),
    };
    let me = ServerRow { role: role.clone(), ..somebody(ServerKind::Server) };
    assert_eq!(rows.register(me.clone()).await, Ok(Registered::Yes));
    let read = async || rows.others(somebody(ServerKind::Tool).id).await.unwrap().remove(0).row.role;
    assert_eq!(read().await, role);
    let now = running(Some("v2"), Some("p"));
    assert_eq!(rows.beat(me.id, 1, now.clone(), false).await, Ok(Some(false)));
    assert_eq!(read().await, ServerRole { running: now, ..role });
}

#[tokio::test]
async fn nothing_is_committed_for_whoever_was_buried() {
    let database = Database::new().await;
    let store = open_at_once(&database.text()).await.unwrap();
    let insert =
        |number| store.transact(About::Session(session_id(number)), move |tx| tx.insert_session(&session(number), &[]));
    insert(1).await.unwrap();
    let owner = ServerId(store.owner().0);
    database.execute("DELETE FROM hitl.servers").await;
    let refused = insert(2).await;
    let Err(Error::StoreUnavailable(why)) = refused else { panic!("{refused:?}") };
    assert!(why.contains("taken the place"), "{why}");
    assert!(matches!(
        store.upkeep().release_notices(crate::domain::Timestamp::from_millis(1)).await,
        Err(Error::StoreUnavailable(_))
    ));
    // It finds out, and does not even read.
    let mut presence = store.presence().unwrap();
    presence.wait_for(|presence| *presence == Presence::Dead).await.unwrap();
    assert!(store.query(|reader| reader.count_sessions()).await.is_err());
    assert_eq!(database.count("sessions").await, 1);
    let next = open_at_once(&database.text()).await.unwrap();
    assert_ne!(ServerId(next.owner().0), owner);
    assert_eq!(next.query(|reader| reader.count_sessions()).await, Ok(1));
    next.close().await.unwrap();
}

#[tokio::test]
async fn whoever_closes_leaves_and_whoever_reads_is_in_nobodys_way() {
    let database = Database::new().await;
    let missing = open::read_only(&database.text()).await.err().unwrap();
    assert_eq!(missing.code(), "store_missing");
    let store = open_at_once(&database.text()).await.unwrap();
    let taken = open::shared(&database.text()).await.err().unwrap();
    let OpenError::Server { trouble: ServerTrouble::InUse { is_server, pid, .. }, .. } = &taken else { panic!() };
    assert_eq!((*is_server, *pid, taken.code()), (true, std::process::id(), "store_locked"));
    let reader = open::read_only(&database.text()).await.unwrap();
    assert_eq!(reader.query(|reader| reader.count_sessions()).await, Ok(0));
    let write = reader.transact(About::Session(session_id(1)), |tx| tx.insert_session(&session(1), &[])).await;
    assert!(matches!(write, Err(Error::StoreUnavailable(_))));
    reader.close().await.unwrap();
    store.close().await.unwrap();
    assert_eq!(database.count("servers").await, 0);
    let one = open::shared(&database.text()).await.unwrap();
    let other = open::shared(&database.text()).await.unwrap();
    one.close().await.unwrap();
    other.close().await.unwrap();
}

#[tokio::test]
async fn a_role_that_was_granted_no_more_serves_and_changes_neither_tables_nor_the_audit() {
    let database = Database::new().await;
    let Address::Postgres(address) = Address::parse(&database.text()).unwrap() else { panic!() };
    assert_eq!(migrating::schema(&address).await, Ok(SchemaState { found: None, newest: NEWEST }));
    let role = format!("{}_server", database.name());
    let nobody = migrating::migrate(&address, Some(&role)).await.unwrap_err();
    assert_eq!(nobody.code(), "store_refused");
    database.execute(&format!("CREATE ROLE {role} LOGIN")).await;
    assert_eq!(
        migrating::migrate(&address, Some(&role)).await,
        Ok(SchemaState { found: Some(NEWEST), newest: NEWEST })
    );
    let text = database.text().replace("postgres@", &format!("{role}@"));
    let store = open_at_once(&text).await.unwrap();
    let deed = || crate::domain::audit::Deed::new(crate::domain::audit::Action::ALL[0]);
    let at = crate::domain::Timestamp::from_millis(1);
    store
        .transact(About::Session(session_id(1)), move |tx| {
            tx.insert_session(&session(1), &[])?;
            tx.append_audit(deed(), at)
        })
        .await
        .unwrap();
    // It links it too, once whatever else the server of all tests is at is over.
    while store.query(|reader| reader.audit_head()).await.unwrap().seq != 1 {}
    store.close().await.unwrap();
    let client = server_as(&text).await;
    for forbidden in [
        "UPDATE hitl.deeds SET actor = 'mallory'",
        "DELETE FROM hitl.deeds",
        "UPDATE hitl.audit_chain SET hash = ''",
        "TRUNCATE hitl.audit_chain",
        "CREATE TABLE hitl.mine (id int)",
        "DROP TABLE hitl.sessions",
        "ALTER TABLE hitl.deeds ADD COLUMN mine int",
        "DELETE FROM hitl.meta",
    ] {
        assert!(client.batch_execute(forbidden).await.is_err(), "{forbidden}");
    }
    drop(client);
    database.execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
}

#[tokio::test]
async fn whose_owner_is_gone_or_who_was_let_go_of_is_orphaned_and_ones_own_are_not() {
    let database = Database::new().await;
    let (one, other) = (open_at_once(&database.text()).await.unwrap(), open_at_once(&database.text()).await.unwrap());
    for (number, store) in [(1, &one), (2, &other), (3, &other)] {
        let owner = store.owner();
        let begun = store.transact(About::Session(session_id(number)), move |tx| {
            tx.insert_session(&session(number), &[])?;
            tx.insert_turn(&turn(session_id(number), number))?;
            tx.claim_turn(turn_id(number), owner, 0)?;
            if number == 3 { tx.release_turn(turn_id(number)) } else { Ok(()) }
        });
        begun.await.unwrap();
    }
    let orphan = |number| OrphanedTurn { turn: turn_id(number), epoch: Some(1) };
    assert_eq!(one.upkeep().orphaned_turns(TurnTaker::default()).await, Ok(vec![orphan(3)]));
    other.close().await.unwrap();
    assert_eq!(one.upkeep().orphaned_turns(TurnTaker::default()).await, Ok(vec![orphan(2), orphan(3)]));
    let of = async |agent: &str| {
        let taker = TurnTaker { agent: agent.to_owned(), ..TurnTaker::default() };
        one.upkeep().look(taker, Vec::new()).await.unwrap().orphans
    };
    assert_eq!(of(&session(1).agent).await, [orphan(2), orphan(3)]);
    assert_eq!(of("another").await, []);
    let of = async |known| one.upkeep().look(TurnTaker::default(), known).await.unwrap().owned;
    assert_eq!(of(Vec::new()).await, [orphan(1)]);
    assert_eq!(of(vec![KnownTurn { turn: turn_id(1), session: session_id(1), epoch: 1, run: 1, known: 0 }]).await, []);
    one.close().await.unwrap();
}

#[tokio::test]
async fn of_the_turns_that_nobody_has_those_are_ready_that_wait_for_no_person() {
    let database = Database::new().await;
    let (one, other) = (open_at_once(&database.text()).await.unwrap(), open_at_once(&database.text()).await.unwrap());
    let ready = async |count, since: Option<i64>| {
        let ready = one.upkeep().ready_turns().await.unwrap().unwrap();
        assert_eq!((ready.count(), ready.since), (count, since.map(at)));
    };
    ready(0, None).await;
    // Each was written to last at ten times its number: 1 is at a server, 2 and 5 were let go of, 3 waits for a person, 4 is
    // parked, 6 is over.
    for number in 1..=6 {
        let (owner, id) = (other.owner(), turn_id(number));
        let written_at = at(10 * i64::try_from(number).unwrap());
        let begun = other.transact(About::Session(session_id(number)), move |tx| {
            tx.insert_session(&session(number), &[])?;
            tx.insert_turn(&turn(session_id(number), number))?;
            let epoch = tx.claim_turn(id, owner, 0)?;
            tx.append(id, epoch, &step("a", json!(1)), written_at)?;
            match number {
                2 | 5 => tx.release_turn(id),
                3 => tx.append(id, epoch, &Entry::Pause { timers: Vec::new(), context: None }, written_at).map(drop),
                4 => tx.park_turn(id, epoch, None, 0),
                6 => tx.end_turn(id, written_at),
                _ => Ok(()),
            }
        });
        begun.await.unwrap();
    }
    ready(0, None).await;
    // Nobody runs what is of an agent that no server is there for.
    database.execute(&format!("UPDATE hitl.servers SET agent = '{}'", session(1).agent)).await;
    ready(2, Some(20)).await;
    database.execute(&format!("UPDATE hitl.turns SET code = 'v1' WHERE id = '{}'", turn_id(2).0)).await;
    let by_code = one.upkeep().ready_turns().await.unwrap().unwrap().by_code;
    assert_eq!(by_code.into_iter().collect::<Vec<_>>(), [(None, 1), (Some("v1".to_owned()), 1)]);
    // A retry writes the session alone.
    let touched = Session { updated_at: at(70), ..session(2) };
    other.transact(About::Session(session_id(2)), move |tx| tx.update_session(&touched)).await.unwrap();
    ready(2, Some(50)).await;
    other.close().await.unwrap();
    ready(3, Some(10)).await;
    one.close().await.unwrap();
}

#[tokio::test]
async fn a_server_is_told_at_once_what_another_one_has_committed() {
    let database = Database::new().await;
    let (one, other) = (open_at_once(&database.text()).await.unwrap(), open_at_once(&database.text()).await.unwrap());
    let mut signals = one.signals().unwrap();
    let mut heard = async |wanted: Signal| {
        while signals.recv().await.unwrap() != wanted {}
    };
    // Until each knows that the other is there, and listens, nobody rings or hears.
    let mut number = 0;
    let told = loop {
        number += 1;
        let begun = other.transact(About::Session(session_id(number)), move |tx| {
            tx.insert_session(&session(number), &[])?;
            tx.append_event(&event(number, "a"), at(0)).map(drop)
        });
        begun.await.unwrap();
        tokio::select! {
            () = heard(Signal::Session(session_id(number))) => break number,
            () = tokio::time::sleep(std::time::Duration::from_millis(100)) => {}
        }
    };
    other.transact(About::Session(session_id(told)), move |tx| tx.delete_session(session_id(told))).await.unwrap();
    heard(Signal::Deleted(session_id(told))).await;
    let before = one.upkeep().access_version().await.unwrap().changes;
    other.transact(About::Access, |tx| tx.insert_key(&key(1, "ada"))).await.unwrap();
    heard(Signal::Access).await;
    assert_eq!(one.upkeep().access_version().await.unwrap().changes, before + 1);
    other.close().await.unwrap();
    one.close().await.unwrap();
}

#[tokio::test]
async fn of_turns_in_memory_those_are_told_of_to_whom_others_have_written_or_that_are_another_ones() {
    let database = Database::new().await;
    let store = open_at_once(&database.text()).await.unwrap();
    let owner = store.owner();
    for number in 1..=4 {
        let begun = store.transact(About::Session(session_id(number)), move |tx| {
            tx.insert_session(&session(number), &[])?;
            tx.insert_turn(&turn(session_id(number), number))?;
            let epoch = tx.claim_turn(turn_id(number), owner, 0)?;
            let answer = Entry::Answer { interrupt_id: interrupt_id(number), value: json!(1) };
            tx.append(turn_id(number), epoch, &step("a", json!(1)), at(0))?;
            match number {
                2 => tx.append_foreign(turn_id(number), &answer, at(0)).map(drop),
                3 => tx.claim_turn(turn_id(number), owner, 0).map(drop),
                4 => tx.end_turn(turn_id(number), at(0)),
                _ => Ok(()),
            }
        });
        begun.await.unwrap();
    }
    let of = |number, known| KnownTurn { turn: turn_id(number), session: session_id(number), epoch: 1, run: 1, known };
    let moved = async |known: Vec<KnownTurn>| store.upkeep().look(TurnTaker::default(), known).await.unwrap().moved;
    let mut told = moved((1..=5).map(|number| of(number, 0)).collect()).await;
    told.sort_unstable_by_key(|turn| turn.0);
    assert_eq!(told, [turn_id(2), turn_id(3), turn_id(4), turn_id(5)]);
    assert_eq!(moved(vec![of(1, 0), of(2, 2)]).await, []);
    store.close().await.unwrap();
}

#[tokio::test]
async fn the_script_makes_what_a_server_makes() {
    let database = Database::new().await;
    let Address::Postgres(address) = Address::parse(&database.text()).unwrap() else { panic!() };
    database.execute(&migrating::script(None)).await;
    assert_eq!(migrating::schema(&address).await, Ok(SchemaState { found: Some(NEWEST), newest: NEWEST }));
    open_at_once(&database.text()).await.unwrap().close().await.unwrap();
}

#[tokio::test]
async fn a_schema_of_the_release_before_is_refused_until_it_is_migrated_and_keeps_what_it_has() {
    let database = Database::new().await;
    let Address::Postgres(address) = Address::parse(&database.text()).unwrap() else { panic!() };
    database.execute(MIGRATIONS[0]).await;
    let older = SchemaState { found: Some(1), newest: NEWEST };
    assert_eq!(migrating::schema(&address).await, Ok(older));
    let refused = open_at_once(&database.text()).await.err().unwrap();
    assert_eq!((refused.code(), refused.hint()), ("store_older", "bring the schema up to date with hitl migrate"));
    let id = "SELECT id::text FROM hitl.meta";
    let before: String = database.client().await.query_one(id, &[]).await.unwrap().get(0);
    let (one, other) = tokio::join!(migrating::migrate(&address, None), migrating::migrate(&address, None));
    assert!([one, other].iter().all(|done| done.as_ref().is_ok_and(|state| state.newest == NEWEST)));
    assert_eq!(migrating::schema(&address).await, Ok(SchemaState { found: Some(NEWEST), newest: NEWEST }));
    let after: String = database.client().await.query_one(id, &[]).await.unwrap().get(0);
    assert_eq!(after, before);
    open_at_once(&database.text()).await.unwrap().close().await.unwrap();
}
