//! From an order to a worker that has it.

use std::sync::Arc;

use super::Supervisor;
use super::frames::{self, ToWorker};
use super::pool::{Lease, LeaseError};
use super::runtime;
use super::seat::Seat;
use crate::domain::session::Failure;
use crate::engine::ports::dispatch::{Lost, TurnOrder};
use crate::faults::{self, Point};

/// Why no worker has the turn.
pub enum TakeError {
    /// None can run it.
    Failed(Failure),
    /// None can be had.
    Lost(Lost),
}

/// Waits for a worker and gives it the turn. Dropped before its end, the worker has heard nothing of the turn.
pub async fn take(supervisor: &Arc<Supervisor>, order: TurnOrder) -> Result<(Seat, Lease), TakeError> {
    let frame = frames::encode(&ToWorker::turn(&order, supervisor.limits.max_payload, Some(supervisor.limits.hold)))
        .map_err(|violation| {
            let message = format!("The session is too large for a worker: {violation}");
            TakeError::Failed(Failure::new("turn_too_large", message))
        })?;
    loop {
        let mut lease = supervisor.lease(order.alone).await.map_err(|refused| {
            TakeError::Lost(match refused {
                LeaseError::NoWorker => Lost::Exited { message: Failure::worker_exited().message },
                LeaseError::Stopping => Lost::Stopping,
            })
        })?;
        if !supervisor.may_begin().await {
            return Err(TakeError::Lost(Lost::Stopping));
        }
        let code = lease.worker().map_or("", |worker| worker.code());
        if runtime::recorded(&order.journal).is_some_and(|recorded| recorded != code) {
            // Who reads the journal has to know whose code wrote it. Workers that each import the agent may differ.
            if supervisor.known.runs(code) {
                return Err(TakeError::Lost(Lost::Outdated));
            }
            supervisor.replace(lease);
            continue;
        }
        let pinned_to = supervisor.known.pins().then_some(code);
        let refusal = lease.worker().and_then(|worker| runtime::refusal(&order.journal, worker.python(), pinned_to));
        if let Some(failure) = refusal {
            return Err(TakeError::Failed(failure));
        }
        let Some(seat) = lease.worker().and_then(|worker| Seat::take(worker, order.turn, order.session)) else {
            supervisor.discard(lease);
            continue;
        };
        faults::at(Point::SupervisorTake);
        seat.worker().begin(frame, order.session).await;
        faults::at(Point::SupervisorTaken);
        lease.mark_used();
        supervisor.refill();
        return Ok((seat, lease));
    }
}
