//! What must hold of a world, whatever befell it: from what was told outside, and what is there in the end.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use super::Outcome;
use super::log::{AtWorker, Life, Line, ToldClient};
use super::worker::parts;
use crate::domain::audit::{Action, Verifier};
use crate::domain::journal::{Entry, RecordedEntry};
use crate::domain::status::{InterruptStatus, NoticeStatus};
use crate::domain::{InterruptId, SessionId, TurnId};
use crate::store::simulated::history::History;

/// How long what befell a server may be before what it explains.
const LONG_AGO: Duration = Duration::from_secs(30);
/// How long a server has a notice to itself: a minute, as clocks count it that differ.
const LEASE: Duration = Duration::from_secs(58);

/// How far ahead of the database's clock what servers write may be, in milliseconds.
const MOST_AHEAD: i64 = 1000;

/// What is wrong in a world, if anything is. What a failover takes back may be lost, but only that.
pub fn judge(outcome: &Outcome, fails_over: bool) -> Vec<String> {
    let history = match &outcome.history {
        Ok(history) => history,
        Err(error) => return vec![format!("what is there cannot be read: {error}")],
    };
    let mut judge = Judge { lines: &outcome.lines, outcome, history, gone: gone(outcome, history), wrong: Vec::new() };
    judge.nothing_is_our_fault();
    judge.journals_are_whole();
    judge.journals_are_of_one_run();
    judge.no_time_goes_back();
    judge.no_time_has_not_come_yet();
    judge.the_audit_is_one_chain();
    judge.nothing_sleeps();
    if !fails_over {
        judge.what_was_acknowledged_is_there_once();
        judge.one_answer_counts();
        judge.no_entry_comes_after_a_later_epochs();
        judge.no_step_runs_again();
        judge.deliveries_are_in_order();
        judge.turns_hear_what_stands_in_their_journals_in_order();
        judge.who_was_buried_does_nothing();
        judge.events_are_all_heard_in_order();
        judge.notices_are_taken_in_order();
        judge.one_server_sends_the_notices_of_a_session();
        judge.nothing_is_committed_for_who_was_buried();
    }
    judge.wrong
}

/// Which of its deeds a turn tells of.
fn place_of(path: &str) -> Option<usize> {
    path.strip_prefix("0#")?.split('/').next()?.parse().ok()
}

/// Sessions that are deleted.
fn gone(outcome: &Outcome, history: &History) -> HashSet<SessionId> {
    let deleted = outcome.lines.iter().filter_map(|(_, line)| match line {
        Line::Deleted(id, _) => Some(*id),
        _ => None,
    });
    let deeds = history.audit.iter().filter(|row| row.action == Action::SessionDeleted);
    let gone = deeds.filter_map(|row| row.session_id).chain(deleted);
    gone.filter(|id| history.session(*id).is_none()).collect()
}

struct Judge<'a> {
    lines: &'a [(Duration, Line)],
    outcome: &'a Outcome,
    history: &'a History,
    gone: HashSet<SessionId>,
    wrong: Vec<String>,
}

impl<'a> Judge<'a> {
    fn expect(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.wrong.push(what());
        }
    }

    /// A turn's journal, unless it went with its session.
    fn journal(&self, turn: TurnId) -> Option<&'a [RecordedEntry]> {
        self.history.journal(turn)
    }

    fn nothing_is_our_fault(&mut self) {
        let panics = self.outcome.panics;
        self.expect(panics == 0, || format!("{panics} tasks have panicked"));
        for (at, line) in self.lines {
            let told = match line {
                Line::Created(_, told)
                | Line::Sent(_, _, told)
                | Line::Answered(_, _, told)
                | Line::Cancelled(_, told)
                | Line::Deleted(_, told) => told,
                Line::Wrong(..) => &ToldClient::No("internal"),
                _ => continue,
            };
            let is_ours = matches!(told, ToldClient::No(code) if code.starts_with("internal"));
            self.expect(!is_ours, || format!("{at:?} {line:?}"));
        }
    }

    fn nothing_sleeps(&mut self) {
        if self.outcome.rested {
            return;
        }
        for session in self.history.sessions.iter().filter(|it| it.turn().is_some()) {
            let turn = self.history.turns.iter().rfind(|(turn, _)| turn.session_id == session.id);
            let turn = turn.map(|(turn, journal)| (turn.id, &turn.life, journal.last().map(|last| &last.entry)));
            self.wrong.push(format!("asleep: {} {}: {turn:?}", session.id, session.status()));
        }
        let pending = self.history.notices.iter().filter(|notice| notice.status == NoticeStatus::Pending).count();
        self.wrong.push(format!("the world does not come to rest: {pending} notices wait"));
    }

    fn journals_are_whole(&mut self) {
        for (turn, journal) in &self.history.turns {
            let (mut steps, mut begun, mut settled) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
            for (index, recorded) in journal.iter().enumerate() {
                let holds = match &recorded.entry {
                    Entry::Start { .. } => index == 0,
                    Entry::Step { step, .. } => steps.insert(step.path.clone()),
                    Entry::Intent { step, .. } => begun.insert(step.path.clone()),
                    Entry::Answer { interrupt_id, .. }
                    | Entry::Expire { interrupt_id }
                    | Entry::Withdraw { interrupt_id } => settled.insert(*interrupt_id),
                    Entry::End { .. } => index + 1 == journal.len(),
                    _ => true,
                };
                self.expect(holds && (index > 0 || matches!(recorded.entry, Entry::Start { .. })), || {
                    format!("turn {}, entry {index}: {:?}", turn.id, recorded.entry)
                });
            }
            for interrupt in self.history.interrupts.iter().filter(|interrupt| interrupt.turn_id == turn.id) {
                let asked =
                    journal.iter().filter(|it| it.entry.asked().is_some_and(|(id, _)| id == interrupt.interrupt_id));
                let is_in_journal = settled.contains(&interrupt.interrupt_id);
                let is_closed = matches!(interrupt.status, InterruptStatus::Resolved | InterruptStatus::Expired);
                let holds = asked.count() == 1 && (is_in_journal == is_closed);
                self.expect(holds, || format!("interrupt {} is {:?}", interrupt.interrupt_id, interrupt.status));
            }
        }
    }

    /// A turn does one thing after the other: its journal tells of no deed before all that come before it are done. So it does
    /// where others took over, and where something was taken back.
    fn journals_are_of_one_run(&mut self) {
        for (turn, journal) in &self.history.turns {
            let parts = parts(turn.message.content.as_deref().unwrap_or_default());
            let (mut done, mut of_it, mut asked) = (0, 0, BTreeMap::new());
            for recorded in journal {
                let place = match &recorded.entry {
                    Entry::Step { step, .. } | Entry::Intent { step, .. } => place_of(&step.path),
                    Entry::Ask { step, interrupt_id } => {
                        let place = place_of(&step.path);
                        asked.insert(*interrupt_id, place);
                        place
                    }
                    Entry::Timer { path, .. } => place_of(path),
                    Entry::Answer { interrupt_id, .. } | Entry::Expire { interrupt_id } => {
                        asked.get(interrupt_id).copied().flatten()
                    }
                    _ => continue,
                };
                self.expect(place == Some(done), || format!("deed {done} of {} is not done: {recorded:?}", turn.id));
                of_it += usize::from(!matches!(recorded.entry, Entry::Intent { .. } | Entry::Ask { .. }));
                if parts.get(done) == Some(&of_it) {
                    (done, of_it) = (done + 1, 0);
                }
            }
        }
    }

    fn no_time_goes_back(&mut self) {
        for (turn, journal) in &self.history.turns {
            let is_ordered = journal.windows(2).all(|pair| pair[0].at <= pair[1].at);
            self.expect(is_ordered, || format!("time goes back in the journal of {}", turn.id));
        }
    }

    /// Whoever writes what is later than it is expires questions and fires timers before their time.
    fn no_time_has_not_come_yet(&mut self) {
        let ahead = self.outcome.ahead;
        self.expect(ahead < MOST_AHEAD, || format!("something was written {ahead} ms before its time"));
    }

    fn the_audit_is_one_chain(&mut self) {
        let mut verifier = Verifier::new(None);
        let taken = self.history.audit.iter().try_for_each(|row| verifier.take(row));
        let flaw = taken.and_then(|()| verifier.finish().map(drop)).err();
        self.expect(flaw.is_none(), || format!("the audit: {flaw:?}"));
    }

    fn what_was_acknowledged_is_there_once(&mut self) {
        for (at, line) in self.lines {
            let holds = match line {
                Line::Created(id, ToldClient::Yes) => self.gone.contains(id) || self.history.session(*id).is_some(),
                Line::Sent(id, text, told) => {
                    let is_it = |content: &Option<String>| content.as_deref() == Some(text.as_str());
                    let turns = self.history.turns.iter().filter(|(turn, _)| is_it(&turn.message.content)).count();
                    match told {
                        ToldClient::Yes => turns == 1 || self.gone.contains(id),
                        _ => turns <= 1,
                    }
                }
                Line::Stored((_, turn, _), index, step) => self.journal(*turn).is_none_or(|journal| {
                    let there = usize::try_from(*index).ok().and_then(|index| journal.get(index));
                    there.is_some_and(|there| match (step, &there.entry) {
                        (Some(path), Entry::Step { step, .. }) => step.path == *path,
                        (Some(_), _) => false,
                        (None, _) => true,
                    })
                }),
                Line::Ended((_, turn, _)) => self
                    .journal(*turn)
                    .is_none_or(|journal| journal.last().is_some_and(|last| matches!(last.entry, Entry::End { .. }))),
                _ => true,
            };
            self.expect(holds, || format!("acknowledged and not there once: {at:?} {line:?}"));
        }
    }

    fn one_answer_counts(&mut self) {
        let mut winners: BTreeMap<InterruptId, &str> = BTreeMap::new();
        for (at, line) in self.lines {
            let Line::Answered(id, name, told) = line else { continue };
            let winner = match told {
                ToldClient::Yes => name,
                ToldClient::Later(Some(winner)) => winner,
                _ => continue,
            };
            let first = *winners.entry(*id).or_insert(winner);
            let there = self.history.interrupts.iter().find(|interrupt| interrupt.interrupt_id == *id);
            let is_there = there.is_none_or(|there| {
                let journal = self.journal(there.turn_id).unwrap_or_default();
                let counts = journal.iter().filter(|recorded| match &recorded.entry {
                    Entry::Answer { interrupt_id, value } => interrupt_id == id && value == winner,
                    _ => false,
                });
                there.resolved_by.as_ref() == Some(winner) && counts.count() == 1
            });
            self.expect(first == winner && is_there, || format!("not the one answer: {at:?} {line:?}, first {first}"));
        }
    }

    fn no_entry_comes_after_a_later_epochs(&mut self) {
        let mut stored: BTreeMap<TurnId, Vec<(u64, u64)>> = BTreeMap::new();
        for (_, line) in self.lines {
            if let Line::Stored((_, turn, epoch), index, _) = line {
                stored.entry(*turn).or_default().push((*index, *epoch));
            }
        }
        for (turn, mut entries) in stored {
            entries.sort_unstable();
            let is_ordered = entries.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1);
            self.expect(is_ordered, || format!("epochs of {turn}: {entries:?}"));
        }
    }

    fn no_step_runs_again(&mut self) {
        let mut finished = BTreeSet::new();
        let mut begun: BTreeMap<(TurnId, &str), (Life, Duration)> = BTreeMap::new();
        for (at, line) in self.lines {
            match line {
                Line::Stored((_, turn, _), _, Some(path)) => drop(finished.insert((*turn, path.as_str()))),
                Line::Begins((life, turn, _), path, once) => {
                    let step = (*turn, path.as_str());
                    self.expect(!finished.contains(&step), || format!("finished, and runs again: {at:?} {line:?}"));
                    if let Some((before, since)) = begun.insert(step, (*life, *at)) {
                        let is_explained = !once && self.is_troubled(before, since, *at);
                        self.expect(is_explained, || {
                            format!("runs twice, first at {before} {since:?}: {at:?} {line:?}")
                        });
                    }
                }
                _ => {}
            }
        }
    }

    fn deliveries_are_in_order(&mut self) {
        let mut last: BTreeMap<AtWorker, u64> = BTreeMap::new();
        for (at, line) in self.lines {
            let Line::Delivered(to, index) = line else { continue };
            let before = last.insert(*to, *index);
            self.expect(before.is_none_or(|before| before < *index), || format!("after {before:?}: {at:?} {line:?}"));
        }
    }

    /// Before what it has said itself is acknowledged, a turn has heard of all that stands before it.
    fn turns_hear_what_stands_in_their_journals_in_order(&mut self) {
        let mut heard: BTreeMap<AtWorker, BTreeSet<u64>> = BTreeMap::new();
        for (at, line) in self.lines {
            let ((_, turn, _), heard, index) = match line {
                Line::Ordered(to, known) => {
                    heard.insert(*to, (0..*known).collect());
                    continue;
                }
                Line::Told(to, index) => (to, heard.entry(*to).or_default(), *index),
                Line::Stored(to, index, _) => (to, heard.entry(*to).or_default(), *index),
                _ => continue,
            };
            let is_told =
                |recorded: &RecordedEntry| matches!(recorded.entry, Entry::Answer { .. } | Entry::Expire { .. });
            let told =
                (0..index).zip(self.journal(*turn).unwrap_or_default()).filter(|(_, recorded)| is_told(recorded));
            let missed: Vec<u64> = told.map(|(index, _)| index).filter(|index| !heard.contains(index)).collect();
            let is_next = heard.last() < Some(&index);
            heard.insert(index);
            self.expect(is_next && missed.is_empty(), || format!("before {missed:?}: {at:?} {line:?}"));
        }
    }

    fn who_was_buried_does_nothing(&mut self) {
        for (id, buried) in &self.outcome.buried {
            let Some((life, _)) = self.outcome.names.iter().find(|(_, name)| name == id) else { continue };
            let (mut is_stopped, mut bodies) = (false, BTreeSet::new());
            for (_, line) in self.lines.iter().take_while(|(at, _)| at <= buried) {
                match line {
                    Line::Fault(of, what) if of == life => is_stopped = *what == "is stopped",
                    Line::Begins(at @ (of, ..), path, _) if of == life => drop(bodies.insert((*at, path))),
                    Line::Over(at, path) => drop(bodies.remove(&(*at, path))),
                    _ => {}
                }
            }
            self.expect(is_stopped || bodies.is_empty(), || format!("{life} works when it is buried: {bodies:?}"));
        }
    }

    fn events_are_all_heard_in_order(&mut self) {
        let mut heard: BTreeMap<Life, Vec<u64>> = BTreeMap::new();
        let mut over = BTreeSet::new();
        for (_, line) in self.lines {
            match line {
                Line::Heard(life, session, number) if !self.gone.contains(session) => {
                    heard.entry(*life).or_default().push(*number);
                }
                Line::Fault(life, "is over") => drop(over.insert(*life)),
                _ => {}
            }
        }
        let all = self.history.events.iter().filter(|event| !self.gone.contains(&event.event.session_id));
        let all: Vec<u64> = all.map(|event| event.number).collect();
        for (life, heard) in heard {
            let rest = all.partition_point(|number| *number < heard[0]);
            let told = if over.contains(&life) { all.get(rest..rest + heard.len()) } else { all.get(rest..) };
            self.expect(told == Some(heard.as_slice()), || {
                let missed: Vec<u64> =
                    told.unwrap_or_default().iter().filter(|it| !heard.contains(it)).copied().collect();
                format!("a listener of {life} has not heard {missed:?}, or has heard more or in another order")
            });
        }
    }

    /// Unless it is gone or silent: then another one does, once its lease is over.
    fn one_server_sends_the_notices_of_a_session(&mut self) {
        let mut under_way: BTreeMap<SessionId, Vec<(Life, Duration)>> = BTreeMap::new();
        for (at, line) in self.lines {
            match line {
                Line::Posts(life, _, session) => {
                    let lane = under_way.entry(*session).or_default();
                    let is_hindered = |(other, since): &(Life, Duration)| {
                        *since + LEASE <= *at || self.is_troubled(*other, *since, *at)
                    };
                    let twice = lane.iter().find(|other| !is_hindered(other)).copied();
                    lane.push((*life, *at));
                    self.expect(twice.is_none(), || format!("{twice:?} sends already: {at:?} {line:?}"));
                }
                Line::Posted(life, _, session) => {
                    let lane = under_way.entry(*session).or_default();
                    if let Some(place) = lane.iter().position(|(other, _)| other == life) {
                        lane.remove(place);
                    }
                }
                _ => {}
            }
        }
    }

    /// Whether something befell a server shortly before `since`, or after it.
    fn is_troubled(&self, life: Life, since: Duration, until: Duration) -> bool {
        let is_of = |(of, when): &(Life, Duration)| *of == life && *when + LONG_AGO >= since && *when <= until;
        self.outcome.troubles.iter().any(is_of)
    }

    fn nothing_is_committed_for_who_was_buried(&mut self) {
        for (id, buried) in &self.outcome.buried {
            let last = self.outcome.committed.get(id).copied();
            let name = self.outcome.names.iter().find(|(_, name)| name == id).map(|(life, _)| *life);
            self.expect(last.is_none_or(|last| last <= *buried), || {
                format!("{name:?} was buried at {buried:?}, and has committed something at {last:?}")
            });
        }
    }

    fn notices_are_taken_in_order(&mut self) {
        let mut taken: BTreeMap<SessionId, Vec<_>> = BTreeMap::new();
        for (_, line) in self.lines {
            if let Line::Took(id, session) = line {
                let lane = taken.entry(*session).or_default();
                if !lane.contains(id) {
                    lane.push(*id);
                }
            }
        }
        let mut owed: BTreeMap<SessionId, Vec<_>> = BTreeMap::new();
        for notice in &self.history.notices {
            self.expect(notice.status == NoticeStatus::Delivered, || format!("{} is {:?}", notice.id, notice.status));
            owed.entry(notice.session_id).or_default().push(notice.id);
        }
        self.expect(taken == owed, || {
            let differ = owed.iter().find(|(session, lane)| taken.get(session) != Some(lane));
            format!("notices are missing or in another order: {differ:?}, taken {:?}", differ.map(|it| taken.get(it.0)))
        });
    }
}
