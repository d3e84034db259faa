//! Who decides over a call, with the rules of now.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use super::Engine;
use super::dispatch::Record;
use super::policy_file::{PolicyError, PolicyStatus};
use crate::domain::error::NOWHERE;
use crate::domain::interrupt::Interrupt;
use crate::domain::journal::{Entry, Recorded};
use crate::domain::policy::{self, Rule, Rules, Ruling, Standing};
use crate::domain::session::Session;
use crate::domain::{Error, FieldError};

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

    /// The file was read: its rules hold from now on.
    pub fn loaded(&self, rules: Rules) {
        *self.file.lock().unwrap_or_else(PoisonError::into_inner) = Some(PolicyStatus::of(&rules));
        *self.server.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
    }

    /// The file was read again. Where that failed, the rules from before hold, and everybody can see why.
    pub fn reload(&self, read: Result<Rules, PolicyError>) {
        match read {
            Ok(rules) => {
                if rules.is_as(&self.server()) && self.status().is_some_and(|status| status.error.is_none()) {
                    return;
                }
                tracing::info!(rules = rules.len(), "the policy was read again");
                self.loaded(rules);
            }
            Err(error) => {
                let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(status) = file.as_mut() else { return };
                if status.error.as_ref() != Some(&error.why) {
                    tracing::error!(path = %error.path.display(), error = error.why, "the policy file is broken; the rules from before hold");
                    status.error = Some(error.why);
                }
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

    /// The rules of a stored session. What an earlier release took and this one does not has a person asked.
    pub fn of_session(&self, session: &Session) -> Arc<Rules> {
        self.compile(&session.rules).unwrap_or_else(|errors| {
            let error = errors.first().map(ToString::to_string).unwrap_or_default();
            tracing::error!(session = %session.id, error, "the session's rules cannot be read: a person is asked");
            Arc::new(Rules::asking("unreadable"))
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

    /// The rules of the session of a turn with this journal: none where it began without any.
    pub(super) fn rules_at(
        &self,
        journal: &[Recorded],
        session: impl FnOnce() -> Result<Option<Session>, Error>,
    ) -> Result<Arc<Rules>, Error> {
        match journal.first().map(|first| &first.entry) {
            Some(Entry::Start { policy: true, .. }) => {
                Ok(session()?.map(|session| self.policies.of_session(&session)).unwrap_or_default())
            }
            _ => Ok(Arc::default()),
        }
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
    ) -> Result<Vec<(Record, Ruling)>, Error> {
        let server = self.policies.server();
        let rule = move |records: Vec<Record>, session: &Rules, server: &Rules| {
            let standing = Standing { session, server };
            let ruled = records.into_iter().map(|record| match &record {
                Record::Ask { ask, .. } => {
                    let ruling = standing.rule_on(ask);
                    (record, ruling)
                }
                _ => (record, Ruling::default()),
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

    /// What a person lets run may be denied by a rule, because it was edited, or because the rule is newer than the
    /// question.
    ///
    /// # Errors
    /// [`Error::InvalidAnswer`], which names the rule.
    pub(super) fn check_rules(&self, session: &Session, answered: &Interrupt) -> Result<(), Error> {
        let (own, server) = (self.policies.of_session(session), self.policies.server());
        match policy::denial(answered, Standing { session: &own, server: &server }) {
            Some(error) => Err(Error::InvalidAnswer(vec![error])),
            None => Ok(()),
        }
    }
}
