//! Upkeep, in statements over everything. What changes a session's rows writes the session's version, so that whoever
//! keeps them elsewhere is told.

use std::collections::HashMap;

use tokio_postgres::Row;
use uuid::Uuid;

use super::PostgresBackend;
use super::asking::params;
use super::cells::PostgresCells;
use super::connection::{Frame, SqlCall};
use super::param::Param;
use super::sql;
use super::writing::MOST_NUMBERED;
use crate::domain::audit::Deed;
use crate::domain::notice::Notice;
use crate::domain::{Error, InterruptId, SessionId, Timestamp, TurnId};
use crate::store::BoxFuture;
use crate::store::outbox::OutboxFigures;
use crate::store::record::{Due, DueKind, PendingCount, RetriableTurn};
use crate::store::rows::notices::{known_events, notice};
use crate::store::rows::readable::without_nulls;
use crate::store::rows::{self, Cells as _, entries};
use crate::store::shared::question::{Answer, StoreQuestion};
use crate::store::signals::{AccessVersion, KnownTurn, LeftTurn, OrphanedTurn, OthersSnapshot, TurnTaker};
use crate::store::upkeep::{LeftTurns, ReadyTurns, Receivers, Sweep, Totals, Upkeep, paused};

/// How many columns of turns/left are before the turn's epoch, those of its session, and those of its last entry.
const EPOCH_OF_LEFT: usize = 1;
const SESSION_OF_LEFT: usize = 2;
const ENTRY_OF_LEFT: usize = 18;

impl PostgresBackend {
    /// What `read` makes of each row.
    fn list<T: Send + 'static>(
        &self,
        table: &'static str,
        call: SqlCall,
        read: impl Fn(&mut PostgresCells<'_>) -> Result<T, Error> + Send + 'static,
    ) -> BoxFuture<'static, Result<Vec<T>, Error>> {
        self.rows(table, Frame::Snapshot, call, read)
    }

    fn rows<T: Send + 'static>(
        &self,
        table: &'static str,
        frame: Frame,
        call: SqlCall,
        read: impl Fn(&mut PostgresCells<'_>) -> Result<T, Error> + Send + 'static,
    ) -> BoxFuture<'static, Result<Vec<T>, Error>> {
        let pool = self.pool();
        Box::pin(async move {
            let replies = pool.run(frame, vec![call]).await?;
            replies.iter().flatten().map(|row| read(&mut PostgresCells::new(table, row))).collect()
        })
    }

    fn turns(&self, sql: &'static str, params: Vec<Param>) -> BoxFuture<'static, Result<Vec<TurnId>, Error>> {
        self.list("turns", SqlCall::new(sql, params), |cells| cells.uuid().map(TurnId))
    }
}

fn orphan(cells: &mut PostgresCells<'_>) -> Result<OrphanedTurn, Error> {
    Ok(OrphanedTurn { turn: TurnId(cells.uuid()?), epoch: Some(cells.number()?) })
}

/// The row of store/access.
fn access_version(rows: &[Row]) -> Result<AccessVersion, Error> {
    let mut meta = rows.first().map(|row| PostgresCells::new("meta", row));
    let mut number = || meta.as_mut().map_or(Ok(0), |meta| meta.number());
    Ok(AccessVersion { changes: number()?, promotions: number()? })
}

/// A row of turns/left.
fn left_turn(row: &Row) -> Result<LeftTurn, Error> {
    let mut head = PostgresCells::after(EPOCH_OF_LEFT, "turns", row);
    let epoch = head.number()?;
    let (_, session) = rows::session(&mut PostgresCells::after(SESSION_OF_LEFT, "sessions", row))?;
    let mut last = PostgresCells::after(ENTRY_OF_LEFT, "journal", row);
    let paused = match last.plain::<Option<i64>>()? {
        None => None,
        Some(_) => {
            last.rewind();
            paused(entries::recorded(&mut last)?.entry)
        }
    };
    Ok(LeftTurn { epoch, session, paused })
}

/// Who looks, as the statements over turns that nobody has are told it.
fn taken_by(taker: &TurnTaker) -> Vec<Param> {
    let starved: Vec<Uuid> = taker.starved.iter().map(|turn| turn.0).collect();
    params![without_nulls(&taker.agent).into_owned(), taker.code.clone(), starved]
}

/// What no other writer of a session draws.
fn drawn() -> i64 {
    i64::from_ne_bytes(Uuid::new_v4().as_u64_pair().1.to_ne_bytes())
}

impl Upkeep for PostgresBackend {
    fn orphaned_turns(&self, taker: TurnTaker) -> BoxFuture<'static, Result<Vec<OrphanedTurn>, Error>> {
        self.list("turns", SqlCall::new(sql!("turns/orphaned"), taken_by(&taker)), orphan)
    }

    fn left_turns(&self, orphans: Vec<OrphanedTurn>) -> BoxFuture<'static, Result<LeftTurns, Error>> {
        let ids: Vec<Uuid> = orphans.iter().map(|orphan| orphan.turn.0).collect();
        let pool = self.pool();
        Box::pin(async move {
            let replies = pool.run(Frame::Snapshot, vec![SqlCall::new(sql!("turns/left"), params![ids])]).await?;
            let found = replies.iter().flatten().map(|row| {
                let mut cells = PostgresCells::new("turns", row);
                let turn = TurnId(cells.uuid()?);
                // It is known of one that cannot be read, too, as far as it can be.
                Ok((turn, (cells.number().ok(), left_turn(row))))
            });
            let mut found: HashMap<TurnId, (Option<u64>, _)> = found.collect::<Result<_, Error>>()?;
            let mut left = Vec::with_capacity(found.len());
            for orphan in orphans {
                let Some((epoch, read)) = found.remove(&orphan.turn) else { continue };
                let is_other = orphan.epoch.zip(epoch).is_some_and(|(before, now)| before != now);
                if !is_other {
                    left.push((orphan, read));
                }
            }
            Ok(left)
        })
    }

    fn ready_turns(&self) -> BoxFuture<'static, Result<Option<ReadyTurns>, Error>> {
        let ready = self.list("turns", SqlCall::new(sql!("turns/ready"), vec![]), |cells| {
            Ok((cells.plain()?, cells.number()?, cells.time_or_none()?))
        });
        Box::pin(async move {
            let mut all = ReadyTurns::default();
            for (code, count, since) in ready.await? {
                all.by_code.insert(code, count);
                all.since = all.since.into_iter().chain(since).min();
            }
            Ok(Some(all))
        })
    }

    fn look(&self, taker: TurnTaker, known: Vec<KnownTurn>) -> BoxFuture<'static, Result<OthersSnapshot, Error>> {
        let ids = |id: fn(&KnownTurn) -> Uuid| known.iter().map(id).collect::<Vec<Uuid>>();
        let numbers =
            |number: fn(&KnownTurn) -> u64| known.iter().map(|it| rows::integer(number(it))).collect::<Vec<_>>();
        let moved =
            params![ids(|it| it.turn.0), ids(|it| it.session.0), numbers(|it| it.epoch), numbers(|it| it.known)];
        // Without a row of its own nothing is claimed for it.
        let owned = params![self.pool().member().unwrap_or_default(), ids(|it| it.turn.0)];
        let mut calls = vec![
            SqlCall::new(sql!("turns/orphaned_of"), taken_by(&taker)),
            SqlCall::new(sql!("turns/owned"), owned),
            SqlCall::new(sql!("turns/moved"), moved),
            SqlCall::new(sql!("store/access"), vec![]),
        ];
        if taker.has_others {
            let withheld = params![without_nulls(&taker.agent).into_owned(), taker.code];
            calls.push(SqlCall::new(sql!("turns/withheld"), withheld));
        }
        let pool = self.pool();
        Box::pin(async move {
            let mut replies = pool.run(Frame::Snapshot, calls).await?.into_iter();
            let mut next = || replies.next().unwrap_or_default();
            let turns = |rows: Vec<Row>| -> Result<Vec<_>, Error> {
                rows.iter().map(|row| orphan(&mut PostgresCells::new("turns", row))).collect()
            };
            let (orphans, owned) = (turns(next())?, turns(next())?);
            let moved = next()
                .iter()
                .map(|row| PostgresCells::new("turns", row).uuid().map(TurnId))
                .collect::<Result<_, _>>()?;
            let AccessVersion { promotions, .. } = access_version(&next())?;
            Ok(OthersSnapshot { orphans, withheld: turns(next())?, owned, moved, promotions })
        })
    }

    fn access_version(&self) -> BoxFuture<'static, Result<AccessVersion, Error>> {
        let pool = self.pool();
        Box::pin(async move {
            let replies = pool.look_apart(vec![SqlCall::new(sql!("store/access"), vec![])]).await?;
            access_version(replies.first().map(Vec::as_slice).unwrap_or_default())
        })
    }

    fn due(&self, now: Timestamp, limit: usize) -> BoxFuture<'static, Result<Vec<Due>, Error>> {
        let call = SqlCall::new(sql!("due/list"), params![now.millis(), rows::count(limit)]);
        self.list("interrupts", call, |cells| {
            let (at, id) = (cells.time()?, cells.uuid()?);
            let is_interrupt: bool = cells.plain()?;
            let what = if is_interrupt { DueKind::Interrupt(InterruptId(id)) } else { DueKind::Timers(TurnId(id)) };
            Ok(Due { at, what })
        })
    }

    fn next_due(&self) -> BoxFuture<'static, Result<Option<Timestamp>, Error>> {
        let next = self.list("interrupts", SqlCall::new(sql!("due/next"), vec![]), |cells| cells.time_or_none());
        Box::pin(async move { Ok(next.await?.into_iter().flatten().next()) })
    }

    fn retriable_turns(
        &self,
        agent: String,
        code: String,
        after: u64,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<RetriableTurn>, Error>> {
        let params = params![
            without_nulls(&code).into_owned(),
            rows::count(limit),
            without_nulls(&agent).into_owned(),
            rows::integer(after),
        ];
        self.list("turns", SqlCall::new(sql!("turns/retriable"), params), |cells| rows::retriable(cells))
    }

    fn suspended_turns(
        &self,
        before: Timestamp,
        skip: usize,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<TurnId>, Error>> {
        let params = params![before.millis(), rows::count(limit), rows::count(skip)];
        self.turns(sql!("turns/suspended"), params)
    }

    fn due_notices(
        &self,
        now: Timestamp,
        receivers: Receivers,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<Notice>, Error>> {
        let sql = format!("{} {}", sql!("outbox/select"), sql!("outbox/due"));
        let (origins, are_meant) = receivers.origins();
        let params = params![now.millis(), rows::count(limit), origins.to_vec(), known_events(), are_meant];
        let call = SqlCall::new(sql, params);
        self.list("outbox", call, |cells| Ok(notice(cells)?.1))
    }

    fn next_notice_at(&self, receivers: Receivers) -> BoxFuture<'static, Result<Option<Timestamp>, Error>> {
        let (origins, are_meant) = receivers.origins();
        let call = SqlCall::new(sql!("outbox/next_due"), params![origins.to_vec(), known_events(), are_meant]);
        let next = self.list("outbox", call, |cells| cells.time_or_none());
        Box::pin(async move { Ok(next.await?.into_iter().flatten().next()) })
    }

    fn release_notices(&self, now: Timestamp) -> BoxFuture<'static, Result<(), Error>> {
        let call = SqlCall::new(sql!("outbox/release"), params![now.millis(), drawn(), self.pool().member()]);
        let released = self.rows("outbox", Frame::Commit, call, |_| Ok(()));
        Box::pin(async move { released.await.map(drop) })
    }

    fn sweep(&self, kind: Sweep, before: Timestamp, limit: usize) -> BoxFuture<'static, Result<usize, Error>> {
        let sql = match kind {
            Sweep::Replies => sql!("replies/sweep"),
            Sweep::Events => sql!("events/sweep"),
            Sweep::Notices => sql!("outbox/sweep"),
            Sweep::SignIns => sql!("sign_ins/sweep"),
        };
        let call = SqlCall::new(sql, params![before.millis(), rows::count(limit)]);
        let swept = self.rows("", Frame::Commit, call, |_| Ok(()));
        let inner = self.inner();
        Box::pin(async move {
            if kind == Sweep::Events {
                // What may not be complete stays: the newest that is has to be known.
                inner.complete_events().await?;
            }
            Ok(swept.await?.len())
        })
    }

    fn sweep_sessions(
        &self,
        before: Timestamp,
        limit: usize,
        deed: Deed,
        now: Timestamp,
    ) -> BoxFuture<'static, Result<Vec<SessionId>, Error>> {
        // The deed of each has a number of its own in this transaction.
        let limit = limit.min(MOST_NUMBERED);
        let details = match rows::audited_json(&deed.details) {
            Ok(details) => details,
            Err(error) => return Box::pin(std::future::ready(Err(error))),
        };
        let params = params![
            before.millis(),
            rows::count(limit),
            now.millis(),
            deed.action.as_str(),
            deed.interrupt_id.map(|id| id.0),
            deed.actor.map(|actor| without_nulls(&actor).into_owned()),
            deed.address.map(|address| address.to_string()),
            details,
        ];
        self.rows("sessions", Frame::Commit, SqlCall::new(sql!("sessions/sweep"), params), |cells| {
            cells.uuid().map(SessionId)
        })
    }

    fn compact_journals(&self, before: Timestamp, limit: usize) -> BoxFuture<'static, Result<usize, Error>> {
        let call = SqlCall::new(sql!("turns/compact"), params![before.millis(), rows::count(limit), drawn()]);
        let compacted = self.rows("turns", Frame::Commit, call, |cells| cells.number());
        Box::pin(async move {
            let count = compacted.await?.into_iter().next().unwrap_or_default();
            Ok(usize::try_from(count).unwrap_or(usize::MAX))
        })
    }

    fn totals(&self) -> BoxFuture<'static, Result<Totals, Error>> {
        let answers = self.ask(vec![StoreQuestion::CountSessions, StoreQuestion::AuditHead]);
        Box::pin(async move {
            let mut answers = answers.await?.into_iter();
            match (answers.next().transpose()?, answers.next().transpose()?) {
                (Some(Answer::Number(sessions)), Some(Answer::Head(audit))) => {
                    Ok(Totals { sessions: usize::try_from(sessions).unwrap_or(usize::MAX), audit })
                }
                _ => Err(Error::Internal("the database answered something else than it was asked".to_owned())),
            }
        })
    }

    fn outbox_figures(&self) -> BoxFuture<'static, Result<OutboxFigures, Error>> {
        let figures = self.list("outbox", SqlCall::new(sql!("outbox/figures"), vec![]), |cells| {
            let pending = usize::try_from(cells.number()?).unwrap_or(usize::MAX);
            Ok(OutboxFigures { pending, oldest: cells.time_or_none()?, is_held: cells.plain()? })
        });
        Box::pin(async move { Ok(figures.await?.into_iter().next().unwrap_or_default()) })
    }

    fn count_pending(&self, now: Timestamp) -> BoxFuture<'static, Result<Vec<PendingCount>, Error>> {
        let [first, second, third] = PendingCount::bounds(now).map(Timestamp::millis);
        let call = SqlCall::new(sql!("interrupts/count_pending"), params![first, second, third]);
        self.list("interrupts", call, |cells| {
            let kind = cells.plain()?;
            let by_age = [cells.number()?, cells.number()?, cells.number()?, cells.number()?];
            Ok(PendingCount { kind, by_age })
        })
    }
}
