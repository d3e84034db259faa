//! A turn that was claimed and is on its way to a worker, from inside the transaction that claims it on.

use std::sync::Arc;
use std::time::Duration;

use crate::domain::TurnId;
use crate::engine::access::policy::OwnRules;
use crate::engine::placement::Placement;
use crate::engine::ports::dispatch::TurnOrder;

/// A turn that was claimed; void when it is dropped, as it is when the transaction around it fails.
pub struct TurnClaim {
    order: Option<TurnOrder>,
    worked: Duration,
    turn: TurnId,
    epoch: u64,
    placement: Arc<Placement>,
}

impl TurnClaim {
    /// From here on answers find the turn. `rules` are those of its session; `promotions` is what the transaction reads.
    pub(in crate::engine) fn new(
        placement: &Arc<Placement>,
        order: TurnOrder,
        promotions: u64,
        rules: Arc<OwnRules>,
        worked: Duration,
    ) -> Self {
        placement.claim(order.turn, order.epoch, promotions, rules);
        let (turn, epoch, placement) = (order.turn, order.epoch, Arc::clone(placement));
        Self { order: Some(order), worked, turn, epoch, placement }
    }

    /// At which epoch.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The order; from here on the turn is on its way.
    pub fn into_order(mut self) -> Option<(TurnOrder, Duration)> {
        Some((self.order.take()?, self.worked))
    }
}

impl Drop for TurnClaim {
    fn drop(&mut self) {
        if self.order.is_some() {
            self.placement.drop_claim(self.turn, self.epoch);
            // Possibly on the store's own thread, which starts nothing.
            self.placement.freed.notify_one();
        }
    }
}
