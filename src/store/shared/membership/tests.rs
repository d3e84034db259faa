use std::collections::HashMap;

use super::*;
use crate::store::clock::{Clock, WallClock};
use crate::store::contract::fixture::{about, session};
use crate::store::shared::servers::{ServerKind, ServerRole, ServerStatus};
use crate::store::shared::{SharedStore, StoreAccess};
use crate::store::simulated::SimulatedDatabase;
use crate::store::simulated::network::{Link, LinkState, SimulatedConnection, Weather};
use crate::store::{BoxFuture, StoreExt};

/// Rows that are in memory, and can be out of reach for some.
#[derive(Default)]
struct Rows(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    rows: HashMap<ServerId, (ServerRow, u64)>,
    unreachable: Vec<ServerId>,
    /// Whether it tells what it holds and takes nothing.
    only_tells: bool,
    /// How often somebody was told of the others.
    looks: usize,
    /// How many burials wait until it takes something again.
    burials: usize,
    /// Whether nothing comes of a burial.
    buries_slowly: bool,
    loses_answers: bool,
    /// Who is told to somebody that comes to be there, and has left by then.
    leaving: Option<ServerRow>,
    asked_to_end: Vec<ServerId>,
}

impl Rows {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    fn cut_off(&self, id: ServerId) {
        self.state().unreachable.push(id);
    }

    fn reach_again(&self) {
        self.state().unreachable.clear();
    }

    fn names(&self) -> Vec<ServerId> {
        self.state().rows.keys().copied().collect()
    }
}

fn other(row: &ServerRow, beat: u64) -> OtherServer {
    let (row, version) = (row.clone(), String::new());
    OtherServer { row, beat, silent_ms: 0, version, at_work: 0, is_draining: false, started_at: 0 }
}

fn unreachable() -> Error {
    Error::StoreUnavailable("out of reach".to_owned())
}

impl ServerRows for Rows {
    fn register(&self, row: ServerRow) -> BoxFuture<'static, Result<Registered, Error>> {
        let mut state = self.state();
        if let Some(left) = state.leaving.take() {
            return Box::pin(std::future::ready(Ok(Registered::Occupied(vec![other(&left, 0)]))));
        }
        let there: Vec<OtherServer> = state.rows.values().map(|(row, beat)| other(row, *beat)).collect();
        let registered = if there.iter().any(|other| row.kind.excludes(other.row.kind)) {
            Registered::Occupied(there.into_iter().filter(|other| other.row.id != row.id).collect())
        } else {
            state.rows.insert(row.id, (row, 0));
            Registered::Yes
        };
        let answer = if state.loses_answers { Err(unreachable()) } else { Ok(registered) };
        Box::pin(std::future::ready(answer))
    }

    fn others(&self, id: ServerId) -> BoxFuture<'static, Result<Vec<OtherServer>, Error>> {
        let mut state = self.state();
        state.looks += 1;
        let others = state.rows.values().filter(|(row, _)| row.id != id);
        let others = others.map(|(row, beat)| other(row, *beat)).collect();
        let unreached = state.unreachable.contains(&id);
        Box::pin(std::future::ready(if unreached { Err(unreachable()) } else { Ok(others) }))
    }

    fn beat(
        &self,
        id: ServerId,
        _: u64,
        running: RunningNow,
        is_draining: bool,
    ) -> BoxFuture<'static, Result<Option<bool>, Error>> {
        let mut state = self.state();
        if state.only_tells || state.unreachable.contains(&id) {
            return Box::pin(std::future::ready(Err(unreachable())));
        }
        let row = state.rows.get_mut(&id).map(|(row, beat)| {
            row.role.running = running;
            *beat += 1;
        });
        let is_draining = is_draining || state.asked_to_end.contains(&id);
        Box::pin(std::future::ready(Ok(row.map(|()| is_draining))))
    }

    fn bury(&self, id: ServerId, beat: u64) -> BoxFuture<'static, Result<bool, Error>> {
        let state = Arc::clone(&self.0);
        self.state().burials += 1;
        Box::pin(async move {
            // As a database does whose table somebody has locked.
            loop {
                let is_held = {
                    let state = state.lock().unwrap();
                    state.only_tells || state.buries_slowly
                };
                if !is_held {
                    break;
                }
                tokio::task::yield_now().await;
            }
            let rows = &mut state.lock().unwrap().rows;
            let is_still = rows.get(&id).is_some_and(|(_, counted)| *counted == beat);
            if is_still {
                rows.remove(&id);
            }
            Ok(is_still)
        })
    }

    fn leave(&self, id: ServerId) -> BoxFuture<'static, Result<(), Error>> {
        self.state().rows.remove(&id);
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Quick, and slow enough for a machine that is busy.
fn timings() -> Timings {
    Timings::USUAL.faster(20)
}

/// Of another machine, so that nobody looks whether its process is there.
fn row(kind: ServerKind) -> ServerRow {
    ServerRow { machine: None, ..ServerRow::of_this_process(kind, ServerRole::default()) }
}

async fn join(rows: &Arc<Rows>, kind: ServerKind, admission: Admission) -> Result<Arc<Membership>, JoinError> {
    Membership::join(Arc::clone(rows) as _, row(kind), admission, timings()).await
}

async fn stands(membership: &Membership, presence: Presence) {
    let mut told = membership.presence();
    let found = timeout(Duration::from_secs(60), told.wait_for(|now| *now == presence)).await;
    assert!(found.is_ok(), "it is not {presence:?}");
}

#[tokio::test]
async fn servers_have_it_together_and_a_run_beside_them_is_told_of_one() {
    let rows = Arc::new(Rows::default());
    let first = join(&rows, ServerKind::Server, Admission::AtOnce).await.unwrap();
    match join(&rows, ServerKind::Run, Admission::AtOnce).await {
        Err(JoinError::Occupied(other)) => assert_eq!(other.row.id, first.id()),
        other => panic!("{:?}", other.map(|joined| joined.id())),
    }
    let second = join(&rows, ServerKind::Server, Admission::AtOnce).await.unwrap();
    let tool = join(&rows, ServerKind::Tool, Admission::AtOnce).await.unwrap();
    for member in [&first, &second, &tool] {
        assert!(member.may_act().is_ok());
        member.leave().await;
    }
    assert!(join(&rows, ServerKind::Run, Admission::AtOnce).await.is_ok());
}

#[tokio::test]
async fn who_is_asked_to_end_hears_of_it_with_a_beat() {
    let rows = Arc::new(Rows::default());
    let (asked, other) = (
        join(&rows, ServerKind::Server, Admission::AtOnce).await.unwrap(),
        join(&rows, ServerKind::Server, Admission::AtOnce).await.unwrap(),
    );
    rows.state().asked_to_end.push(asked.id());
    assert!(timeout(Duration::from_secs(60), asked.draining()).await.is_ok());
    assert!(!*other.draining.borrow());
}

#[tokio::test]
async fn runs_have_it_together_and_no_server_beside_them() {
    let rows = Arc::new(Rows::default());
    let one = join(&rows, ServerKind::Run, Admission::AtOnce).await.unwrap();
    let other = join(&rows, ServerKind::Run, Admission::AtOnce).await.unwrap();
    assert!(join(&rows, ServerKind::Server, Admission::AtOnce).await.is_err());
    one.leave().await;
    other.leave().await;
    assert!(join(&rows, ServerKind::Server, Admission::AtOnce).await.is_ok());
}

#[tokio::test]
async fn a_server_stands_by_until_no_run_has_the_store() {
    let rows = Arc::new(Rows::default());
    let first = join(&rows, ServerKind::Run, Admission::AtOnce).await.unwrap();
    let waiting = tokio::spawn({
        let rows = Arc::clone(&rows);
        async move { join(&rows, ServerKind::Server, Admission::StandsBy).await.map(|joined| joined.id()) }
    });
    first.leave().await;
    let second = timeout(Duration::from_secs(60), waiting).await.unwrap().unwrap().unwrap();
    assert_eq!(rows.names(), [second]);
}

#[tokio::test]
async fn whoever_comes_when_the_one_in_the_way_has_just_left_joins_at_once() {
    for admission in [Admission::AtOnce, Admission::StandsBy] {
        let rows = Arc::new(Rows::default());
        // In the way was another one: this one is not.
        rows.state().leaving = Some(row(ServerKind::Tool));
        let joined = join(&rows, ServerKind::Server, admission).await.unwrap();
        assert_eq!(rows.names(), [joined.id()]);
    }
}

#[tokio::test]
async fn whoever_stands_by_asks_again_where_the_store_could_not_be_asked() {
    let rows = Arc::new(Rows::default());
    rows.state().loses_answers = true;
    let refused = join(&rows, ServerKind::Server, Admission::AtOnce).await;
    assert!(matches!(refused, Err(JoinError::Unavailable(_))));
    let mut coming = std::pin::pin!(join(&rows, ServerKind::Server, Admission::StandsBy));
    assert!(futures_util::poll!(&mut coming).is_pending());
    rows.state().loses_answers = false;
    let joined = timeout(Duration::from_secs(60), coming).await.unwrap().unwrap();
    assert!(rows.names().contains(&joined.id()) && joined.may_act().is_ok());
}

/// A row that a process of this machine has left there.
fn has_ended(rows: &Rows, kind: ServerKind) {
    let ended = ServerRow { process: Some("0".to_owned()), ..ServerRow::of_this_process(kind, ServerRole::default()) };
    rows.state().rows.insert(ended.id, (ended, 7));
}

#[tokio::test]
async fn a_run_that_has_ended_on_this_machine_keeps_no_server_out() {
    let rows = Arc::new(Rows::default());
    let me = ServerRow::of_this_process(ServerKind::Server, ServerRole::default());
    has_ended(&rows, ServerKind::Run);
    let hours = Timings { death: Duration::from_secs(3600), lease: Duration::from_secs(1800), ..timings() };
    let joined = Membership::join(Arc::clone(&rows) as _, me, Admission::AtOnce, hours).await.unwrap();
    assert_eq!(rows.names(), [joined.id()]);
}

#[tokio::test]
async fn whoever_gives_up_coming_leaves_no_row() {
    let rows = Arc::new(Rows::default());
    // The answer is lost: nobody knows that the row is there.
    rows.state().loses_answers = true;
    {
        let mut coming = std::pin::pin!(join(&rows, ServerKind::Server, Admission::StandsBy));
        assert!(futures_util::poll!(&mut coming).is_pending());
        assert_eq!(rows.names().len(), 1);
    }
    while !rows.names().is_empty() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn who_is_cut_off_does_nothing_until_the_database_is_reached_again() {
    let rows = Arc::new(Rows::default());
    let server = join(&rows, ServerKind::Server, Admission::AtOnce).await.unwrap();
    rows.cut_off(server.id());
    stands(&server, Presence::CutOff).await;
    assert!(matches!(server.may_act(), Err(Error::StoreUnavailable(_))));
    rows.reach_again();
    stands(&server, Presence::Acts).await;
    // What it may do is over again before long, unless it beats.
    rows.cut_off(server.id());
    stands(&server, Presence::CutOff).await;
}

#[tokio::test]
async fn what_it_has_committed_is_told_to_nobody_by_a_server_that_may_not_act_any_more() {
    let rows = Arc::new(Rows::default());
    let server = join(&rows, ServerKind::Server, Admission::AtOnce).await.unwrap();
    let clock: Arc<dyn Clock> = Arc::new(WallClock);
    let database = SimulatedDatabase::new(Arc::clone(&clock));
    let link = Link::new(Weather { slow: 100, ..Weather::default() });
    let connection = SimulatedConnection::over(database.clone(), Arc::clone(&link), 1);
    let access = StoreAccess::Member(Arc::clone(&server));
    let store = SharedStore::new(connection, access, Arc::clone(&clock), Handle::current());
    let made = tokio::spawn(store.transact(about(1), |tx| tx.insert_session(&session(1), &[])));
    while database.history().unwrap().sessions.is_empty() {
        tokio::task::yield_now().await;
    }
    // It is stopped with the reply on its way, until others may have gone on from what it has committed.
    link.set(LinkState::Frozen);
    rows.cut_off(server.id());
    stands(&server, Presence::CutOff).await;
    assert!(!made.is_finished());
    link.set(LinkState::Open);
    assert!(matches!(made.await.unwrap(), Err(Error::StoreUnavailable(_))));
}

#[tokio::test]
async fn the_dead_are_buried_by_other_servers_and_never_act_again() {
    let rows = Arc::new(Rows::default());
    let first = join(&rows, ServerKind::Server, Admission::AtOnce).await.unwrap();
    let second = join(&rows, ServerKind::Server, Admission::AtOnce).await.unwrap();
    let mut signals = second.signals();
    rows.cut_off(first.id());
    assert_eq!(timeout(Duration::from_secs(60), signals.recv()).await.unwrap(), Ok(Signal::Departure));
    // By then it had stopped by itself.
    assert!(first.may_act().is_err());
    rows.reach_again();
    stands(&first, Presence::Dead).await;
    assert!(first.may_act().is_err());
    assert_eq!(rows.names(), [second.id()]);
}

#[tokio::test]
async fn servers_whose_database_tells_and_takes_nothing_do_not_bury_each_other_when_it_takes_again() {
    let rows = Arc::new(Rows::default());
    let first = join(&rows, ServerKind::Server, Admission::AtOnce).await.unwrap();
    let second = join(&rows, ServerKind::Server, Admission::AtOnce).await.unwrap();
    rows.state().only_tells = true;
    stands(&first, Presence::CutOff).await;
    stands(&second, Presence::CutOff).await;
    // Until both would bury the other, or have looked more often than that takes.
    let looks = rows.state().looks + 40;
    while rows.state().burials < 2 && rows.state().looks < looks {
        tokio::task::yield_now().await;
    }
    rows.state().only_tells = false;
    stands(&first, Presence::Acts).await;
    stands(&second, Presence::Acts).await;
    assert_eq!(rows.names().len(), 2);
}

#[tokio::test]
async fn a_dead_run_is_buried_by_the_server_that_stands_by() {
    let rows = Arc::new(Rows::default());
    let run = join(&rows, ServerKind::Run, Admission::AtOnce).await.unwrap();
    rows.cut_off(run.id());
    let server = timeout(Duration::from_secs(60), join(&rows, ServerKind::Server, Admission::StandsBy)).await;
    assert_eq!(rows.names(), [server.unwrap().unwrap().id()]);
}

#[tokio::test]
async fn a_server_knows_whether_another_one_is_there() {
    let rows = Arc::new(Rows::default());
    let first = join(&rows, ServerKind::Server, Admission::AtOnce).await.unwrap();
    let second = join(&rows, ServerKind::Server, Admission::AtOnce).await.unwrap();
    let becomes = async |wanted: bool| {
        while first.has_others() != wanted {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(60), becomes(true)).await.unwrap();
    second.leave().await;
    timeout(Duration::from_secs(60), becomes(false)).await.unwrap();
}

#[tokio::test]
async fn who_ran_on_this_machine_and_has_ended_is_buried_at_once() {
    let rows = Arc::new(Rows::default());
    let me = ServerRow::of_this_process(ServerKind::Server, ServerRole::default());
    has_ended(&rows, ServerKind::Server);
    let hours = Timings { death: Duration::from_secs(3600), ..timings() };
    let joined = Membership::join(Arc::clone(&rows) as _, me, Admission::AtOnce, hours).await.unwrap();
    let mut alone = false;
    while !alone {
        tokio::task::yield_now().await;
        alone = rows.names() == [joined.id()];
    }
}

#[tokio::test]
async fn each_server_tells_of_itself_and_of_the_others_by_their_names() {
    let rows = Arc::new(Rows::default());
    let named = |host: &str, kind| ServerRow { host: host.to_owned(), ..row(kind) };
    let join = async |row| Membership::join(Arc::clone(&rows) as _, row, Admission::AtOnce, timings()).await.unwrap();
    let second = join(named("b", ServerKind::Server)).await;
    let first = join(named("a", ServerKind::Server)).await;
    // It is no server.
    let _tool = join(named("c", ServerKind::Tool)).await;
    let of = |it: &Membership| {
        let of_one = |server: ServerSnapshot| (server.row.id, server.at_work, server.status);
        it.servers().into_iter().map(of_one).collect::<Vec<_>>()
    };
    first.tell(3, RunningNow::default());
    second.drain();
    let alike = async |it: &Membership, expected: &[_]| {
        while of(it) != expected {
            tokio::task::yield_now().await;
        }
    };
    let is_alive = |it: &Membership, at_work| (it.id(), at_work, ServerStatus::Alive);
    // What one says of itself is in the rows that the others look at only once it has beaten, and here not at all.
    alike(&second, &[is_alive(&first, 0), (second.id(), 0, ServerStatus::Draining)]).await;
    alike(&first, &[is_alive(&first, 3), is_alive(&second, 0)]).await;
    second.leave().await;
    alike(&first, &[is_alive(&first, 3)]).await;
    let [alone] = first.servers().try_into().unwrap();
    assert_eq!((alone.version.as_str(), alone.row.host.as_str()), (env!("CARGO_PKG_VERSION"), "a"));
    // Cut off, it tells how long it has been.
    rows.cut_off(first.id());
    while first.servers()[0].status != ServerStatus::Silent {
        tokio::task::yield_now().await;
    }
    assert!(u128::from(first.servers()[0].silent_ms) >= timings().death.as_millis());
}

#[tokio::test]
async fn however_many_ask_for_the_others_at_once_there_is_one_look_and_it_goes_on_without_them() {
    let rows = Arc::new(Rows::default());
    // It loses its lease by what its beat is told, and not to a machine that is slow.
    let slow = Timings { lease: Duration::from_secs(60), ..timings() };
    let me = row(ServerKind::Tool);
    let joined = Membership::join(Arc::clone(&rows) as _, me, Admission::AtOnce, slow).await.unwrap();
    join(&rows, ServerKind::Server, Admission::AtOnce).await.map(|server| server.leaving.cancel()).unwrap();
    let before = rows.state().looks;
    let asking = (0..100).map(|_| joined.look_at_others());
    let found = futures_util::future::join_all(asking).await;
    assert!(found.iter().all(|found| found.as_ref().is_ok_and(|others| others.len() == 1)), "{found:?}");
    assert!(rows.state().looks <= before + 2, "{} looks", rows.state().looks - before);
    // Whoever may not act asks nobody.
    rows.state().rows.clear();
    stands(&joined, Presence::Dead).await;
    let before = rows.state().looks;
    assert!(matches!(joined.look_at_others().await, Err(Error::StoreUnavailable(_))));
    assert_eq!(rows.state().looks, before);
}

#[tokio::test]
async fn who_buries_somebody_for_long_goes_on_looking_at_the_others() {
    let rows = Arc::new(Rows::default());
    let me = ServerRow::of_this_process(ServerKind::Server, ServerRole::default());
    rows.state().buries_slowly = true;
    let joined = Membership::join(Arc::clone(&rows) as _, me, Admission::AtOnce, timings()).await.unwrap();
    has_ended(&rows, ServerKind::Server);
    let until = async |is_so: &dyn Fn(&State) -> bool| {
        while !is_so(&rows.state()) {
            tokio::task::yield_now().await;
        }
    };
    until(&|state| state.burials == 1).await;
    let looks = rows.state().looks;
    until(&|state| state.looks > looks + 2).await;
    has_ended(&rows, ServerKind::Tool);
    until(&|state| state.burials == 2).await;
    rows.state().buries_slowly = false;
    until(&|state| state.rows.len() == 1).await;
    assert_eq!(rows.names(), [joined.id()]);
}

#[tokio::test]
async fn whoever_joins_buries_runs_and_commands_that_ended_without_a_word_where_no_server_does() {
    for kind in [ServerKind::Run, ServerKind::Tool] {
        let rows = Arc::new(Rows::default());
        has_ended(&rows, ServerKind::Run);
        has_ended(&rows, ServerKind::Tool);
        // Of another machine, and it beats.
        let alive = row(ServerKind::Tool);
        rows.state().rows.insert(alive.id, (alive.clone(), 7));
        let me = ServerRow::of_this_process(kind, ServerRole::default());
        let joined = Membership::join(Arc::clone(&rows) as _, me, Admission::AtOnce, timings()).await.unwrap();
        let mut left = rows.names();
        left.retain(|id| *id != joined.id());
        assert_eq!(left, [alive.id], "{kind:?}");
    }
}
