//! Who decides over a call, with the rules of now.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use crate::domain::error::NOWHERE;
use crate::domain::policy::{Effect, Rule, Rules};
use crate::domain::session::Session;
use crate::domain::{FieldError, SessionId};
use crate::engine::access::AccessControl;
use crate::engine::access::policy_file::{LoadedPolicy, PolicyError, PolicyStatus};

/// How many sessions' rules are kept compiled.
const KEPT: usize = 64;

/// The rules of the server, which may change while it runs, and those of sessions, compiled.
#[derive(Debug, Default)]
pub struct Policies {
    server: RwLock<Arc<Rules>>,
    /// How the policy is that they are from.
    status: Mutex<Option<PolicyStatus>>,
    /// Those used last are at the end.
    sessions: Mutex<VecDeque<(Vec<Rule>, Arc<Rules>)>>,
}

impl Policies {
    /// The rules of the server as they are now.
    pub fn server(&self) -> Arc<Rules> {
        // A panic elsewhere cannot leave half a pointer.
        Arc::clone(&self.server.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// A policy was read. Its rules hold from now on; where that failed, those from before do, and everybody can see why.
    /// Where there was none before, a person is asked about every call: it is not known what was to be denied.
    pub fn take(&self, read: Result<LoadedPolicy, PolicyError>) {
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        match read {
            Ok(policy) => {
                tracing::info!(rules = policy.rules.len(), digest = policy.digest, from = %policy.source, "the policy was read");
                *status = Some(PolicyStatus::of(&policy));
                self.set(policy.rules);
            }
            Err(error) => {
                tracing::error!(from = %error.from, error = error.why, "the policy is broken; the rules from before hold");
                match status.as_mut() {
                    Some(status) => status.error = Some(error.why),
                    None => {
                        *status = Some(PolicyStatus::unread(&error));
                        self.set(asking_about_all(&error.why));
                    }
                }
            }
        }
    }

    /// There is no policy any more.
    pub fn drop_all(&self) {
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        tracing::info!("the policy was removed, and no rules of the server hold");
        *status = None;
        self.set(Rules::default());
    }

    fn set(&self, rules: Rules) {
        *self.server.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
    }

    /// How the policy is.
    pub fn status(&self) -> Option<PolicyStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
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

/// One rule that has a person asked about every call: what the policy says nobody knows.
fn asking_about_all(why: &str) -> Rules {
    Rules::unreadable(
        Rule {
            name: "unreadable-policy".to_owned(),
            effect: Effect::Ask,
            tool: "*".to_owned(),
            agent: None,
            when: None,
            reason: None,
            approvers: Vec::new(),
            unsigned: false,
        },
        why,
    )
}

impl AccessControl {
    /// Compiles the rules of a session that is to be made.
    ///
    /// # Errors
    /// Every place that is wrong with them.
    pub async fn compile_rules(self: &Arc<Self>, rules: &[Rule]) -> Result<(), Vec<FieldError>> {
        if rules.is_empty() {
            return Ok(());
        }
        let (access, rules) = (Arc::clone(self), rules.to_vec());
        let compiled = tokio::task::spawn_blocking(move || access.policies.compile(&rules).map(drop)).await;
        compiled.unwrap_or_else(|error| Err(vec![FieldError::new(NOWHERE, "invalid", error.to_string())]))
    }

    /// The rules of a session, and whether there are any, with those of the server. Nothing is compiled yet.
    pub(in crate::engine) fn rules_of(&self, session: Option<&Session>) -> (Arc<OwnRules>, bool) {
        let own = session.map(OwnRules::of).unwrap_or_default();
        let are_there = !own.source.is_empty() || !self.policies.server().is_empty();
        (Arc::new(own), are_there)
    }

    /// The rules of the server as they are now.
    pub(in crate::engine) fn server_rules(&self) -> Arc<Rules> {
        self.policies.server()
    }

    /// A policy was read: see [`Policies::take`].
    pub(in crate::engine) fn use_rules(&self, read: Result<LoadedPolicy, PolicyError>) {
        self.policies.take(read);
    }

    /// There is no policy any more.
    pub(super) fn drop_rules(&self) {
        self.policies.drop_all();
    }

    /// The rules of a stored session, compiled; may take its time.
    pub(in crate::engine) fn session_rules(&self, session: &Session) -> Arc<Rules> {
        self.policies.of_session(session)
    }

    /// The rules that a turn's session came with, compiled; may take its time where nobody has asked them yet.
    pub(in crate::engine) fn own_rules(&self, own: &OwnRules) -> Arc<Rules> {
        Arc::clone(own.compiled.get_or_init(|| self.policies.stored(own.session, &own.source)))
    }
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

    /// Whether one of them has a `when`.
    pub fn have_expressions(&self) -> bool {
        self.source.iter().any(|rule| rule.when.is_some())
    }
}
