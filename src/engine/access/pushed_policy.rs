//! The policy that is in the store, for all servers on it: pushed and removed by a command, and read anew by each server that
//! hears that something has changed. While there is one, no file of `--policy` counts.

use std::path::PathBuf;

use crate::domain::Error;
use crate::domain::access::Actor;
use crate::domain::audit::{Action, Deed};
use crate::domain::policy::{CheckedPolicy, PolicyChange, PushedPolicy};
use crate::engine::access::AccessControl;
use crate::engine::access::policy_file::{LoadedPolicy, PolicyError, PolicyFault, PolicySource};
use crate::store::about::About;
use crate::store::{Store, StoreExt};

/// What the rules of a server are read from.
#[derive(Debug, Default)]
pub struct PolicySources {
    /// What the file of `--policy` said last, if there is one.
    file: Option<Result<LoadedPolicy, PolicyError>>,
    /// What was pushed, as it was taken last.
    pushed: Option<PushedPolicy>,
}

/// Why a server does not begin with the policy that was pushed.
#[derive(Debug, thiserror::Error)]
pub enum PushedPolicyError {
    /// It was told of another one.
    #[error("--policy: the store has a policy too, with the digest {digest}, and only one of them can hold")]
    Two {
        /// The file.
        file: PathBuf,
        /// Of the one in the store.
        digest: String,
    },
    /// This release cannot read it.
    #[error(transparent)]
    Unusable(#[from] PolicyError),
    /// The store's.
    #[error(transparent)]
    Store(#[from] Error),
}

impl PushedPolicyError {
    /// What to do about it; `None` where that is for whoever keeps the store to find out.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Two { file, .. } => Some(format!(
                "leave out --policy, for the one in the store to hold, or take that out with `hitl policy remove`, for {} to \
                 hold; `hitl policy show` prints it",
                file.display()
            )),
            Self::Unusable(_) => Some(
                "push one that this release can read (`hitl policy push FILE`), or start the release that pushed it"
                    .to_owned(),
            ),
            Self::Store(_) => None,
        }
    }
}

/// Puts a policy into a store, for `actor`, in the place of the one that is there: as it is there now, and whether it is
/// another one than before. The same text once more changes nothing.
///
/// # Errors
/// The store's.
pub async fn push(store: &dyn Store, policy: CheckedPolicy, actor: &Actor) -> Result<(PushedPolicy, bool), Error> {
    let actor = actor.clone();
    store
        .transact(About::Access, move |tx| {
            let before = tx.pushed_policy()?;
            let next = policy.pushed(actor.name(), tx.now());
            if let Some(before) = before.as_ref().filter(|before| before.text == next.text && before.rules().is_ok()) {
                return Ok((before.clone(), false));
            }
            tx.change_policy(&PolicyChange::Pushed(next.clone()))?;
            let deed = Deed::new(Action::PolicyPushed)
                .by(actor.name(), actor.address)
                .with("from", before.map(|before| before.digest))
                .with("to", next.digest.as_str())
                .with("rules", policy.rules());
            tx.append_audit(deed, next.pushed_at)?;
            Ok((next, true))
        })
        .await
}

/// Takes the policy out of a store, for `actor`: the one that was there.
///
/// # Errors
/// The store's.
pub async fn remove(store: &dyn Store, actor: &Actor) -> Result<Option<PushedPolicy>, Error> {
    let actor = actor.clone();
    store
        .transact(About::Access, move |tx| {
            let Some(before) = tx.pushed_policy()? else { return Ok(None) };
            tx.change_policy(&PolicyChange::Removed)?;
            let deed = Deed::new(Action::PolicyRemoved).by(actor.name(), actor.address);
            tx.append_audit(deed.with("from", before.digest.as_str()), tx.now())?;
            Ok(Some(before))
        })
        .await
}

impl AccessControl {
    /// Has the policy that was pushed hold, where there is one, before anything is served. `file` is that of `--policy`.
    ///
    /// # Errors
    /// [`PushedPolicyError`]. Nothing holds then, and the audit tells nothing.
    pub async fn begin_with_pushed(&self, file: Option<PathBuf>) -> Result<(), PushedPolicyError> {
        let mut sources = self.sources.lock().await;
        let Some(pushed) = self.store.query(|reader| reader.pushed_policy()).await? else { return Ok(()) };
        if let Some(file) = file {
            return Err(PushedPolicyError::Two { file, digest: pushed.digest });
        }
        let policy = load(&pushed).await??;
        self.take_policy(&Ok(policy)).await?;
        sources.pushed = Some(pushed);
        Ok(())
    }

    /// The file of `--policy` was read: it holds where nothing was pushed.
    pub(in crate::engine) async fn file_read(&self, read: &Result<LoadedPolicy, PolicyError>) -> Result<(), Error> {
        let mut sources = self.sources.lock().await;
        sources.file = Some(read.clone());
        if sources.pushed.is_some() {
            tracing::warn!("the file of --policy was read, but the policy in the store holds and not the file");
            return Ok(());
        }
        self.take_policy(read).await
    }

    /// Reads anew what was pushed, and has it hold where it is another policy than before; where it was removed, the file of
    /// `--policy` holds again, if there is one.
    ///
    /// # Errors
    /// The store's; what was read holds no sooner than the audit tells of it.
    pub(in crate::engine) async fn follow_pushed(&self) -> Result<(), Error> {
        let mut sources = self.sources.lock().await;
        let there = self.store.query(|reader| reader.pushed_policy()).await?;
        if there == sources.pushed {
            return Ok(());
        }
        match (&there, &sources.file) {
            (Some(pushed), file) => {
                if file.is_some() {
                    tracing::warn!(
                        "a policy was pushed: it holds, and not the file of --policy; a start with both is refused"
                    );
                }
                self.take_policy(&load(pushed).await?).await?;
            }
            (None, Some(file)) => self.take_policy(file).await?,
            (None, None) => self.drop_policy().await?,
        }
        sources.pushed = there;
        Ok(())
    }
}

/// Compiles what was pushed, apart: it may take its time.
async fn load(pushed: &PushedPolicy) -> Result<Result<LoadedPolicy, PolicyError>, Error> {
    let (pushed, source) = (pushed.clone(), PolicySource::Store);
    let read = move || match pushed.rules() {
        Ok(rules) => Ok(LoadedPolicy { rules, digest: pushed.digest, source }),
        Err(why) => Err(PolicyError { from: source, why, fault: PolicyFault::Rules }),
    };
    tokio::task::spawn_blocking(read).await.map_err(|error| Error::Internal(error.to_string()))
}
