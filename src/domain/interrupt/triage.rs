//! Claims and snoozes. A claim keeps everybody else from answering for a while, so that two people do not work on the same
//! thing; a snooze only says that somebody will look later.

use super::Interrupt;
use crate::domain::{Error, Timestamp};

impl Interrupt {
    /// Makes it `who`'s for `seconds`; once more by the same, it is longer theirs.
    ///
    /// # Errors
    /// [`Error::InterruptClaimed`] while it is somebody else's, and those of [`Interrupt::answer`] once it cannot be
    /// answered any more.
    pub fn claim(&self, who: &str, seconds: f64, now: Timestamp) -> Result<Self, Error> {
        self.check_open(now)?;
        self.check_claim(Some(who), now)?;
        let claimed_until = Some(now.plus_seconds(seconds));
        Ok(Self { claimed_by: Some(who.to_owned()), claimed_until, ..self.clone() })
    }

    /// Makes it nobody's; `None` where it is that already. `who` may be anybody's helper, with `for_others`.
    ///
    /// # Errors
    /// Those of [`Interrupt::claim`].
    pub fn release(&self, who: Option<&str>, for_others: bool, now: Timestamp) -> Result<Option<Self>, Error> {
        self.check_open(now)?;
        if !for_others {
            self.check_claim(who, now)?;
        }
        Ok(self.claimant(now).is_some().then(|| self.clone().unclaimed()))
    }

    /// Puts it off for `seconds`.
    ///
    /// # Errors
    /// Those of [`Interrupt::answer`] once it cannot be answered any more.
    pub fn snooze(&self, who: Option<&str>, seconds: f64, now: Timestamp) -> Result<Self, Error> {
        self.check_open(now)?;
        let snoozed_until = Some(now.plus_seconds(seconds));
        Ok(Self { snoozed_by: who.map(str::to_owned), snoozed_until, ..self.clone() })
    }

    /// Puts it off no longer; `None` where it is not.
    ///
    /// # Errors
    /// Those of [`Interrupt::snooze`].
    pub fn unsnooze(&self, now: Timestamp) -> Result<Option<Self>, Error> {
        self.check_open(now)?;
        Ok(self.is_snoozed(now).then(|| self.clone().unsnoozed()))
    }

    /// # Errors
    /// [`Error::InterruptClaimed`] while it is somebody else's than `who`'s.
    pub fn check_claim(&self, who: Option<&str>, now: Timestamp) -> Result<(), Error> {
        match self.claimant(now) {
            Some((claimed_by, claimed_until)) if who != Some(claimed_by) => {
                Err(Error::InterruptClaimed { claimed_by: claimed_by.to_owned(), claimed_until })
            }
            _ => Ok(()),
        }
    }

    /// Whose it is, and until when. Nobody's once its own time is over, which nobody can hold up.
    pub fn claimant(&self, now: Timestamp) -> Option<(&str, Timestamp)> {
        let is_open = self.is_pending() && !self.is_due(now);
        let until = self.claimed_until.filter(|until| now < *until && is_open)?;
        Some((self.claimed_by.as_deref()?, until))
    }

    /// Whether somebody has put it off.
    pub fn is_snoozed(&self, now: Timestamp) -> bool {
        self.is_pending() && self.snoozed_until.is_some_and(|until| now < until)
    }

    /// As it is to be shown at `now`: without a claim or a snooze that is over.
    pub fn as_of(self, now: Timestamp) -> Self {
        let shown = if self.claimant(now).is_some() { self } else { self.unclaimed() };
        if shown.is_snoozed(now) { shown } else { shown.unsnoozed() }
    }

    /// Nobody's, and not put off.
    pub fn untriaged(self) -> Self {
        self.unclaimed().unsnoozed()
    }

    fn unclaimed(self) -> Self {
        Self { claimed_by: None, claimed_until: None, ..self }
    }

    fn unsnoozed(self) -> Self {
        Self { snoozed_by: None, snoozed_until: None, ..self }
    }

    /// Whether `next` is this one but for what an answer, a decision for always, an expiry, a withdrawal, a claim or a snooze
    /// makes of it.
    pub fn differs_in_outcome_only(&self, next: &Self) -> bool {
        let outcome = Self {
            status: next.status,
            value: next.value.clone(),
            rule: next.rule.clone(),
            resolved_by: next.resolved_by.clone(),
            resolved_at: next.resolved_at,
            claimed_by: next.claimed_by.clone(),
            claimed_until: next.claimed_until,
            snoozed_by: next.snoozed_by.clone(),
            snoozed_until: next.snoozed_until,
            ..self.clone()
        };
        outcome == *next
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use uuid::Uuid;

    use super::*;
    use crate::domain::interrupt::{Answered, Ask, Opening};
    use crate::domain::{InterruptId, SessionId, TurnId};

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    fn asked() -> Interrupt {
        let ask: Ask = serde_json::from_value(json!({"type": "question", "payload": {}, "expires_in": 1000})).unwrap();
        let nil = Uuid::nil();
        let (id, session, turn) = (InterruptId(nil), SessionId(nil), TurnId(nil));
        let opening = Opening { id, session, turn, now: at(0), default_ttl: 0.0, max_payload: 1000 };
        Interrupt::opened(ask, opening).unwrap()
    }

    fn claimed() -> Interrupt {
        asked().claim("ada", 300.0, at(10)).unwrap()
    }

    #[test]
    fn a_claim_keeps_others_out_until_it_is_over() {
        let taken = Err(Error::InterruptClaimed { claimed_by: "ada".to_owned(), claimed_until: at(310) });
        assert_eq!(claimed().claim("bob", 300.0, at(309)), taken);
        assert_eq!(claimed().check_claim(Some("bob"), at(309)), taken.clone().map(drop));
        assert_eq!(claimed().check_claim(None, at(309)), taken.map(drop));
        assert_eq!(claimed().check_claim(Some("ada"), at(309)), Ok(()));
        let theirs = claimed().claim("bob", 60.0, at(310)).unwrap();
        assert_eq!(theirs.claimant(at(311)), Some(("bob", at(370))));
    }

    #[test]
    fn a_claim_holds_nobody_up_who_comes_too_late_anyway() {
        let late = asked().claim("ada", 3000.0, at(10)).unwrap();
        assert_eq!(late.check_claim(Some("bob"), at(1000)), Ok(()), "it has expired, which is what bob is to hear");
    }

    #[test]
    fn a_claim_by_the_same_is_a_longer_one() {
        let longer = claimed().claim("ada", 300.0, at(100)).unwrap();
        assert_eq!(longer.claimant(at(399)), Some(("ada", at(400))));
    }

    #[test]
    fn only_who_has_it_releases_it_or_who_may_for_others() {
        assert!(matches!(claimed().release(Some("bob"), false, at(20)), Err(Error::InterruptClaimed { .. })));
        assert_eq!(claimed().release(Some("ada"), false, at(20)), Ok(Some(asked())));
        assert_eq!(claimed().release(Some("bob"), true, at(20)), Ok(Some(asked())));
        assert_eq!(asked().release(Some("bob"), false, at(20)), Ok(None));
        assert_eq!(claimed().release(Some("bob"), false, at(310)), Ok(None), "it is over");
    }

    #[test]
    fn what_is_snoozed_is_pending_and_anybody_can_answer_it() {
        let snoozed = asked().snooze(Some("ada"), 60.0, at(0)).unwrap();
        assert!(snoozed.is_pending() && snoozed.is_snoozed(at(59)) && !snoozed.is_snoozed(at(60)));
        assert!(matches!(snoozed.answer(json!(1), Some("bob"), at(1)), Ok(Answered::Now(_))));
        assert_eq!(snoozed.unsnooze(at(1)), Ok(Some(asked())));
        assert_eq!(snoozed.unsnooze(at(60)), Ok(None));
    }

    #[test]
    fn what_is_settled_is_neither_and_can_be_neither() {
        let triaged = claimed().snooze(None, 600.0, at(10)).unwrap();
        let Ok(Answered::Now(answered)) = triaged.answer(json!(1), Some("ada"), at(11)) else {
            panic!("it was refused")
        };
        let expired = triaged.expire(at(1000)).unwrap();
        let cancelled = triaged.cancel(at(11)).unwrap();
        for settled in [*answered, expired, cancelled] {
            assert_eq!(settled, settled.clone().untriaged());
            let refusals = [
                settled.claim("ada", 1.0, at(12)).unwrap_err(),
                settled.release(Some("ada"), true, at(12)).unwrap_err(),
                settled.snooze(None, 1.0, at(12)).unwrap_err(),
                settled.unsnooze(at(12)).unwrap_err(),
            ];
            assert!(refusals.iter().all(|error| *error == refusals[0]), "{refusals:?}");
        }
        assert_eq!(asked().claim("ada", 1.0, at(1000)), Err(Error::InterruptExpired(at(1000))));
    }

    #[test]
    fn whatever_becomes_of_it_nothing_else_of_it_is_another() {
        let triaged = claimed().snooze(None, 600.0, at(10)).unwrap();
        let Ok(Answered::Now(answered)) = triaged.answer(json!(1), Some("ada"), at(11)) else {
            panic!("it was refused")
        };
        let became = [*answered, triaged.expire(at(1000)).unwrap(), triaged.cancel(at(11)).unwrap(), triaged];
        assert!(became.iter().all(|became| asked().differs_in_outcome_only(became)), "{became:?}");
        assert!(!asked().differs_in_outcome_only(&Interrupt { agent: Some("other".to_owned()), ..asked() }));
    }

    #[test]
    fn it_is_shown_without_what_is_over() {
        let triaged = claimed().snooze(Some("bob"), 600.0, at(10)).unwrap();
        assert_eq!(triaged.clone().as_of(at(309)), triaged);
        assert_eq!(triaged.clone().as_of(at(310)), triaged.clone().unclaimed());
        assert_eq!(triaged.as_of(at(610)), asked());
    }
}
