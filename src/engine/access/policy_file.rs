//! The policies of a server, as far as the engine has to do with them: their rules hold once the audit tells of them. What
//! reads the file of `--policy`, and sees that it has changed, is behind a port. What cannot be read changes nothing.

use std::fmt;
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

/// Where a policy is from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicySource {
    /// The file of `--policy`.
    File(PathBuf),
    /// The store, where it was pushed.
    Store,
}

impl PolicySource {
    /// The word of it.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::File(_) => "file",
            Self::Store => "store",
        }
    }
}

impl fmt::Display for PolicySource {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(text, "{}", path.display()),
            Self::Store => text.write_str("the store"),
        }
    }
}

/// Why a policy gives no rules.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the policy in {from} cannot be used: {why}")]
pub struct PolicyError {
    /// Which. No `source`, which is another error for those who look into one.
    pub from: PolicySource,
    /// What is wrong; with the line where it is the text.
    pub why: String,
    /// What of it is at fault.
    pub fault: PolicyFault,
}

/// What of a policy is at fault: for what there is to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyFault {
    /// Its file is not there.
    Missing,
    /// Its file is not for whoever reads it.
    Forbidden,
    /// What is there is no file of text.
    NoText,
    /// What it says.
    Rules,
}

impl PolicyError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self.fault {
            PolicyFault::Missing => "a path is looked for from the working directory",
            PolicyFault::Forbidden => {
                "let the user that this runs as read the file, and enter the directories above it"
            }
            PolicyFault::NoText => "a policy is a file of text, in UTF-8",
            PolicyFault::Rules if self.why.contains(": when: ") => {
                "`when` is an expression of CEL, such as args.amount > 10 && args.to == 'ada': == compares, && is and, || is or"
            }
            PolicyFault::Rules => {
                "a rule is [[rule]], and lines such as name = \"pay\", effect = \"ask\" (or allow, deny), tool = \"pay_*\""
            }
        }
    }
}

/// What a policy says.
#[derive(Debug, Clone)]
pub struct LoadedPolicy {
    /// Its rules.
    pub rules: Rules,
    /// The digest of its text: `sha256:` and what `sha256sum` says.
    pub digest: String,
    /// Where it is from.
    pub source: PolicySource,
}

/// How the policy of a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyStatus {
    /// How many rules hold.
    pub rules: usize,
    /// Of the policy that they are from; `None` where none could be read yet.
    pub digest: Option<String>,
    /// Where that is from.
    pub source: PolicySource,
    /// Since when.
    pub loaded_at: Timestamp,
    /// Why the policy as it is now does not count; the rules are those from before.
    pub error: Option<String>,
}

/// Where the rules of the server come from. They may change while it runs.
pub trait RulesSource: Send + 'static {
    /// Resolves when what it says has changed and settled.
    fn changed(&mut self) -> BoxFuture<'_, Result<LoadedPolicy, PolicyError>>;
}

impl AccessControl {
    /// Has the rules of `file` hold, and from then on those that `source` has instead, until the engine is over, or for as
    /// long as none is pushed.
    ///
    /// # Errors
    /// The store's: the audit tells which rules hold.
    pub async fn follow_policy(self: &Arc<Self>, file: LoadedPolicy, source: impl RulesSource) -> Result<(), Error> {
        self.file_read(&Ok(file)).await?;
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
            while let Err(error) = self.file_read(&read).await {
                tracing::error!(%error, "the policy file was read, but cannot be told to the audit; trying again");
                tokio::time::sleep(STORE_PAUSE).await;
            }
        }
    }

    /// Has what was read of a policy hold, once the audit tells of it.
    pub(super) async fn take_policy(&self, read: &Result<LoadedPolicy, PolicyError>) -> Result<(), Error> {
        let before = self.policies.status();
        let deed = match read {
            Ok(policy) => {
                let is_as_before = before.as_ref().is_some_and(|status| status.is_of(policy));
                let deed = Deed::new(Action::PolicyLoaded)
                    .with("from", before.and_then(|status| status.digest))
                    .with("to", policy.digest.as_str())
                    .with("source", policy.source.as_str())
                    .with("rules", policy.rules.len());
                (!is_as_before).then_some(deed)
            }
            Err(error) => {
                let is_as_before =
                    before.as_ref().is_some_and(|status| status.error.as_deref() == Some(error.why.as_str()));
                let deed = Deed::new(Action::PolicyRefused)
                    .with("keeps", before.and_then(|status| status.digest))
                    .with("source", error.from.as_str())
                    .with("error", error.why.as_str());
                (!is_as_before).then_some(deed)
            }
        };
        if let Some(deed) = deed {
            self.tell(deed).await?;
            self.use_rules(read.clone());
        }
        Ok(())
    }

    /// Has no rules of the server hold, once the audit tells of it.
    pub(super) async fn drop_policy(&self) -> Result<(), Error> {
        let Some(before) = self.policies.status() else { return Ok(()) };
        self.tell(Deed::new(Action::PolicyLoaded).with("from", before.digest).with("rules", 0)).await?;
        self.drop_rules();
        Ok(())
    }

    async fn tell(&self, deed: Deed) -> Result<(), Error> {
        self.store.transact(About::Nothing, move |tx| tx.append_audit(deed.clone(), tx.now())).await
    }

    /// How the policy is; `None` where there is none.
    pub fn policy_status(&self) -> Option<PolicyStatus> {
        self.policies.status()
    }
}

impl PolicyStatus {
    /// That of rules that hold from now on.
    pub fn of(policy: &LoadedPolicy) -> Self {
        Self {
            rules: policy.rules.len(),
            digest: Some(policy.digest.clone()),
            source: policy.source.clone(),
            loaded_at: WallClock.now(),
            error: None,
        }
    }

    /// That of a policy that cannot be read, where there was none before.
    pub fn unread(error: &PolicyError) -> Self {
        let (source, error) = (error.from.clone(), Some(error.why.clone()));
        Self { rules: 0, digest: None, source, loaded_at: WallClock.now(), error }
    }

    /// Whether the rules of `policy` hold already.
    fn is_of(&self, policy: &LoadedPolicy) -> bool {
        self.digest.as_ref() == Some(&policy.digest) && self.source == policy.source && self.error.is_none()
    }
}
