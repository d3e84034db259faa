//! Who decides over a call, with the rules of now.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use serde_json::Value;

use crate::domain::error::NOWHERE;
use crate::domain::interrupt::Ask;
use crate::domain::journal::{Entry, StepIdentity};
use crate::domain::policy::{Evaluation, Rule, RuleSets, Rules};
use crate::domain::session::Session;
use crate::domain::{Error, FieldError, InterruptId, SessionId, Timestamp};
use crate::engine::Engine;
use crate::engine::access::policy_file::{PolicyError, PolicyFile, PolicyStatus};
use crate::engine::ports::dispatch::Record;

/// How many sessions' rules are kept compiled.
const KEPT: usize = 64;

/// The rules of the server, which may change while it runs, and those of sessions, compiled.
#[derive(Debug, Default)]
pub struct Policies {
    server: RwLock<Arc<Rules>>,
    /// How the file is that they are from.
    file: Mutex<Option<PolicyStatus>>,
    /// Those used last are at the end.
    sessions: Mutex<VecDeque<(Vec<Rule>, Arc<Rules>)>>,
}

impl Policies {
    /// The rules of the server as they are now.
    pub fn server(&self) -> Arc<Rules> {
        // A panic elsewhere cannot leave half a pointer.
        Arc::clone(&self.server.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The file was read. Its rules hold from now on; where that failed, those from before do, and everybody can see why.
    pub fn take(&self, read: Result<PolicyFile, PolicyError>) {
        let mut status = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        match read {
            Ok(file) => {
                tracing::info!(rules = file.rules.len(), digest = file.digest, "the policy was read");
                *status = Some(PolicyStatus::of(&file));
                *self.server.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(file.rules);
            }
            Err(error) => {
                let Some(status) = status.as_mut() else { return };
                tracing::error!(path = %error.path.display(), error = error.why, "the policy file is broken; the rules from before hold");
                status.error = Some(error.why);
            }
        }
    }

    /// How the policy file is.
    pub fn status(&self) -> Option<PolicyStatus> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Compiles the rules of a session.
    ///
    /// # Errors
    /// Every place that is wrong with them.
    pub fn compile(&self, rules: &[Rule]) -> Result<Arc<Rules>, Vec<FieldError>> {
        if rules.is_empty() {
            return Ok(Arc::default());
        }
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = sessions.iter().position(|(source, _)| source == rules)
            && let Some(found) = sessions.remove(place)
        {
            let compiled = Arc::clone(&found.1);
            sessions.push_back(found);
            return Ok(compiled);
        }
        drop(sessions);
        let compiled = Arc::new(Rules::compile(rules.to_vec())?);
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.push_back((rules.to_vec(), Arc::clone(&compiled)));
        if sessions.len() > KEPT {
            sessions.pop_front();
        }
        Ok(compiled)
    }

    /// The rules of a stored session; may take its time. One that an earlier release took and this one does not never can
    /// tell.
    pub fn of_session(&self, session: &Session) -> Arc<Rules> {
        self.stored(Some(session.id), &session.rules)
    }

    fn stored(&self, session: Option<SessionId>, rules: &[Rule]) -> Arc<Rules> {
        self.compile(rules).unwrap_or_else(|errors| {
            let error = errors.first().map(ToString::to_string).unwrap_or_default();
            let session = session.map(|id| id.to_string());
            tracing::error!(session, error, "a rule of the session cannot be read, and fails closed");
            Arc::new(Rules::stored(rules.to_vec()))
        })
    }
}

impl Engine {
    /// Compiles the rules of a session that is to be made.
    ///
    /// # Errors
    /// Every place that is wrong with them.
    pub async fn compile_rules(self: &Arc<Self>, rules: &[Rule]) -> Result<(), Vec<FieldError>> {
        if rules.is_empty() {
            return Ok(());
        }
        let (engine, rules) = (Arc::clone(self), rules.to_vec());
        let compiled = tokio::task::spawn_blocking(move || engine.policies.compile(&rules).map(drop)).await;
        compiled.unwrap_or_else(|error| Err(vec![FieldError::new(NOWHERE, "invalid", error.to_string())]))
    }

    /// The rules of a session, and whether there are any, with those of the server. Nothing is compiled yet.
    pub(in crate::engine) fn rules_of(&self, session: Option<&Session>) -> (Arc<OwnRules>, bool) {
        let own = session.map(OwnRules::of).unwrap_or_default();
        let are_there = !own.source.is_empty() || !self.policies.server().is_empty();
        (Arc::new(own), are_there)
    }

    /// What is to be known about each of `records` before the transaction that stores them: to look at it may take its time.
    ///
    /// # Errors
    /// An internal one.
    pub(in crate::engine) async fn precheck_records(
        self: &Arc<Self>,
        records: &Arc<Vec<PreparedRecord>>,
        own: &Arc<OwnRules>,
    ) -> Result<RecordsPrecheck, Error> {
        let server = self.policies.server();
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
        let mut found = HashMap::new();
        for (place, record) in records.iter().enumerate() {
            if let PreparedRecord::Ask { ask, .. } = record {
                let session = own.compiled(&self.policies);
                let ruling = RuleSets { session: &session, server: &server }.rule_on(ask, &self.schemas);
                let schema = ask.schema(self.settings.max_payload, &self.schemas, &self.schemas);
                found.insert(place, CheckedRecord { ruling, schema });
            }
        }
        RecordsPrecheck { server, found }
    }

    /// Whether what was found about records still stands: the rules that were asked. Those of a session never change.
    pub(in crate::engine) fn records_still_stand(&self, looked: &RecordsPrecheck) -> bool {
        looked.found.is_empty() || Arc::ptr_eq(&looked.server, &self.policies.server())
    }
}

/// What was found about the questions among a turn's records.
#[derive(Debug)]
pub(in crate::engine) struct RecordsPrecheck {
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
pub(in crate::engine) enum PreparedRecord {
    /// A finished step, one that begins, a fired timer, order marks.
    Entry(Entry),
    /// A question.
    Ask { step: StepIdentity, ask: Box<Ask> },
    /// Nobody waits for this interrupt any more.
    Withdraw { interrupt: InterruptId },
    /// The turn is paused, unless something has come after `seen`; its earliest timer is due at `wake_at`.
    Waiting { seen: Option<u64>, wake_at: Option<Timestamp>, pause: Entry },
}

impl From<Record> for PreparedRecord {
    fn from(record: Record) -> Self {
        match record {
            Record::Step { step, result } => Self::Entry(Entry::Step { step, result }),
            Record::Intent { step } => Self::Entry(Entry::Intent { step }),
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
pub(in crate::engine) struct CheckedRecord {
    /// What the rules say about what asks.
    pub ruling: Evaluation,
    /// The JSON Schema that its record shows, or what is wrong with it.
    pub schema: Result<Option<Arc<Value>>, Error>,
}

/// The rules of a session, compiled when they are asked first: to read them in a transaction takes no time.
#[derive(Debug, Default)]
pub struct OwnRules {
    session: Option<SessionId>,
    source: Vec<Rule>,
    compiled: OnceLock<Arc<Rules>>,
}

impl OwnRules {
    fn of(session: &Session) -> Self {
        Self { session: Some(session.id), source: session.rules.clone(), compiled: OnceLock::new() }
    }

    fn have_expressions(&self) -> bool {
        self.source.iter().any(|rule| rule.when.is_some())
    }

    fn compiled(&self, policies: &Policies) -> Arc<Rules> {
        Arc::clone(self.compiled.get_or_init(|| policies.stored(self.session, &self.source)))
    }
}
