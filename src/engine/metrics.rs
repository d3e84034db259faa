//! Figures for operators, as Prometheus text.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Engine;
use crate::domain::Error;

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
}

impl Counters {
    /// A turn began.
    pub fn turn_started(&self) {
        self.turns_started.fetch_add(1, Ordering::Relaxed);
    }

    /// A turn is over.
    pub fn turn_ended(&self, done: bool) {
        let counter = if done { &self.turns_done } else { &self.turns_failed };
        counter.fetch_add(1, Ordering::Relaxed);
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
        let mut text = String::new();
        let gauges = [
            ("hitl_workers", "Turns that may be at work.", health.max_workers),
            ("hitl_turns_at_work", "Turns at work; those that wait for people do not count.", health.running_workers),
            ("hitl_turns_queued", "Turns that wait for a worker.", health.queued),
            ("hitl_turns_in_memory", "Turns at workers, waiting ones included.", warm),
            ("hitl_turns_paused_in_memory", "Turns at workers that wait for people or timers.", paused),
            ("hitl_sessions", "Sessions in the store.", health.total_sessions),
        ];
        for (name, help, value) in gauges {
            metric(&mut text, name, help, "gauge", &[("", value as u64)]);
        }
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
        Ok(text)
    }
}

fn metric(text: &mut String, name: &str, help: &str, kind: &str, samples: &[(&str, u64)]) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    for (labels, value) in samples {
        let _ = writeln!(text, "{name}{labels} {value}");
    }
}
