//! Who decides over a call, with the rules of now.

use std::sync::{Arc, PoisonError, RwLock};

use super::Engine;
use crate::domain::interrupt::Ask;
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
        let server = self.rules.get();
        let own = Rules::default();
        policy::decide(ask, Standing { session: &own, server: &server, grants: &session.grants })
    }
}
