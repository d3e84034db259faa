//! What a turn has said in one go.

use tokio::sync::OwnedSemaphorePermit;

use super::frames::Word;
use super::seat::Seat;
use super::seats::ReceivedWord;
use crate::engine::ports::dispatch::Record;

/// Records that go to the store together at most, so that no transaction keeps others waiting for long.
pub const MOST: usize = 256;

/// See the module.
pub struct Batch {
    /// The records, in order.
    pub records: Vec<Record>,
    /// The call that each is to be acknowledged under.
    pub calls: Vec<Option<u64>>,
    /// Where the turn waits for people and timers after them: what it has received of its journal by then.
    pub waits: Option<Option<u64>>,
    /// What they take until they are stored.
    pub rooms: Vec<OwnedSemaphorePermit>,
}

impl Batch {
    /// A record, and those that the worker has said right after it.
    pub fn collect(seat: &mut Seat, call: Option<u64>, record: Record, room: Option<OwnedSemaphorePermit>) -> Self {
        let mut batch = Self { records: Vec::new(), calls: Vec::new(), waits: None, rooms: Vec::new() };
        batch.add(call, record, room);
        while batch.records.len() < MOST {
            let is_record = |word: &Word| matches!(word, Word::Record { .. });
            let Some(ReceivedWord { word: Word::Record { call, record }, room }) = seat.said_already(is_record) else {
                break;
            };
            batch.add(call, record, room);
        }
        batch
    }

    fn add(&mut self, call: Option<u64>, record: Record, room: Option<OwnedSemaphorePermit>) {
        self.waits = match record {
            Record::Waiting { seen, .. } => Some(seen),
            _ => None,
        };
        self.records.push(record);
        self.calls.push(call);
        self.rooms.extend(room);
    }
}
