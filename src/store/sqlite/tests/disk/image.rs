//! What a disk holds after a power cut.

use std::collections::BTreeMap;
use std::path::Path;

use super::shim::Change;

/// The unit in which a disk writes.
const SECTOR: usize = 512;

/// Chance with a seed, the same in every run.
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }

    pub(crate) fn flip(&mut self) -> bool {
        self.below(2) == 0
    }
}

#[derive(Default)]
struct FileImage {
    /// What is on the disk; `None` where no file of that name is.
    synced: Option<Vec<u8>>,
    /// What is still on its way, in order.
    pending: Vec<Change>,
}

/// A disk that is told every change.
#[derive(Default)]
pub(crate) struct Image {
    files: BTreeMap<String, FileImage>,
}

impl Image {
    /// Adds an empty file, as if it had been there all the time.
    pub(crate) fn add_empty(&mut self, name: &str) {
        self.files.insert(name.to_owned(), FileImage { synced: Some(Vec::new()), pending: Vec::new() });
    }

    /// Takes a change in. Whether what is on the disk for sure is different now.
    pub(crate) fn apply(&mut self, name: &str, change: &Change) -> bool {
        let file = self.files.entry(name.to_owned()).or_default();
        match change {
            Change::Acknowledged(_) => false,
            Change::Sync => {
                for change in std::mem::take(&mut file.pending) {
                    apply(&mut file.synced, &change);
                }
                true
            }
            Change::FailedSync => {
                file.pending.clear();
                false
            }
            Change::Delete { is_synced: true } => {
                file.pending.clear();
                file.synced = None;
                true
            }
            other => {
                file.pending.push(other.clone());
                false
            }
        }
    }

    /// Writes the files into `directory` as a power cut would leave them: with everything that was synced; of the rest
    /// nothing, or with `chance` whatever sectors had just been written.
    pub(crate) fn cut(&self, directory: &Path, mut chance: Option<&mut Chance>) {
        for (name, file) in &self.files {
            let mut contents = file.synced.clone();
            if let Some(chance) = chance.as_deref_mut() {
                for change in &file.pending {
                    let is_ordered = matches!(change, Change::Create | Change::Delete { .. });
                    if is_ordered && chance.flip() {
                        // What follows went into a file that never got its name, or never lost it.
                        break;
                    }
                    apply_partly(&mut contents, change, chance);
                }
            }
            let path = directory.join(name);
            match contents {
                Some(contents) => std::fs::write(path, contents).unwrap(),
                None => drop(std::fs::remove_file(path)),
            }
        }
    }
}

fn apply(contents: &mut Option<Vec<u8>>, change: &Change) {
    match change {
        Change::Create => drop(contents.get_or_insert_default()),
        Change::Delete { .. } => *contents = None,
        Change::Write { offset, data } => put(contents.get_or_insert_default(), *offset as usize, data),
        Change::Truncate { length } => contents.get_or_insert_default().resize(*length as usize, 0),
        Change::Sync | Change::FailedSync | Change::Acknowledged(_) => {}
    }
}

fn apply_partly(contents: &mut Option<Vec<u8>>, change: &Change, chance: &mut Chance) {
    match change {
        Change::Write { offset, data } => {
            let contents = contents.get_or_insert_default();
            let mut at = *offset as usize;
            let mut rest = data.as_slice();
            while !rest.is_empty() {
                let (sector, after) = rest.split_at(rest.len().min(SECTOR - at % SECTOR));
                if chance.flip() {
                    put(contents, at, sector);
                }
                at += sector.len();
                rest = after;
            }
        }
        Change::Truncate { .. } if chance.flip() => {}
        other => apply(contents, other),
    }
}

fn put(contents: &mut Vec<u8>, offset: usize, data: &[u8]) {
    let end = offset + data.len();
    if contents.len() < end {
        contents.resize(end, 0);
    }
    contents[offset..end].copy_from_slice(data);
}
