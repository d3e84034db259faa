//! Figures for operators: what the engine counts, and what it can tell when it is asked.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::domain::cluster::routing::short_code;
use crate::domain::interrupt::Interrupt;
use crate::domain::journal::CodeVersion;
use crate::domain::{Error, answer};
use crate::engine::telling::Notifier;
use crate::engine::telling::figures::{Family, Figures, Labelled};
use crate::engine::telling::histogram::Histogram;
use crate::engine::telling::resting::RestingCount;
use crate::engine::telling::view::Health;
use crate::store::record::PendingCount;
use crate::store::shared::servers::{ServerSnapshot, ServerStatus};
use crate::store::upkeep::ReadyTurns;

/// Where the times to a decision part, in seconds: from those of a rule of thumb to those of a holiday.
const DECISION_TIMES: &[f64] = &[1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0, 604_800.0];
/// Where the times at work part, in seconds: from a turn that only returns to one that does research.
const WORK_TIMES: &[f64] = &[0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0, 300.0, 1800.0];
/// Where the times of replays part, in seconds.
const REPLAY_TIMES: &[f64] = &[0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 10.0];
/// The names of the ages of [`PendingCount`].
const AGES: [&str; 4] = ["under_1m", "under_1h", "under_1d", "over_1d"];
/// How many types are told apart; an author may make up any number of them.
const TYPES: usize = 50;
/// How many codes of turns that nobody has are told apart: turns of any number of releases may wait.
const CODES: usize = 16;
/// What the code is called that goes on with turns which have not begun, or which any code takes.
const ANY_CODE: &str = "any";

/// How an interrupt was decided.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DecisionSample {
    /// `approve`, `edit`, `reject`, `respond`, or `answer` for what is no tool approval.
    word: &'static str,
    /// How long it was pending.
    took: Duration,
}

impl DecisionSample {
    /// That of a resolved interrupt.
    pub fn of(resolved: &Interrupt) -> Self {
        let decision = resolved.value.as_ref().and_then(|value| answer::decision(resolved.into(), value));
        let took = resolved.resolved_at.map(|at| at.since(resolved.created_at)).unwrap_or_default();
        Self { word: decision.map_or("answer", |decision| decision.kind().as_str()), took }
    }
}

/// How long things took.
#[derive(Debug)]
struct Times {
    decisions: Histogram,
    work_done: Histogram,
    work_failed: Histogram,
    replays: Histogram,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            decisions: Histogram::new(DECISION_TIMES),
            work_done: Histogram::new(WORK_TIMES),
            work_failed: Histogram::new(WORK_TIMES),
            replays: Histogram::new(REPLAY_TIMES),
        }
    }
}

impl Times {
    fn figures(&self) -> [Family; 3] {
        let work = vec![
            Labelled::one("outcome", "done", self.work_done.counted()),
            Labelled::one("outcome", "failed", self.work_failed.counted()),
        ];
        [
            Family::histogram(
                "hitl_decision_seconds",
                "From the question to a person's decision.",
                self.decisions.counted(),
            ),
            Family {
                name: "hitl_turn_work_seconds",
                help: "Time at work of turns that are over, by outcome, without waits.",
                figures: Figures::Histogram(work),
            },
            Family::histogram(
                "hitl_replay_seconds",
                "From a worker's getting a turn to its going on.",
                self.replays.counted(),
            ),
        ]
    }
}

/// What of the store is looked at as a whole, as it was counted last.
#[derive(Debug, Default)]
pub struct StoreCounts {
    pending: RestingCount<Vec<PendingCount>>,
    ready: RestingCount<Option<ReadyTurns>>,
}

/// What happened since the start.
#[derive(Debug, Default)]
pub struct Counters {
    turns_started: AtomicU64,
    turns_done: AtomicU64,
    turns_failed: AtomicU64,
    steps: AtomicU64,
    asked: AtomicU64,
    decided: AtomicU64,
    answered: AtomicU64,
    expired: AtomicU64,
    parked: AtomicU64,
    recovered: AtomicU64,
    retried: AtomicU64,
    /// By outcome, and by whom.
    decisions: Mutex<BTreeMap<(&'static str, &'static str), u64>>,
    times: Times,
    notices_delivered: AtomicU64,
    notices_retried: AtomicU64,
    notices_failed: AtomicU64,
}

impl Counters {
    /// A person decided.
    pub fn decided_by_person(&self, outcome: DecisionSample) {
        self.count_decision(outcome, "person");
        self.times.decisions.add(outcome.took);
    }

    /// A rule, a grant or the tool's own code decided.
    pub fn decided_by_rule(&self, outcome: DecisionSample) {
        self.count_decision(outcome, "rule");
    }

    /// A turn began.
    pub fn turn_started(&self) {
        self.turns_started.fetch_add(1, Ordering::Relaxed);
    }

    /// A turn is over: it is done.
    ///
    /// worked: how long it was at work, by all its workers; what it waited for people does not count.
    pub fn turn_done(&self, worked: Duration) {
        self.turns_done.fetch_add(1, Ordering::Relaxed);
        self.times.work_done.add(worked);
    }

    /// A turn is over, or stands still until it is taken up again: it failed, was cancelled, or lost its last worker.
    /// `worked` as of one that is done.
    pub fn turn_failed(&self, worked: Duration) {
        self.turns_failed.fetch_add(1, Ordering::Relaxed);
        self.times.work_failed.add(worked);
    }

    /// A worker has taken up a turn where it stood, `time` after it got it.
    pub fn replayed(&self, time: Duration) {
        self.times.replays.add(time);
    }

    /// Steps were journaled.
    pub fn steps(&self, steps: usize) {
        self.steps.fetch_add(steps as u64, Ordering::Relaxed);
    }

    /// Interrupts were opened.
    pub fn asked(&self, interrupts: usize) {
        self.asked.fetch_add(interrupts as u64, Ordering::Relaxed);
    }

    /// Tool calls were decided by a rule, a grant or the tool's own code.
    pub fn decided(&self, interrupts: usize) {
        self.decided.fetch_add(interrupts as u64, Ordering::Relaxed);
    }

    /// A turn was parked.
    pub fn parked(&self) {
        self.parked.fetch_add(1, Ordering::Relaxed);
    }

    /// A turn lost its worker and goes on with another.
    pub fn recovered(&self) {
        self.recovered.fetch_add(1, Ordering::Relaxed);
    }

    /// A suspended turn was taken up again.
    pub fn retried(&self) {
        self.retried.fetch_add(1, Ordering::Relaxed);
    }

    /// A webhook took a notice.
    pub fn notice_delivered(&self) {
        self.notices_delivered.fetch_add(1, Ordering::Relaxed);
    }

    /// A webhook did not take a notice, which is tried again.
    pub fn notice_retried(&self) {
        self.notices_retried.fetch_add(1, Ordering::Relaxed);
    }

    /// A notice was given up.
    pub fn notice_failed(&self) {
        self.notices_failed.fetch_add(1, Ordering::Relaxed);
    }

    /// Interrupts were answered.
    pub fn answered(&self, interrupts: usize) {
        self.answered.fetch_add(interrupts as u64, Ordering::Relaxed);
    }

    /// An interrupt expired.
    pub fn expired(&self) {
        self.expired.fetch_add(1, Ordering::Relaxed);
    }
}

impl Counters {
    fn count_decision(&self, outcome: DecisionSample, by: &'static str) {
        let mut decisions = self.decisions.lock().unwrap_or_else(PoisonError::into_inner);
        *decisions.entry((outcome.word, by)).or_default() += 1;
    }

    fn plain(&self) -> impl Iterator<Item = Family> {
        [
            ("hitl_turns_started_total", "Turns begun.", &self.turns_started),
            ("hitl_turns_parked_total", "Times a waiting turn left memory.", &self.parked),
            ("hitl_turns_recovered_total", "Times a turn went on that lost its worker.", &self.recovered),
            ("hitl_turns_retried_total", "Times a failed turn was taken up again.", &self.retried),
            ("hitl_steps_total", "Steps journaled.", &self.steps),
            ("hitl_interrupts_opened_total", "Interrupts opened.", &self.asked),
            ("hitl_interrupts_decided_total", "Interrupts decided without asking a person.", &self.decided),
        ]
        .into_iter()
        .map(|(name, help, counter)| Family::counter(name, help, counter.load(Ordering::Relaxed)))
    }

    fn turns_ended(&self) -> Family {
        let outcomes = [("done", &self.turns_done), ("failed", &self.turns_failed)];
        by_outcome("hitl_turns_ended_total", "Turns over, by outcome.", outcomes)
    }

    fn interrupts_by_outcome(&self) -> Family {
        let outcomes = [("resolved", &self.answered), ("expired", &self.expired)];
        by_outcome("hitl_interrupts_settled_total", "Interrupts answered or expired.", outcomes)
    }

    fn deliveries(&self) -> Family {
        let outcomes = [
            ("delivered", &self.notices_delivered),
            ("retried", &self.notices_retried),
            ("failed", &self.notices_failed),
        ];
        let help = "Tries to tell webhooks: delivered, to be retried, failed for good.";
        by_outcome("hitl_webhook_deliveries_total", help, outcomes)
    }

    fn decisions(&self) -> Family {
        let decisions = self.decisions.lock().unwrap_or_else(PoisonError::into_inner);
        let by_whom = decisions.iter().map(|((word, by), count)| Labelled {
            labels: vec![("outcome", (*word).to_owned()), ("by", (*by).to_owned())],
            value: *count,
        });
        Family {
            name: "hitl_decisions_total",
            help: "Interrupts decided, by outcome, and by whom: a person, or a rule, a grant or the tool's own code.",
            figures: Figures::Counter(by_whom.collect()),
        }
    }
}

fn by_outcome<const N: usize>(
    name: &'static str,
    help: &'static str,
    outcomes: [(&'static str, &AtomicU64); N],
) -> Family {
    let counts = outcomes.map(|(outcome, count)| Labelled::one("outcome", outcome, count.load(Ordering::Relaxed)));
    Family { name, help, figures: Figures::Counter(counts.into()) }
}

fn servers_by_status(servers: &[ServerSnapshot]) -> Family {
    let count = |status| servers.iter().filter(|server| server.status == status).count() as u64;
    let counts = ServerStatus::ALL.map(|status| Labelled::one("state", status.as_str(), count(status)));
    let help = "Servers that share the store, as `hitl servers` lists them.";
    Family { name: "hitl_cluster_servers", help, figures: Figures::Gauge(counts.into()) }
}

/// By the code that goes on with them first, each as people are told it; `any` is always there. Beyond [`CODES`] those of which
/// there are the fewest are `other`.
fn ready_by_code(by_code: &BTreeMap<Option<CodeVersion>, u64>) -> Family {
    let mut most: Vec<(&str, u64)> =
        by_code.iter().filter_map(|(code, count)| Some((code.as_deref()?, *count))).collect();
    most.sort_by_key(|(_, count)| Reverse(*count));
    let mut counts = BTreeMap::from([(ANY_CODE.to_owned(), by_code.get(&None).copied().unwrap_or_default())]);
    for (place, (code, count)) in most.into_iter().enumerate() {
        let code = if place < CODES { short_code(code) } else { "other".to_owned() };
        *counts.entry(code).or_default() += count;
    }
    let of_code = |(code, count): (String, u64)| Labelled::one("code", &code, count);
    Family {
        name: "hitl_turns_ready",
        help: "Turns of the store that could go on and are at no server, by the code that goes on with them first.",
        figures: Figures::Gauge(counts.into_iter().map(of_code).collect()),
    }
}

/// How many turns are in memory.
#[derive(Debug, Clone, Copy)]
pub(in crate::engine) struct TurnsInMemory {
    /// At workers, those that wait included.
    pub(in crate::engine) all: usize,
    /// Those that wait for people or timers.
    pub(in crate::engine) paused: usize,
    /// Those that are held.
    pub(in crate::engine) held: usize,
}

impl Notifier {
    /// All figures, those of one subject together.
    ///
    /// # Errors
    /// The store's.
    pub(in crate::engine) async fn figures(&self, health: &Health, turns: TurnsInMemory) -> Result<Vec<Family>, Error> {
        let outbox = self.store.upkeep().outbox_figures().await?;
        let lag = outbox.oldest.map_or(0, |oldest| self.now().since(oldest).as_secs());
        let gauges = [
            ("hitl_workers", "Turns that may be at work.", health.max_workers),
            ("hitl_turns_at_work", "Turns at work; those that wait for people do not count.", health.running_workers),
            ("hitl_turns_queued", "Turns that wait for a worker.", health.queued),
            ("hitl_turns_in_memory", "Turns at workers, waiting ones included.", turns.all),
            ("hitl_turns_paused_in_memory", "Turns at workers that wait for people or timers.", turns.paused),
            ("hitl_turns_held", "Turns that could rest, but for raw I/O, a thread or a step at work.", turns.held),
            ("hitl_sessions", "Sessions in the store.", health.total_sessions),
            ("hitl_outbox_pending", "Notices that webhooks have not taken yet.", outbox.pending),
        ];
        let mut families = gauges.map(|(name, help, value)| Family::gauge(name, help, value as u64)).to_vec();
        families.push(Family::gauge(
            "hitl_outbox_lag_seconds",
            "How long ago the event of the first of them was.",
            lag,
        ));
        families.extend(health.servers.as_deref().map(servers_by_status));
        if let Some(ready) = self.ready_turns().await? {
            let age = ready.since.map_or(0, |since| self.now().since(since).as_secs());
            families.extend([
                ready_by_code(&ready.by_code),
                Family::gauge("hitl_ready_age_seconds", "For how long the first of them could have.", age),
                Family::gauge(
                    "hitl_outbox_held",
                    "1 where no notice goes out: the store was restored from another one, and not adopted.",
                    u64::from(outbox.is_held),
                ),
            ]);
        }
        families.extend(self.counters.plain());
        families.extend([self.counters.turns_ended(), self.counters.interrupts_by_outcome(), self.pending().await?]);
        families.push(self.counters.decisions());
        families.extend(self.counters.times.figures());
        families.push(self.counters.deliveries());
        Ok(families)
    }

    /// The turns that could go on and are at no server, as they were counted last; `None` where there is one server.
    ///
    /// # Errors
    /// The store's.
    pub(in crate::engine) async fn ready_turns(&self) -> Result<Option<ReadyTurns>, Error> {
        self.counts.ready.get(|| self.store.upkeep().ready_turns()).await
    }

    pub(in crate::engine) async fn pending(&self) -> Result<Family, Error> {
        let counts = self.counts.pending.get(|| self.store.upkeep().count_pending(self.now())).await?;
        let mut by_kind: BTreeMap<(String, &'static str), u64> = BTreeMap::new();
        for (place, PendingCount { kind, by_age }) in counts.into_iter().enumerate() {
            let kind = if place < TYPES { kind } else { "other".to_owned() };
            for (age, count) in AGES.iter().zip(by_age) {
                *by_kind.entry((kind.clone(), age)).or_default() += count;
            }
        }
        let of_kind =
            |((kind, age), value)| Labelled { labels: vec![("type", kind), ("age", String::from(age))], value };
        Ok(Family {
            name: "hitl_interrupts_pending",
            help: "Interrupts that wait, by type and age.",
            figures: Figures::Gauge(by_kind.into_iter().map(of_kind).collect()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(by_code: &BTreeMap<Option<CodeVersion>, u64>) -> Vec<(String, u64)> {
        let Figures::Gauge(values) = ready_by_code(by_code).figures else { panic!("no gauge") };
        values.into_iter().map(|mut it| (it.labels.remove(0).1, it.value)).collect()
    }

    #[test]
    fn turns_that_nobody_has_are_told_apart_by_their_codes_up_to_sixteen_of_them() {
        let some = |label: &str, count| (label.to_owned(), count);
        assert_eq!(labels(&BTreeMap::new()), [some("any", 0)]);
        let digest = |number: u64| Some(format!("{number:016x}/3.14"));
        let same = BTreeMap::from([(digest(1), 3), (digest(2), 4), (None, 1)]);
        assert_eq!(labels(&same), [some("00000000/3.14", 7), some("any", 1)]);

        let release = |number: u64| (Some(format!("v{number:02}")), 100 - number);
        let told = labels(&(1..=20).map(release).collect());
        assert_eq!(told.len(), 18);
        assert_eq!(told[1..3], [some("other", 83 + 82 + 81 + 80), some("v01", 99)]);
    }
}
