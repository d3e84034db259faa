//! Figures for operators, as Prometheus text.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::histogram::{self, Histogram};
use super::{Engine, clock};
use crate::domain::interrupt::Interrupt;
use crate::domain::{Error, answer};
use crate::store::StoreExt;
use crate::store::record::PendingCount;

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
/// What is pending is counted again after this many times as long as the last count took.
const REST: u32 = 20;

/// How an interrupt was decided.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// `approve`, `edit`, `reject`, `respond`, or `answer` for what is no tool approval.
    word: &'static str,
    /// How long it was pending.
    took: Duration,
}

impl Outcome {
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
    fn write(&self, text: &mut String) {
        let help = "From the question to a person's decision.";
        histogram::write(text, "hitl_decision_seconds", help, &[("", &self.decisions)]);
        let help = "Time at work of turns that are over, by outcome, without waits.";
        let work = [("outcome=\"done\"", &self.work_done), ("outcome=\"failed\"", &self.work_failed)];
        histogram::write(text, "hitl_turn_work_seconds", help, &work);
        let help = "From a worker's getting a turn to its going on.";
        histogram::write(text, "hitl_replay_seconds", help, &[("", &self.replays)]);
    }
}

/// Until when a count is good enough, and what it came to.
type Counted = (Instant, Vec<PendingCount>);

/// What is pending, as it was counted last.
#[derive(Debug, Default)]
pub struct Pending {
    counted: Arc<tokio::sync::Mutex<Option<Counted>>>,
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
    pub fn decided_by_person(&self, outcome: Outcome) {
        self.count_decision(outcome, "person");
        self.times.decisions.add(outcome.took);
    }

    /// A rule, a grant or the tool's own code decided.
    pub fn decided_by_rule(&self, outcome: Outcome) {
        self.count_decision(outcome, "rule");
    }

    fn count_decision(&self, outcome: Outcome, by: &'static str) {
        let mut decisions = self.decisions.lock().unwrap_or_else(PoisonError::into_inner);
        *decisions.entry((outcome.word, by)).or_default() += 1;
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

impl Engine {
    /// Prometheus text.
    ///
    /// # Errors
    /// The store's.
    pub async fn metrics(&self) -> Result<String, Error> {
        let health = self.health().await?;
        let (warm, paused) = self.live.count();
        let outbox = self.store.query(|reader| reader.outbox_figures()).await?;
        let lag = outbox.oldest.map_or(0, |oldest| clock::now().since(oldest).as_secs());
        let mut text = String::new();
        let gauges = [
            ("hitl_workers", "Turns that may be at work.", health.max_workers),
            ("hitl_turns_at_work", "Turns at work; those that wait for people do not count.", health.running_workers),
            ("hitl_turns_queued", "Turns that wait for a worker.", health.queued),
            ("hitl_turns_in_memory", "Turns at workers, waiting ones included.", warm),
            ("hitl_turns_paused_in_memory", "Turns at workers that wait for people or timers.", paused),
            (
                "hitl_turns_held",
                "Turns that could rest, but for raw I/O, a thread or a step at work.",
                self.held_turns().0,
            ),
            ("hitl_sessions", "Sessions in the store.", health.total_sessions),
            ("hitl_outbox_pending", "Notices that webhooks have not taken yet.", outbox.pending),
        ];
        for (name, help, value) in gauges {
            metric(&mut text, name, help, "gauge", &[("", value as u64)]);
        }
        metric(
            &mut text,
            "hitl_outbox_lag_seconds",
            "How long ago the event of the first of them was.",
            "gauge",
            &[("", lag)],
        );
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.counters;
        for (name, help, counter) in [
            ("hitl_turns_started_total", "Turns begun.", &counters.turns_started),
            ("hitl_turns_parked_total", "Times a waiting turn left memory.", &counters.parked),
            ("hitl_turns_recovered_total", "Times a turn went on that lost its worker.", &counters.recovered),
            ("hitl_turns_retried_total", "Times a failed turn was taken up again.", &counters.retried),
            ("hitl_steps_total", "Steps journaled.", &counters.steps),
            ("hitl_interrupts_opened_total", "Interrupts opened.", &counters.asked),
            ("hitl_interrupts_decided_total", "Interrupts decided without asking a person.", &counters.decided),
        ] {
            metric(&mut text, name, help, "counter", &[("", count(counter))]);
        }
        metric(
            &mut text,
            "hitl_turns_ended_total",
            "Turns over, by outcome.",
            "counter",
            &[
                ("{outcome=\"done\"}", count(&counters.turns_done)),
                ("{outcome=\"failed\"}", count(&counters.turns_failed)),
            ],
        );
        metric(
            &mut text,
            "hitl_interrupts_settled_total",
            "Interrupts answered or expired.",
            "counter",
            &[
                ("{outcome=\"resolved\"}", count(&counters.answered)),
                ("{outcome=\"expired\"}", count(&counters.expired)),
            ],
        );
        self.write_pending(&mut text).await?;
        self.write_decisions(&mut text);
        counters.times.write(&mut text);
        metric(
            &mut text,
            "hitl_webhook_deliveries_total",
            "Tries to tell webhooks: delivered, to be retried, failed for good.",
            "counter",
            &[
                ("{outcome=\"delivered\"}", count(&counters.notices_delivered)),
                ("{outcome=\"retried\"}", count(&counters.notices_retried)),
                ("{outcome=\"failed\"}", count(&counters.notices_failed)),
            ],
        );
        Ok(text)
    }

    pub(super) async fn write_pending(&self, text: &mut String) -> Result<(), Error> {
        let mut counted = Arc::clone(&self.pending.counted).lock_owned().await;
        let fresh = counted.as_ref().filter(|(until, _)| Instant::now() < *until);
        let counts = match fresh {
            Some((_, counts)) => counts.clone(),
            None => {
                let count = self.store.query(move |reader| {
                    let started = Instant::now();
                    let counts = reader.count_pending(clock::now())?;
                    // Kept, and let go of, even if whoever wanted it hangs up meanwhile.
                    *counted = Some((started + started.elapsed() * (REST + 1), counts.clone()));
                    Ok(counts)
                });
                count.await?
            }
        };
        let mut samples: BTreeMap<String, u64> = BTreeMap::new();
        for (place, PendingCount { kind, by_age }) in counts.iter().enumerate() {
            let kind = if place < TYPES { label(kind) } else { "other".to_owned() };
            for (age, count) in AGES.iter().zip(by_age) {
                *samples.entry(format!("{{type=\"{kind}\",age=\"{age}\"}}")).or_default() += count;
            }
        }
        let samples: Vec<(&str, u64)> = samples.iter().map(|(labels, count)| (labels.as_str(), *count)).collect();
        metric(text, "hitl_interrupts_pending", "Interrupts that wait, by type and age.", "gauge", &samples);
        Ok(())
    }

    fn write_decisions(&self, text: &mut String) {
        let decisions = self.counters.decisions.lock().unwrap_or_else(PoisonError::into_inner);
        let samples: Vec<(String, u64)> = decisions
            .iter()
            .map(|((word, by), count)| (format!("{{outcome=\"{word}\",by=\"{by}\"}}"), *count))
            .collect();
        let samples: Vec<(&str, u64)> = samples.iter().map(|(labels, count)| (labels.as_str(), *count)).collect();
        let help = "Interrupts decided, by outcome, and by whom: a person, or a rule, a grant or the tool's own code.";
        metric(text, "hitl_decisions_total", help, "counter", &samples);
    }
}

/// A label's value as the format wants it.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn metric(text: &mut String, name: &str, help: &str, kind: &str, samples: &[(&str, u64)]) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    for (labels, value) in samples {
        let _ = writeln!(text, "{name}{labels} {value}");
    }
}
