//! Faults that tests ask for: a process that dies at a named place, and rules that are left out.
//!
//! All of it is empty without the feature `failpoints`, which no release has (a build without debug assertions refuses
//! it). With it, `HITL_FAILPOINT=<place>@<n>` aborts the process the n-th time that it comes by that place, and
//! `HITL_MUTATION=<no rule>` leaves out one rule, so that a test can show that its absence is noticed. With
//! `HITL_REFUSE_ONCE=1` every commit is refused once: each write job runs, is rolled back and runs again.

#[cfg(all(feature = "failpoints", not(debug_assertions)))]
compile_error!("failpoints are for tests, never for a release");

/// Names each place once, for the code, for `HITL_FAILPOINT` and for the list that tests go through.
macro_rules! named {
    ($(#[$about:meta])* $type:ident { $($variant:ident = $name:literal,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[allow(missing_docs, reason = "the names say it")]
        pub enum $type { $($variant,)* }

        #[cfg_attr(not(feature = "failpoints"), allow(dead_code, reason = "nobody asks"))]
        impl $type {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Its name in the environment.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

named! {
    /// Where a process can be made to die.
    Point {
        StoreBegin = "store.begin",
        StoreJobDone = "store.job_done",
        StoreBeforeCommit = "store.before_commit",
        StoreAfterCommit = "store.after_commit",
        StoreReplied = "store.replied",
        StoreCheckpoint = "store.checkpoint",
        StoreCheckpointed = "store.checkpointed",
        StoreClose = "store.close",
        StoreTurnInserted = "store.turn_inserted",
        StoreBeforeAppend = "store.before_append",
        StoreAfterAppend = "store.after_append",
        StoreClaimed = "store.claimed",
        StoreParked = "store.parked",
        StoreSuspended = "store.suspended",
        StoreReopened = "store.reopened",
        StoreInterruptInserted = "store.interrupt_inserted",
        StoreOutcomeWritten = "store.outcome_written",
        StoreMessagesSet = "store.messages_set",
        StoreTurnEnded = "store.turn_ended",
        OutboxInserted = "outbox.inserted",
        OutboxLeaseWritten = "outbox.lease_written",
        OutboxLeaseCommitted = "outbox.lease_committed",
        OutboxRemindWritten = "outbox.remind_written",
        OutboxSent = "outbox.sent",
        OutboxSettleWritten = "outbox.settle_written",
        OutboxSettleCommitted = "outbox.settle_committed",
        OutboxRetryWritten = "outbox.retry_written",
        OutboxRetryCommitted = "outbox.retry_committed",
        EngineMessageWritten = "engine.message_written",
        EngineMessageCommitted = "engine.message_committed",
        EngineClaimWritten = "engine.claim_written",
        EngineClaimCommitted = "engine.claim_committed",
        EngineStart = "engine.start",
        EngineStarted = "engine.started",
        EngineReplayed = "engine.replayed",
        EngineAppend = "engine.append",
        EngineAppendWritten = "engine.append_written",
        EngineAppendCommitted = "engine.append_committed",
        EnginePauseCommitted = "engine.pause_committed",
        EngineAnswer = "engine.answer",
        EngineAnswerWritten = "engine.answer_written",
        EngineAnswerCommitted = "engine.answer_committed",
        EngineDeliver = "engine.deliver",
        EngineDelivered = "engine.delivered",
        EngineWake = "engine.wake",
        EngineExpireWritten = "engine.expire_written",
        EngineExpireCommitted = "engine.expire_committed",
        EngineTimersWritten = "engine.timers_written",
        EngineTimersCommitted = "engine.timers_committed",
        EnginePark = "engine.park",
        EngineParkWritten = "engine.park_written",
        EngineParkCommitted = "engine.park_committed",
        EngineParkedAtOnce = "engine.parked_at_once",
        EngineLost = "engine.lost",
        EngineLostWritten = "engine.lost_written",
        EngineLostCommitted = "engine.lost_committed",
        EngineSuspendWritten = "engine.suspend_written",
        EngineRetryWritten = "engine.retry_written",
        EngineRetryCommitted = "engine.retry_committed",
        EngineEnd = "engine.end",
        EngineEndWritten = "engine.end_written",
        EngineEndCommitted = "engine.end_committed",
        EngineCancelWritten = "engine.cancel_written",
        EngineCancelCommitted = "engine.cancel_committed",
        EngineRecover = "engine.recover",
        EngineRecoverParked = "engine.recover_parked",
        EngineRecovered = "engine.recovered",
        EngineShutDown = "engine.shut_down",
        EngineShutDownParked = "engine.shut_down_parked",
        SupervisorTake = "supervisor.take",
        SupervisorTaken = "supervisor.taken",
        SupervisorHeard = "supervisor.heard",
        SupervisorStored = "supervisor.stored",
        SupervisorAcknowledged = "supervisor.acknowledged",
        SupervisorDeliver = "supervisor.deliver",
        SupervisorDelivered = "supervisor.delivered",
        SupervisorEnd = "supervisor.end",
        SupervisorEndStored = "supervisor.end_stored",
        SupervisorEndAcknowledged = "supervisor.end_acknowledged",
        SupervisorWorkerLost = "supervisor.worker_lost",
        SupervisorVacate = "supervisor.vacate",
    }
}

named! {
    /// A rule that can be left out.
    Rule {
        // Commits are acknowledged before they are on the disk.
        Sync = "no_sync",
        // An owner that was replaced still writes.
        Epoch = "no_epoch",
        // An answer replaces one that was there before.
        FirstWriter = "no_first_writer",
        // What others wrote to a turn before its own words is not read with these.
        Earlier = "no_earlier",
    }
}

/// The names of all places; none where the build has no failpoints.
#[cfg(feature = "python")]
pub fn places() -> Vec<&'static str> {
    if cfg!(feature = "failpoints") { Point::ALL.iter().map(|place| place.name()).collect() } else { Vec::new() }
}

/// The process dies here if a test wants that.
#[inline(always)]
pub fn at(place: Point) {
    #[cfg(feature = "failpoints")]
    armed::at(place);
    #[cfg(not(feature = "failpoints"))]
    let _ = place;
}

impl Rule {
    /// Whether a test has left this rule out.
    #[inline(always)]
    pub fn is_left_out(self) -> bool {
        #[cfg(feature = "failpoints")]
        return armed::is_left_out(self);
        #[cfg(not(feature = "failpoints"))]
        false
    }
}

/// Leaves out a rule in all of this process, where none was asked about yet.
#[cfg(all(test, feature = "failpoints"))]
pub fn leave_out(rule: Rule) {
    armed::leave_out(rule);
}

/// Whether a test wants every commit to be refused once (`HITL_REFUSE_ONCE`).
#[inline(always)]
pub fn refuses_once() -> bool {
    #[cfg(feature = "failpoints")]
    return armed::refuses_once();
    #[cfg(not(feature = "failpoints"))]
    false
}

/// Whether a test wants silent workers to be given up but not killed (`HITL_SPARE_SILENT`).
#[inline(always)]
pub fn spares_silent_workers() -> bool {
    #[cfg(feature = "failpoints")]
    return std::env::var_os("HITL_SPARE_SILENT").is_some();
    #[cfg(not(feature = "failpoints"))]
    false
}

/// How much faster than usual servers beat, take others for dead and give up (`HITL_CLUSTER_SPEED`, a whole number).
#[inline(always)]
pub fn cluster_speed() -> u32 {
    #[cfg(feature = "failpoints")]
    return std::env::var("HITL_CLUSTER_SPEED").ok().and_then(|speed| speed.parse().ok()).unwrap_or(1).max(1);
    #[cfg(not(feature = "failpoints"))]
    1
}

#[cfg(feature = "failpoints")]
mod armed {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{LazyLock, OnceLock};

    use super::{Point, Rule};

    /// The place at which to die, and how often it is passed before that.
    static WANTED: LazyLock<Option<(Point, u64)>> = LazyLock::new(|| {
        let wanted = std::env::var("HITL_FAILPOINT").ok()?;
        let (name, hit) = wanted.split_once('@').unwrap_or((&wanted, "1"));
        let place = Point::ALL.iter().find(|place| place.name() == name)?;
        Some((*place, hit.parse().ok()?))
    });
    static HITS: AtomicU64 = AtomicU64::new(0);

    static LEFT_OUT: OnceLock<Option<Rule>> = OnceLock::new();

    fn wanted() -> Option<Rule> {
        let name = std::env::var("HITL_MUTATION").ok()?;
        Rule::ALL.iter().copied().find(|rule| rule.name() == name)
    }

    pub fn at(place: Point) {
        if let Some((wanted, hit)) = *WANTED
            && wanted == place
            && HITS.fetch_add(1, Ordering::SeqCst) + 1 == hit
        {
            std::process::abort();
        }
    }

    static REFUSES_ONCE: LazyLock<bool> = LazyLock::new(|| std::env::var_os("HITL_REFUSE_ONCE").is_some());

    pub fn refuses_once() -> bool {
        *REFUSES_ONCE
    }

    pub fn is_left_out(rule: Rule) -> bool {
        *LEFT_OUT.get_or_init(wanted) == Some(rule)
    }

    #[cfg(test)]
    pub fn leave_out(rule: Rule) {
        LEFT_OUT.set(Some(rule)).unwrap();
    }
}

#[cfg(test)]
#[cfg(feature = "failpoints")]
mod tests {
    use std::process::Command;

    /// Whether the tests whose names contain `filter` pass in a process with `mutation`.
    fn passes(filter: &str, mutation: &str) -> bool {
        let output = Command::new(std::env::current_exe().unwrap())
            .args([filter, "--test-threads=1"])
            .env("HITL_MUTATION", mutation)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(!said.contains("running 0 tests"), "{filter}: {said}");
        output.status.success()
    }

    #[test]
    fn a_store_without_syncs_goes_red() {
        let powercut = "store::sqlite::tests::disk::powercut::a_power_cut";
        assert!(passes(powercut, ""));
        assert!(!passes(powercut, "no_sync"));
    }

    #[test]
    fn a_store_without_the_epoch_check_goes_red() {
        for store in ["sqlite", "memory"] {
            for test in [
                format!("store::contract::turns::{store}::an_owner_that_was_replaced"),
                format!("store::contract::parking::{store}::parking_a_turn_takes_it_from_its_owner"),
            ] {
                assert!(passes(&test, ""), "{test}");
                assert!(!passes(&test, "no_epoch"), "{test}");
            }
        }
    }
}
