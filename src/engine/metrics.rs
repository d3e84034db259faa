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
    answered: AtomicU64,
    expired: AtomicU64,
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

    /// A step was journaled.
    pub fn step(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// An interrupt was opened.
    pub fn asked(&self) {
        self.asked.fetch_add(1, Ordering::Relaxed);
    }

    /// An interrupt was answered.
    pub fn answered(&self) {
        self.answered.fetch_add(1, Ordering::Relaxed);
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
        let mut text = String::new();
        let gauges = [
            ("hitl_workers", "Turns that may be at work.", health.max_workers),
            ("hitl_turns_at_work", "Turns at work; those that wait for people do not count.", health.running_workers),
            ("hitl_turns_queued", "Turns that wait for a worker.", health.queued),
            ("hitl_sessions", "Sessions in the store.", health.total_sessions),
        ];
        for (name, help, value) in gauges {
            metric(&mut text, name, help, "gauge", &[("", value as u64)]);
        }
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.counters;
        metric(
            &mut text,
            "hitl_turns_started_total",
            "Turns begun.",
            "counter",
            &[("", count(&counters.turns_started))],
        );
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
        metric(&mut text, "hitl_steps_total", "Steps journaled.", "counter", &[("", count(&counters.steps))]);
        metric(
            &mut text,
            "hitl_interrupts_opened_total",
            "Interrupts opened.",
            "counter",
            &[("", count(&counters.asked))],
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
