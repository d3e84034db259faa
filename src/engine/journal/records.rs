//! What a worker says of its turn, before it is stored: what may take its time about a question (schemas, the rules'
//! expressions) is found out apart from the transaction, which takes it where the rules are still the same.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use crate::domain::interrupt::Ask;
use crate::domain::journal::{Entry, StepIdentity};
use crate::domain::policy::{Evaluation, RuleSets, Rules};
use crate::domain::told;
use crate::domain::{Error, InterruptId, Timestamp};
use crate::engine::Engine;
use crate::engine::access::policy::OwnRules;
use crate::engine::ports::dispatch::Record;

impl Engine {
    /// What is to be known about each of `records` before the transaction that stores them: to look at it may take its time.
    ///
    /// # Errors
    /// An internal one.
    pub(super) async fn precheck_records(
        self: &Arc<Self>,
        records: &Arc<Vec<PreparedRecord>>,
        own: &Arc<OwnRules>,
    ) -> Result<RecordsPrecheck, Error> {
        let server = self.access.server_rules();
        let has_expressions = server.have_expressions() || own.have_expressions();
        let takes_time = |record: &PreparedRecord| match record {
            PreparedRecord::Ask { ask, .. } => {
                has_expressions || ask.response_schema.is_some() || ask.proposed.is_some()
            }
            _ => false,
        };
        if !records.iter().any(takes_time) {
            return Ok(self.precheck_all(records, own, server));
        }
        let (engine, records, own) = (Arc::clone(self), Arc::clone(records), Arc::clone(own));
        tokio::task::spawn_blocking(move || engine.precheck_all(&records, &own, server))
            .await
            .map_err(|error| Error::Internal(error.to_string()))
    }

    fn precheck_all(&self, records: &[PreparedRecord], own: &OwnRules, server: Arc<Rules>) -> RecordsPrecheck {
        let (mut found, schemas) = (HashMap::new(), self.access.schemas());
        for (place, record) in records.iter().enumerate() {
            if let PreparedRecord::Ask { ask, .. } = record {
                let session = self.access.own_rules(own);
                let ruling = RuleSets { session: &session, server: &server }.rule_on(ask, schemas);
                let schema = ask.schema(self.settings.max_payload, schemas, schemas);
                found.insert(place, CheckedRecord { ruling, schema });
            }
        }
        RecordsPrecheck { server, found }
    }

    /// Whether what was found about records still stands: the rules that were asked. Those of a session never change.
    pub(super) fn records_still_stand(&self, looked: &RecordsPrecheck) -> bool {
        looked.found.is_empty() || Arc::ptr_eq(&looked.server, &self.access.server_rules())
    }
}

/// What was found about the questions among a turn's records.
#[derive(Debug)]
pub(super) struct RecordsPrecheck {
    /// By which rules, beside those of the session.
    server: Arc<Rules>,
    /// By their places.
    found: HashMap<usize, CheckedRecord>,
}

impl RecordsPrecheck {
    /// # Errors
    /// An internal one, where the record in that place is no question.
    pub fn about(&self, place: usize) -> Result<&CheckedRecord, Error> {
        self.found.get(&place).ok_or_else(|| Error::Internal("a question that nobody has looked at".to_owned()))
    }
}

/// A record as it is stored: what is an entry is one by now, so that a job that runs again copies none of it.
#[derive(Debug)]
pub(super) enum PreparedRecord {
    /// A finished step, one that begins, a fired timer, order marks.
    Entry(Entry),
    /// A tool that begins: those who listen were told, and nothing is stored.
    Told,
    /// A question.
    Ask { step: StepIdentity, ask: Box<Ask> },
    /// Nobody waits for this interrupt any more.
    Withdraw { interrupt: InterruptId },
    /// The turn is paused, unless something has come after `seen`; its earliest timer is due at `wake_at`.
    Waiting { seen: Option<u64>, wake_at: Option<Timestamp>, pause: Entry },
}

impl PreparedRecord {
    /// Whether the session says what becomes of it, or becomes another by it.
    pub fn is_of_session(&self) -> bool {
        match self {
            Self::Ask { .. } | Self::Withdraw { .. } | Self::Waiting { .. } => true,
            Self::Entry(_) | Self::Told => false,
        }
    }
}

impl From<Record> for PreparedRecord {
    fn from(record: Record) -> Self {
        match record {
            Record::Step { step, result } => Self::Entry(Entry::Step { step, result }),
            Record::Intent { step, arguments } => {
                let arguments = arguments.map(told::kept_arguments);
                Self::Entry(Entry::Intent { step, arguments })
            }
            Record::Started(_) => Self::Told,
            Record::Timer { path, due } => Self::Entry(Entry::Timer { path, due }),
            Record::Wakes(wakes) => Self::Entry(Entry::Wakes { wakes }),
            Record::Ask { step, ask } => Self::Ask { step, ask },
            Record::Withdraw { interrupt } => Self::Withdraw { interrupt },
            Record::Waiting { seen, timers, context } => {
                let wake_at = timers.iter().map(|timer| timer.due).min();
                Self::Waiting { seen, wake_at, pause: Entry::Pause { timers, context } }
            }
        }
    }
}

/// What is known about a question before it is stored.
#[derive(Debug)]
pub(super) struct CheckedRecord {
    /// What the rules say about what asks.
    pub ruling: Evaluation,
    /// The JSON Schema that its record shows, or what is wrong with it.
    pub schema: Result<Option<Arc<Value>>, Error>,
}
