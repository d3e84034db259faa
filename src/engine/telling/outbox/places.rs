//! Who may be sent to: places for all notices that are sent at once, shared so that receivers that hang leave some to others.

use std::collections::{HashMap, HashSet};

use crate::store::upkeep::Receivers;

/// How many notices are sent at once.
pub const AT_ONCE: usize = 64;
/// How many of them to one origin: one that hangs takes no more places from the others than these.
const TO_ONE_ORIGIN: usize = 16;
/// How many of them to what only clients have named: whoever may send messages can name any number that hang.
const TO_CLIENTS: usize = 48;
/// How many of these to origins that were silent the last time.
const TO_SILENT: usize = 8;
/// How many silent origins are remembered: whoever may name receivers could have the server remember any number.
const REMEMBERED: usize = 256;

/// See the module.
#[derive(Debug, Clone, Default)]
pub struct ReceiverPlaces {
    /// The origins of the operator's own receivers; what only clients have named is told from them by a mark
    /// ([`Notice::origin`](crate::domain::notice::Notice::origin)), also where it is at one of these.
    own: HashSet<String>,
    /// How many notices are being sent to an origin.
    under_way: HashMap<String, usize>,
    /// Those that let their last try run out of time, by when that was: one notice at a time finds out whether they still do.
    silent: HashMap<String, u64>,
    /// How many tries have come to an end.
    tries: u64,
}

/// How many places are taken.
#[derive(Clone, Copy)]
struct TakenPlaces {
    /// By notices to origins that the operator has not named.
    clients: usize,
    /// By those of them to silent ones.
    silent: usize,
}

impl ReceiverPlaces {
    /// Nothing is sent yet.
    pub fn new(own: HashSet<String>) -> Self {
        Self { own, ..Self::default() }
    }

    /// Whose notices there is a place for.
    pub fn open(&self) -> Receivers {
        let taken = self.taken();
        if taken.clients >= TO_CLIENTS {
            return Receivers::Only(self.own.iter().filter(|origin| self.is_free(origin, taken)).cloned().collect());
        }
        let known: HashSet<&String> = self.under_way.keys().chain(self.silent.keys()).collect();
        Receivers::AllBut(known.into_iter().filter(|origin| !self.is_free(origin, taken)).cloned().collect())
    }

    /// Takes a place for a notice to `origin`, where there is one.
    pub fn take_free(&mut self, origin: &str) -> bool {
        let is_free = self.is_free(origin, self.taken());
        if is_free {
            self.take(origin);
        }
        is_free
    }

    /// A notice is being sent to `origin`.
    pub fn take(&mut self, origin: &str) {
        *self.under_way.entry(origin.to_owned()).or_default() += 1;
    }

    /// One that was sent to `origin` is not any more.
    pub fn leave(&mut self, origin: &str) {
        if let Some(count) = self.under_way.get_mut(origin) {
            *count -= 1;
            if *count == 0 {
                self.under_way.remove(origin);
            }
        }
    }

    /// A try at `origin` has come to an end: whether it ran out of time.
    pub fn heard_of(&mut self, origin: &str, is_silent: bool) {
        self.tries += 1;
        if !is_silent {
            self.silent.remove(origin);
            return;
        }
        self.silent.insert(origin.to_owned(), self.tries);
        if self.silent.len() > REMEMBERED
            && let Some(first) = self.silent.iter().min_by_key(|known| *known.1).map(|known| known.0.clone())
        {
            self.silent.remove(&first);
        }
    }

    fn is_free(&self, origin: &str, taken: TakenPlaces) -> bool {
        let is_own = self.own.contains(origin);
        if !is_own && taken.clients >= TO_CLIENTS {
            return false;
        }
        let count = self.under_way.get(origin).copied().unwrap_or_default();
        if self.is_silent(origin) { count == 0 && (is_own || taken.silent < TO_SILENT) } else { count < TO_ONE_ORIGIN }
    }

    fn is_silent(&self, origin: &str) -> bool {
        self.silent.contains_key(origin)
    }

    fn taken(&self) -> TakenPlaces {
        let mut taken = TakenPlaces { clients: 0, silent: 0 };
        for (origin, count) in self.under_way.iter().filter(|(origin, _)| !self.own.contains(*origin)) {
            taken.clients += count;
            taken.silent += if self.is_silent(origin) { *count } else { 0 };
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "https://operator";

    fn places() -> ReceiverPlaces {
        ReceiverPlaces::new(HashSet::from([OWN.to_owned()]))
    }

    /// How many places `origin` gets.
    fn taken(places: &mut ReceiverPlaces, origin: &str) -> usize {
        std::iter::repeat_with(|| places.take_free(origin)).take_while(|is_free| *is_free).count()
    }

    /// Origins that clients have named, and that are silent.
    fn silent(places: &mut ReceiverPlaces, count: usize) -> Vec<String> {
        let origins: Vec<String> = (0..count).map(|number| format!("http://silent-{number}")).collect();
        origins.iter().for_each(|origin| places.heard_of(origin, true));
        origins
    }

    fn shut(places: &ReceiverPlaces) -> HashSet<String> {
        match places.open() {
            Receivers::AllBut(shut) => shut.into_iter().collect(),
            only @ Receivers::Only(_) => panic!("{only:?}"),
        }
    }

    #[test]
    fn one_origin_leaves_places_to_others() {
        let mut places = places();
        assert_eq!(taken(&mut places, "http://a"), TO_ONE_ORIGIN);
        assert_eq!(shut(&places), HashSet::from(["http://a".to_owned()]));
        assert_eq!(taken(&mut places, "http://b"), TO_ONE_ORIGIN);
        places.leave("http://a");
        assert_eq!(shut(&places), HashSet::from(["http://b".to_owned()]));
        assert_eq!(taken(&mut places, "http://a"), 1);
    }

    #[test]
    fn however_many_clients_name_the_operators_own_find_places() {
        let mut places = places();
        let all: usize = (0..9).map(|number| taken(&mut places, &format!("http://client-{number}"))).sum();
        assert_eq!(all, TO_CLIENTS);
        assert_eq!(places.open(), Receivers::Only(vec![OWN.to_owned()]));
        assert_eq!(taken(&mut places, OWN), TO_ONE_ORIGIN);
        assert_eq!(places.open(), Receivers::Only(Vec::new()));
        places.leave("http://client-0");
        assert_eq!(taken(&mut places, "http://another"), 1);
    }

    #[test]
    fn what_clients_name_at_the_operators_host_takes_none_of_the_operators_places() {
        let mut places = places();
        let of_client = format!("client {OWN}");
        assert_eq!(taken(&mut places, &of_client), TO_ONE_ORIGIN);
        places.heard_of(&of_client, true);
        assert_eq!(taken(&mut places, OWN), TO_ONE_ORIGIN);
        assert_eq!(shut(&places), HashSet::from([OWN.to_owned(), of_client.clone()]));
        places.heard_of(OWN, false);
        assert!(places.is_silent(&of_client));
    }

    #[test]
    fn a_silent_origin_is_tried_one_at_a_time_until_it_answers() {
        let mut places = places();
        places.heard_of("http://a", true);
        assert_eq!(shut(&places), HashSet::new());
        assert_eq!(taken(&mut places, "http://a"), 1);
        assert_eq!(shut(&places), HashSet::from(["http://a".to_owned()]));
        places.heard_of("http://a", false);
        assert_eq!(taken(&mut places, "http://a"), TO_ONE_ORIGIN - 1);
    }

    #[test]
    fn all_that_are_silent_share_a_few_places() {
        let mut places = places();
        let origins = silent(&mut places, 20);
        places.heard_of(OWN, true);
        let all: usize = origins.iter().map(|origin| taken(&mut places, origin)).sum();
        assert_eq!(all, TO_SILENT);
        assert_eq!(shut(&places), origins.into_iter().collect());
        assert_eq!(taken(&mut places, OWN), 1, "the operator's own waits for none of them");
        assert_eq!(taken(&mut places, "http://well"), TO_ONE_ORIGIN);
    }

    #[test]
    fn not_all_that_were_ever_silent_are_remembered() {
        let mut places = places();
        let origins = silent(&mut places, REMEMBERED + 1);
        assert!(!places.is_silent(&origins[0]));
        assert!(places.is_silent(&origins[1]));
    }
}
