//! Which turns that nobody has a server finds, beside servers with other code: as `TurnCode::may_be_taken` says.

use uuid::Uuid;

use super::support::*;
use crate::domain::Error;
use crate::domain::cluster::routing::TurnCode;
use crate::domain::cluster::routing::tests::{TABLE, turn as routed};
use crate::store::contract::fixture::*;
use crate::store::postgres::PostgresBackend;
use crate::store::record::Turn;
use crate::store::shared::changes::{Changes, RowChange};
use crate::store::signals::TurnTaker;
use crate::store::upkeep::Upkeep as _;

const AGENT: &str = "agents:main";

fn taker(starved: bool) -> TurnTaker {
    TurnTaker {
        agent: AGENT.to_owned(),
        code: Some("v2".to_owned()),
        starved: if starved { vec![turn_id(1)] } else { Vec::new() },
        has_others: true,
    }
}

/// Whether it is found by whoever looks each second, by whoever starts, and as one that is left to others.
async fn found(store: &PostgresBackend, starved: bool) -> [bool; 3] {
    let look = store.look(taker(starved), Vec::new()).await.unwrap();
    let at_start = store.orphaned_turns(taker(starved)).await.unwrap();
    [&look.orphans, &at_start, &look.withheld].map(|turns| turns.iter().any(|orphan| orphan.turn == turn_id(1)))
}

async fn there(database: &Database, codes: &[&str], but: &str) {
    let mut statements = "DELETE FROM hitl.servers;".to_owned();
    for code in codes {
        statements += &format!(
            "INSERT INTO hitl.servers (id, kind, host, pid, beat, beat_at, started_at, agent, workers, code)
             VALUES ('{}', 'server', '', 0, 0, 0, 0, '{AGENT}', 1, '{code}'); ",
            Uuid::new_v4()
        );
    }
    database.execute(&(statements + but)).await;
}

async fn stored(database: &Database) -> PostgresBackend {
    let store = database.store().await;
    store_session(&store, 1).await;
    database.execute(&format!("UPDATE hitl.sessions SET agent = '{AGENT}'")).await;
    let new = turn_change(turn(session_id(1), 1), true);
    let sessions = vec![touched(1, 1, RowChange::Kept)];
    commit(&store, Changes { sessions, turns: vec![new], ..Changes::default() }).await;
    store
}

async fn write(store: &PostgresBackend, version: &mut u64, code: TurnCode) {
    *version += 1;
    let turn = Turn { code, ..turn(session_id(1), 1) };
    let (sessions, turns) = (vec![touched(1, *version, RowChange::Kept)], vec![turn_change(turn, false)]);
    commit(store, Changes { sessions, turns, ..Changes::default() }).await;
}

#[tokio::test]
async fn a_server_finds_what_its_code_may_take_and_follows_what_may_starve() {
    let database = Database::new().await;
    let store = stored(&database).await;
    let mut version = 1;
    for (code, refused_by, others, expected) in TABLE {
        let turn = routed(code, refused_by);
        write(&store, &mut version, turn.clone()).await;
        there(&database, others, "").await;
        for (starved, expected_now) in [(false, expected[0]), (true, expected[1])] {
            let withheld = expected == [false, true];
            let now = found(&store, starved).await;
            assert_eq!(now, [expected_now, expected_now, withheld], "{turn:?} beside {others:?}, starved: {starved}");
        }
        let read = slice(&store, 1).await.unwrap();
        assert_eq!(read.turn.unwrap().unwrap().turn.code, turn);
    }
}

#[tokio::test]
async fn turns_are_left_to_no_server_that_ends_runs_none_or_is_another_agents() {
    let database = Database::new().await;
    let store = stored(&database).await;
    write(&store, &mut 1, routed(Some("v1"), &[])).await;
    there(&database, &["v1"], "").await;
    assert_eq!(found(&store, false).await, [false, false, true]);
    for change in ["draining = true", "workers = 0", "agent = 'another'", "kind = 'tool'", "code = NULL"] {
        there(&database, &["v1"], &format!("UPDATE hitl.servers SET {change}")).await;
        assert_eq!(found(&store, false).await, [true, true, false], "{change}");
    }
}

#[tokio::test]
async fn what_is_no_list_of_codes_hinders_nobody_and_is_told_with_its_own_turn() {
    let database = Database::new().await;
    let store = stored(&database).await;
    let mut version = 1;
    write(&store, &mut version, routed(Some("v1"), &["v2"])).await;
    there(&database, &[], "").await;
    let as_if_nobody_had_refused = [true, true, false];
    for spoiled in ["v2", "[\"v2\"", "[\"v2\",]", "{\"v2\": 1}", "[\"\\ud800\"]", "[\"\\u0000\"]", "[\"\\x\"]", ""] {
        let client = database.client().await;
        client.execute("UPDATE hitl.turns SET refused_by = $1", &[&spoiled]).await.unwrap();
        assert_eq!(found(&store, false).await, as_if_nobody_had_refused, "{spoiled}");
    }
    let turn = slice(&store, 1).await.unwrap().turn;
    assert!(matches!(&turn, Err(Error::Unreadable(why)) if why.starts_with("turns.refused_by: ")), "{turn:?}");
    // Whatever the codes are called, a list of them is one.
    there(&database, &["v1"], "").await;
    for code in ["v2", "a \"b\" \\", "\n\t\u{1}\u{1f}\u{7f}", "é\u{1f600}", "[],{}"] {
        write(&store, &mut version, routed(None, &["first", code])).await;
        let here = TurnTaker { code: Some(code.to_owned()), ..taker(false) };
        assert_eq!(store.look(here, Vec::new()).await.unwrap().orphans, [], "{code:?}");
    }
}
