//! The policy file, as far as the engine has to do with it: its rules hold once the audit tells of them. What reads it, and
//! sees that it has changed, is behind a port. What cannot be read changes nothing.

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::domain::audit::{Action, Deed};
use crate::domain::policy::Rules;
use crate::domain::{Error, Timestamp};
use crate::engine::access::AccessControl;
use crate::engine::alarm::STORE_PAUSE;
use crate::store::StoreExt;
use crate::store::about::About;
use crate::store::clock::{Clock, WallClock};

/// Why a file gives no rules.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the policy in {} cannot be used: {why}", path.display())]
pub struct PolicyError {
    /// Which.
    pub path: PathBuf,
    /// What is wrong; with the line where it is the text.
    pub why: String,
}

/// What a file says.
#[derive(Debug, Clone)]
pub struct PolicyFile {
    /// Its rules.
    pub rules: Rules,
    /// The digest of its text: `sha256:` and what `sha256sum` says.
    pub digest: String,
}

/// How the policy file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyStatus {
    /// How many rules hold.
    pub rules: usize,
    /// Of the file that they are from.
    pub digest: String,
    /// Since when.
    pub loaded_at: Timestamp,
    /// Why the file as it is now does not count; the rules are those from before.
    pub error: Option<String>,
}

/// Where the rules of the server come from. They may change while it runs.
pub trait RulesSource: Send + 'static {
    /// Resolves when what it says has changed and settled.
    fn changed(&mut self) -> BoxFuture<'_, Result<PolicyFile, PolicyError>>;
}

impl AccessControl {
    /// Has the rules of `file` hold, and from then on those that `source` has instead, until the engine is over.
    ///
    /// # Errors
    /// The store's: the audit tells which rules hold.
    pub async fn follow_policy(self: &Arc<Self>, file: PolicyFile, source: impl RulesSource) -> Result<(), Error> {
        self.take_policy(&Ok(file)).await?;
        let access = Arc::clone(self);
        tokio::spawn(async move {
            let stopped = access.stopped.clone();
            tokio::select! {
                () = stopped.cancelled() => {}
                () = access.follow(source) => {}
            }
        });
        Ok(())
    }

    async fn follow(&self, mut source: impl RulesSource) {
        loop {
            let read = source.changed().await;
            while let Err(error) = self.take_policy(&read).await {
                tracing::error!(%error, "the policy file was read, but cannot be told to the audit; trying again");
                tokio::time::sleep(STORE_PAUSE).await;
            }
        }
    }

    /// Has what was read of the policy file hold, once the audit tells of it.
    async fn take_policy(&self, read: &Result<PolicyFile, PolicyError>) -> Result<(), Error> {
        let before = self.policies.status();
        let deed = match read {
            Ok(file) => {
                let is_as_before =
                    before.as_ref().is_some_and(|status| status.digest == file.digest && status.error.is_none());
                let deed = Deed::new(Action::PolicyLoaded)
                    .with("from", before.map(|status| status.digest))
                    .with("to", file.digest.as_str())
                    .with("rules", file.rules.len());
                (!is_as_before).then_some(deed)
            }
            Err(error) => {
                let is_as_before =
                    before.as_ref().is_some_and(|status| status.error.as_deref() == Some(error.why.as_str()));
                let deed = Deed::new(Action::PolicyRefused)
                    .with("keeps", before.map(|status| status.digest))
                    .with("error", error.why.as_str());
                (!is_as_before).then_some(deed)
            }
        };
        if let Some(deed) = deed {
            self.store.transact(About::Nothing, move |tx| tx.append_audit(deed.clone(), tx.now())).await?;
            self.hold_rules(read.clone());
        }
        Ok(())
    }

    /// How the policy file is; `None` where there is none.
    pub fn policy_status(&self) -> Option<PolicyStatus> {
        self.policies.status()
    }
}

impl PolicyStatus {
    /// That of rules that hold from now on.
    pub fn of(file: &PolicyFile) -> Self {
        Self { rules: file.rules.len(), digest: file.digest.clone(), loaded_at: WallClock.now(), error: None }
    }
}
