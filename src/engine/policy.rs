//! Who decides over a call, with the rules of now.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use super::Engine;
use super::dispatch::Record;
use super::policy_file::{PolicyError, PolicyFile, PolicyStatus};
use crate::domain::access::{Actor, UNKNOWN_OUTCOME};
use crate::domain::error::NOWHERE;
use crate::domain::interrupt::Interrupt;
use crate::domain::journal::Entry;
use crate::domain::policy::{self, Asked, Rule, Rules, Standing};
use crate::domain::session::Session;
use crate::domain::{Error, FieldError};
use crate::store::Transaction;

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

    /// The rules of a stored session. One that an earlier release took and this one does not never can tell.
    pub fn of_session(&self, session: &Session) -> Arc<Rules> {
        self.compile(&session.rules).unwrap_or_else(|errors| {
            let error = errors.first().map(ToString::to_string).unwrap_or_default();
            tracing::error!(session = %session.id, error, "a rule of the session cannot be read, and fails closed");
            Arc::new(Rules::stored(session.rules.clone()))
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

    /// The rules of a session, and whether there are any, with those of the server.
    pub(super) fn rules_of(&self, session: Option<&Session>) -> (Arc<Rules>, bool) {
        let rules = session.map(|session| self.policies.of_session(session)).unwrap_or_default();
        let are_there = !rules.is_empty() || !self.policies.server().is_empty();
        (rules, are_there)
    }

    /// What the rules say about each of `records`; apart from the transaction that stores them, since an expression may
    /// take its time.
    ///
    /// # Errors
    /// An internal one.
    pub(super) async fn rule_on(
        &self,
        records: Vec<Record>,
        session: Arc<Rules>,
    ) -> Result<Vec<(Record, Asked)>, Error> {
        let server = self.policies.server();
        let rule = move |records: Vec<Record>, session: &Rules, server: &Rules| {
            let standing = Standing { session, server };
            let ruled = records.into_iter().map(|record| match &record {
                Record::Ask { ask, .. } => {
                    let ruling = standing.rule_on(ask);
                    (record, ruling)
                }
                _ => (record, Asked::default()),
            });
            ruled.collect()
        };
        let asks = records.iter().any(|record| matches!(record, Record::Ask { .. }));
        if !asks || !(session.have_expressions() || server.have_expressions()) {
            return Ok(rule(records, &session, &server));
        }
        tokio::task::spawn_blocking(move || rule(records, &session, &server))
            .await
            .map_err(|error| Error::Internal(error.to_string()))
    }

    /// What a person lets run is for the rules again: it may be edited, or a rule be newer than the question.
    ///
    /// # Errors
    /// [`Error::InvalidAnswer`] and [`Error::NotAnApprover`], which name the rule.
    pub(super) fn check_rules(
        &self,
        tx: &dyn Transaction,
        session: &Session,
        answered: &Interrupt,
        actor: &Actor,
    ) -> Result<(), Error> {
        let is_tool = answered.kind != UNKNOWN_OUTCOME || is_about_a_tool(tx, answered)?;
        let (own, server) = (self.policies.of_session(session), self.policies.server());
        policy::objection(answered, Standing { session: &own, server: &server }, Some(actor), is_tool)
    }

    /// Whether the rules let what `actor` decided for always settle another question too.
    pub(super) fn lets_sweep(&self, session: &Session, settled: &Interrupt, actor: &Actor) -> bool {
        let (own, server) = (self.policies.of_session(session), self.policies.server());
        policy::lets_sweep(settled, Standing { session: &own, server: &server }, actor)
    }
}

/// Whether the step is a tool whose outcome nobody knows. What the journal does not know is taken for one.
fn is_about_a_tool(tx: &dyn Transaction, asked: &Interrupt) -> Result<bool, Error> {
    let journal = tx.journal(asked.turn_id)?;
    let question = journal.iter().find_map(|recorded| match &recorded.entry {
        Entry::Ask { step, interrupt_id } if *interrupt_id == asked.interrupt_id => Some(step.path.as_str()),
        _ => None,
    });
    // The question is asked inside of the step that it is about.
    let path = question.and_then(|path| path.rsplit_once('/')).map(|(outer, _)| outer);
    let began = journal.iter().find_map(|recorded| match &recorded.entry {
        Entry::Intent { step } if Some(step.path.as_str()) == path => Some(step.kind.as_str()),
        _ => None,
    });
    Ok(began.is_none_or(|kind| kind == "tool"))
}
