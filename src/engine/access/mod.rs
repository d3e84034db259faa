//! Who may what: keys and sign-ins, and the rules that decide over calls.

pub mod keyring;
pub(super) mod policy;
pub mod policy_file;
pub mod pushed_policy;
pub(super) mod schemas;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::domain::Timestamp;
use crate::store::Store;
use keyring::Keyring;
use policy::Policies;
use pushed_policy::PolicySources;
use schemas::Schemas;

/// The keys, sign-ins and rules of a store's server, as they are now.
pub struct AccessControl {
    store: Arc<dyn Store>,
    keyring: Keyring,
    policies: Policies,
    /// What the rules are read from; held while what was read is taken, so that one comes after the other.
    sources: tokio::sync::Mutex<PolicySources>,
    schemas: Schemas,
    /// The engine is over: policies are followed no more.
    stopped: CancellationToken,
}

impl AccessControl {
    /// With the keys of `keyring`, and no rules yet, until `stopped`.
    pub(super) fn new(store: Arc<dyn Store>, keyring: Keyring, stopped: CancellationToken) -> Arc<Self> {
        let (policies, schemas) = (Policies::default(), Schemas::default());
        Arc::new(Self { store, keyring, policies, sources: tokio::sync::Mutex::default(), schemas, stopped })
    }

    /// Compiled schemas, and the forms made of them.
    pub(super) fn schemas(&self) -> &Schemas {
        &self.schemas
    }

    fn now(&self) -> Timestamp {
        self.store.clock().now()
    }
}
