//! Who decides over a call, with the rules of now.

use std::sync::{Arc, PoisonError, RwLock};

use super::Engine;
use crate::domain::Error;
use crate::domain::interrupt::{Ask, Interrupt};
use crate::domain::policy::{self, Rules, Standing, Verdict};
use crate::domain::session::Session;

/// The rules of the server, which may change while it runs.
#[derive(Debug, Default)]
pub struct ServerRules(RwLock<Arc<Rules>>);

impl ServerRules {
    /// Those of now.
    pub fn get(&self) -> Arc<Rules> {
        // A panic elsewhere cannot leave half a pointer.
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Engine {
    /// Decides over what a turn of `session` asks, or says that a person has to.
    pub(super) fn verdict(&self, session: &Session, ask: &Ask) -> Verdict {
        let (own, server) = self.rules_for(session);
        policy::decide(ask, Standing { session: &own, server: &server, grants: &session.grants })
    }

    /// What a person lets run may be denied by a rule, because it was edited, or because the rule is newer than the
    /// question.
    ///
    /// # Errors
    /// [`Error::InvalidAnswer`], which names the rule.
    pub(super) fn check_rules(&self, session: &Session, answered: &Interrupt) -> Result<(), Error> {
        let (own, server) = self.rules_for(session);
        let standing = Standing { session: &own, server: &server, grants: &[] };
        match policy::denial(answered, standing) {
            Some(error) => Err(Error::InvalidAnswer(vec![error])),
            None => Ok(()),
        }
    }

    /// The rules of the session, and those of the server.
    fn rules_for(&self, _session: &Session) -> (Arc<Rules>, Arc<Rules>) {
        (Arc::default(), self.rules.get())
    }
}
