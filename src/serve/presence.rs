//! What a server does beside another one that has its store, and after one has taken its place.

use std::convert::Infallible;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::server;
use crate::store::presence::Presence;
use crate::supervisor::Supervisor;

/// How long a store is waited for before whoever asks is told so.
const LONG_START: Duration = Duration::from_secs(1);

/// Answers whoever asks meanwhile, once it takes longer than a start does.
pub async fn stand_by(listener: &TcpListener) -> Infallible {
    tokio::time::sleep(LONG_START).await;
    let listener = listener.as_fd().try_clone_to_owned().map(std::net::TcpListener::from);
    match listener.and_then(TcpListener::from_std) {
        Ok(listener) => server::stand_by(listener).await,
        Err(error) => {
            tracing::warn!("nobody is answered while this server stands by: {error}");
            std::future::pending().await
        }
    }
}

/// Does what a server has to that others may take for dead: its workers are gone before they do, and no other one begins a
/// turn. One that was buried ends.
pub async fn obey(
    mut presence: watch::Receiver<Presence>,
    supervisor: Option<Arc<Supervisor>>,
    over: CancellationToken,
) {
    let kill_workers = || supervisor.as_ref().map_or((), |supervisor| supervisor.kill_workers());
    loop {
        match *presence.borrow_and_update() {
            Presence::Acts => supervisor.iter().for_each(|supervisor| supervisor.go_on()),
            Presence::CutOff => kill_workers(),
            Presence::Dead => {
                kill_workers();
                over.cancel();
                return;
            }
        }
        tokio::select! {
            changed = presence.changed() => if changed.is_err() { return },
            () = over.cancelled() => return,
        }
    }
}
