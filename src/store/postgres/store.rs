//! A store in a database, for those who change it and for those who only look.

use std::sync::Arc;

use tokio::runtime::Handle;

use super::doorbell::PostgresDoorbell;
use super::servers::PostgresServers;
use super::{PgAddress, PostgresBackend};
use crate::domain::cluster::Timings;
use crate::faults;
use crate::store::Store;
use crate::store::open_error::{OpenError, ServerTrouble};
use crate::store::shared::doorbell::Doorbell;
use crate::store::shared::membership::{Admission, JoinError, Membership};
use crate::store::shared::servers::{ServerKind, ServerRole, ServerRow};
use crate::store::shared::{SharedStore, StoreAccess};

/// Opens the store at `address` for somebody who changes it, as one of those who do; their work is done by the runtime that
/// this is called on. Makes the schema where there is none.
///
/// # Errors
/// [`OpenError::Server`]; [`ServerTrouble::InUse`] where `admission` does not wait.
pub async fn join(
    address: &PgAddress,
    kind: ServerKind,
    role: ServerRole,
    admission: Admission,
) -> Result<SharedStore<PostgresBackend>, OpenError> {
    let backend = PostgresBackend::connect(address).await?;
    let rows = Arc::new(PostgresServers::beside(address.clone(), backend.pool()));
    let timings = Timings::USUAL.faster(faults::cluster_speed());
    let joined = Membership::join(rows, ServerRow::of_this_process(kind, role), admission, timings).await;
    let membership = joined.map_err(|error| refused(address, error))?;
    backend.commits_for(membership.id());
    let clock = backend.clock();
    // Whoever runs one turn, or changes keys, has nothing to hear.
    let bell = (kind == ServerKind::Server)
        .then(|| Arc::new(PostgresDoorbell::start(address.clone(), backend.pool(), &membership)) as Arc<dyn Doorbell>);
    let store = SharedStore::ringing(backend, StoreAccess::Member(membership), bell, clock, Handle::current());
    // What cannot be read now is missed by everything else too.
    if kind == ServerKind::Server && store.upkeep().outbox_figures().await.is_ok_and(|figures| figures.is_held) {
        tracing::warn!(%address, "this database was restored from another one: no notice goes out before hitl store adopt");
    }
    Ok(store)
}

/// Opens the store that is at `address` for somebody who only reads, whoever has it.
///
/// # Errors
/// [`OpenError::Server`].
pub async fn read_only(address: &PgAddress) -> Result<SharedStore<PostgresBackend>, OpenError> {
    let backend = PostgresBackend::connect_to_read(address).await?;
    let clock = backend.clock();
    Ok(SharedStore::new(backend, StoreAccess::Reader, clock, Handle::current()))
}

fn refused(address: &PgAddress, error: JoinError) -> OpenError {
    let trouble = match error {
        JoinError::Occupied(other) => ServerTrouble::InUse {
            is_server: other.row.kind == ServerKind::Server,
            host: other.row.host,
            pid: other.row.pid,
        },
        JoinError::Unavailable(error) => ServerTrouble::Unreachable(error.to_string()),
    };
    OpenError::Server { address: address.to_string(), trouble }
}
