//! What a turn says, into its journal: everything it has said so far in one transaction.

use std::mem::discriminant;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use crate::domain::audit::Deed;
use crate::domain::grant::Grant;
use crate::domain::interrupt::{Ask, Interrupt, Opening, UNKNOWN_OUTCOME};
use crate::domain::journal::{Entry, StepIdentity};
use crate::domain::policy::{self, Decided, Verdict};
use crate::domain::session::{self, Failure, Session};
use crate::domain::standing::grant_counts;
use crate::domain::told::StepEvent;
use crate::domain::{Error, FieldError, InterruptId, Timestamp, TurnId};
use crate::engine::journal::host::AfterPause;
use crate::engine::journal::others::written_before;
use crate::engine::journal::outage::Mark;
use crate::engine::journal::records::{CheckedRecord, PreparedRecord, RecordsPrecheck};
use crate::engine::journal::runs::RunOutcome;
use crate::engine::placement::live::LiveSnapshot;
use crate::engine::placement::live_turn::Pause;
use crate::engine::ports::dispatch::{AppendResults, Appended, Delivery, Record};
use crate::engine::telling::after_commit::AfterCommit;
use crate::engine::telling::metrics::DecisionSample;
use crate::engine::{Engine, clock};
use crate::faults::{self, Point};
use crate::store::about::About;
use crate::store::{StoreExt, Transaction};

/// What a batch's transaction came to.
struct BatchCommit {
    batch: AppendResults,
    after_commit: AfterCommit,
    steps: usize,
    asked: usize,
    /// How those were decided that no person was asked about.
    decided: Vec<DecisionSample>,
    /// What was told to decide, and is no decision.
    ignored: Vec<FieldError>,
    /// When the first of the interrupts opened expires.
    expires_at: Option<Timestamp>,
    pause: Option<Pause>,
    is_parked: bool,
    /// A run is to wait for people that nobody could go on with.
    cannot_wait: bool,
    /// How the run came out, where it was parked.
    outcome: Option<RunOutcome>,
    /// The first and the last of its entries.
    own: Option<(u64, u64)>,
    /// What others had written to the turn before these, and was not known here.
    found: Vec<Delivery>,
}

impl BatchCommit {
    fn new(after_commit: AfterCommit) -> Self {
        Self {
            batch: AppendResults::new(),
            after_commit,
            steps: 0,
            asked: 0,
            decided: Vec::new(),
            ignored: Vec::new(),
            expires_at: None,
            pause: None,
            is_parked: false,
            cannot_wait: false,
            outcome: None,
            own: None,
            found: Vec::new(),
        }
    }
}

/// What an attempt to store a batch came to.
enum AppendAttempt<T> {
    Stored(T),
    /// The one before has come about after all.
    CameAbout,
    /// The rules are others than those that were asked about it: nothing is written.
    RulesChanged,
}

/// A batch on its way into the journal.
struct Writing<'a> {
    engine: &'a Engine,
    tx: &'a mut dyn Transaction,
    turn: TurnId,
    epoch: u64,
    now: Timestamp,
    /// Where a word is about more than the journal; steps are not.
    session: Option<Session>,
    standing: &'a LiveSnapshot,
    looked: &'a RecordsPrecheck,
    /// Where the turn's own entries of this batch stand.
    own: Vec<u64>,
    /// Where the first of them does.
    mark: Option<Mark>,
    written: BatchCommit,
}

impl Engine {
    /// See [`crate::engine::ports::dispatch::TurnInbox::turn_append`].
    ///
    /// # Errors
    /// Those of the trait's method.
    pub async fn turn_append(
        self: &Arc<Self>,
        turn: TurnId,
        epoch: u64,
        records: Vec<Record>,
    ) -> Result<AppendResults, Error> {
        // Whose words these are: by the time that they are stored the turn may have begun anew at this epoch.
        let standing = self.standing(turn, epoch)?;
        let own = (epoch, standing.run);
        let is_at_work = records.iter().any(|record| !matches!(record, Record::Waiting { .. }));
        if is_at_work && (standing.is_paused || standing.is_held) {
            self.placement.go_on(turn, epoch);
        }
        for record in &records {
            if let Record::Started(tool) = record {
                // What it begins after is stored by now: else its turn would not have begun it.
                self.telling.tell_started(standing.session, turn, tool);
            }
        }
        if records.iter().all(|record| matches!(record, Record::Started(_))) {
            return Ok(records.iter().map(|_| Ok(None)).collect());
        }
        let words: Arc<Vec<PreparedRecord>> = Arc::new(records.into_iter().map(Into::into).collect());
        let mark = Arc::new(Mutex::new(None));
        loop {
            let looked = Arc::new(self.precheck_records(&words, &standing.rules).await?);
            let attempt = || self.append_all(turn, own, Arc::clone(&words), Arc::clone(&looked), Arc::clone(&mark));
            match self.until_stored(turn, own, attempt).await? {
                AppendAttempt::Stored(results) => return Ok(results),
                // The turn finds what it said in its journal when it begins anew.
                AppendAttempt::CameAbout => {
                    let why = "it has failed, and was stored all the same";
                    return Err(Error::StoreUnavailable(why.to_owned()));
                }
                // Each time somebody has changed the policy.
                AppendAttempt::RulesChanged => {}
            }
        }
    }

    /// One attempt to store them, which leaves a `mark` of itself. `looked` is what was found about them before.
    async fn append_all(
        self: &Arc<Self>,
        turn: TurnId,
        (epoch, run): (u64, u64),
        words: Arc<Vec<PreparedRecord>>,
        looked: Arc<RecordsPrecheck>,
        mark: Arc<Mutex<Option<Mark>>>,
    ) -> Result<AppendAttempt<AppendResults>, Error> {
        let standing = self.standing_of(turn, epoch, run)?;
        let (session, can_replay) = (standing.session, self.placement.runtime()?.replay);
        let engine = Arc::clone(self);
        faults::at(Point::EngineAppend);
        // Of the attempt before, whichever run of this one asks.
        let before = *mark.lock().unwrap_or_else(PoisonError::into_inner);
        let written = self.store.transact(About::Session(session), move |tx| {
            standing.check_stands(tx)?;
            if let Some(before) = before
                && before.came_about(tx, turn)?
            {
                return Ok(AppendAttempt::CameAbout);
            }
            if !engine.records_still_stand(&looked) {
                return Ok(AppendAttempt::RulesChanged);
            }
            let session = match words.iter().any(PreparedRecord::is_of_session) {
                true => Some(tx.session(standing.session)?.ok_or(Error::TurnNotOpen(None))?),
                false => None,
            };
            let (written, now) = (BatchCommit::new(engine.telling.after_commit()), tx.now());
            let mut writing = Writing {
                engine: &engine,
                tx,
                turn,
                epoch,
                now,
                session,
                standing: &standing,
                looked: &looked,
                own: Vec::new(),
                mark: None,
                written,
            };
            let last = words.len().saturating_sub(1);
            for (place, word) in words.iter().enumerate() {
                let outcome = match word {
                    // It went on right after that: parked here, what it said next would come from nobody.
                    PreparedRecord::Waiting { .. } if place < last => Ok(None),
                    word => writing.word(place, word, can_replay),
                };
                match outcome {
                    Err(error) if !is_refusal(&error) => return Err(error),
                    outcome => writing.written.batch.push(outcome),
                }
            }
            if let Some(first) = writing.own.first() {
                standing.check_comes_after(*first)?;
                writing.written.found = written_before(writing.tx, turn, &standing, *first)?;
            }
            if let Some(session) = writing.session.filter(|_| writing.written.asked > 0) {
                engine.telling.show(&mut writing.written.after_commit, writing.tx, session, turn)?;
            }
            // The store may say that this has failed although it has not: the attempt after it has to know.
            *mark.lock().unwrap_or_else(PoisonError::into_inner) = writing.mark;
            writing.written.own = writing.own.first().copied().zip(writing.own.last().copied());
            faults::at(Point::EngineAppendWritten);
            Ok(AppendAttempt::Stored(writing.written))
        });
        let written = match written.await? {
            AppendAttempt::Stored(written) => written,
            AppendAttempt::CameAbout => return Ok(AppendAttempt::CameAbout),
            AppendAttempt::RulesChanged => return Ok(AppendAttempt::RulesChanged),
        };
        faults::at(Point::EngineAppendCommitted);
        if let Some(own) = written.own {
            // What was appended before goes to the turn before it hears of this.
            self.placement.appended(turn, run, own, written.found);
        }
        for error in &written.ignored {
            // Not its words, nor its place, which may hold arguments.
            tracing::warn!(%session, error = error.kind, "what on_approval decided is no decision");
        }
        self.telling.counters().steps(written.steps);
        self.telling.counters().asked(written.asked);
        self.telling.counters().decided(written.decided.len());
        written.decided.into_iter().for_each(|outcome| self.telling.counters().decided_by_rule(outcome));
        if let Some(at) = written.expires_at {
            self.journal.alarm.set(at);
        }
        self.telling.run(written.after_commit);
        if written.cannot_wait {
            self.turn_failed(turn, epoch, Failure::cannot_wait()).await?;
            self.placement.stop_worker(turn, "Its run cannot wait");
        } else if let Some(pause) = written.pause {
            faults::at(Point::EnginePauseCommitted);
            if written.is_parked {
                self.host.came_out(written.outcome);
                self.is_parked(turn, epoch, pause.wake_at);
            } else {
                self.placement.pause(turn, epoch, pause);
            }
            self.pump();
        }
        Ok(AppendAttempt::Stored(written.batch))
    }
}

/// What the rules make of a question that a person is asked.
struct ByRule {
    rule: Option<String>,
    approvers: Vec<String>,
    failed: Option<String>,
}

impl ByRule {
    /// Approvers of a rule take the place of those of the tool, which are kept: an answer may let another call run.
    fn on(self, asked: Interrupt) -> Interrupt {
        let (rule, rule_failed) = (self.rule, self.failed);
        if self.approvers.is_empty() {
            return Interrupt { rule, rule_failed, ..asked };
        }
        Interrupt { rule, rule_failed, tool_approvers: asked.approvers, approvers: self.approvers, ..asked }
    }
}

/// # Errors
/// An internal one, where it was not read.
fn read(session: &Option<Session>) -> Result<&Session, Error> {
    session.as_ref().ok_or_else(|| Error::Internal("a session that nobody has read".to_owned()))
}

/// Whether the error is of one record alone, which the agent is told.
fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::PayloadTooLarge { .. } | Error::InvalidPayload(_) | Error::InvalidSchema(_))
}

impl Writing<'_> {
    fn word(&mut self, place: usize, word: &PreparedRecord, can_replay: bool) -> Result<Option<Appended>, Error> {
        match word {
            PreparedRecord::Entry(entry @ Entry::Wakes { wakes }) => {
                // Inside of a step raw I/O is where it belongs.
                let outside = wakes.iter().find(|wake| !wake.is_in_step());
                let impure_at = outside.map(|wake| wake.location.clone().unwrap_or_else(|| wake.task.clone()));
                self.append(entry)?;
                if impure_at.is_some() {
                    self.tx.note_turn(self.turn, impure_at, Vec::new())?;
                }
                Ok(None)
            }
            PreparedRecord::Entry(entry) => {
                self.written.steps += usize::from(matches!(entry, Entry::Step { .. }));
                if StepEvent::of(entry).is_none() {
                    return self.append(entry).map(Some);
                }
                self.written.after_commit.has_steps = true;
                let index = self.tx.append_told(self.turn, self.epoch, entry, self.now)?;
                Ok(Some(self.appended(index, entry)))
            }
            PreparedRecord::Told => Ok(None),
            PreparedRecord::Ask { step, ask } => {
                let looked = self.looked.about(place)?;
                self.ask(step.clone(), ask, looked).map(Some)
            }
            PreparedRecord::Withdraw { interrupt } => self.withdraw(*interrupt).map(|()| None),
            PreparedRecord::Waiting { seen, wake_at, pause } => {
                self.wait(*seen, *wake_at, pause, can_replay).map(|()| None)
            }
        }
    }

    fn append(&mut self, entry: &Entry) -> Result<Appended, Error> {
        let index = self.tx.append(self.turn, self.epoch, entry, self.now)?;
        Ok(self.appended(index, entry))
    }

    fn appended(&mut self, index: u64, entry: &Entry) -> Appended {
        self.mark.get_or_insert(Mark { index, kind: discriminant(entry) });
        self.own.push(index);
        Appended { index, at: self.now, interrupt: None, answer: None, answered_by: None }
    }

    fn ask(&mut self, step: StepIdentity, ask: &Ask, looked: &CheckedRecord) -> Result<Appended, Error> {
        let sent_by = self.tx.sender_of_turn(self.turn)?;
        let ask = Ask { approvers: self.approvers(ask)?, ..ask.clone() };
        let prevents = self.engine.settings.prevent_self_approval;
        let turn = self.turn;
        let counts = |grant: &&Grant| grant.is_for_turn(turn) && grant_counts(grant, sent_by.as_deref(), prevents);
        let grants: Vec<Grant> = read(&self.session)?.grants.iter().filter(counts).cloned().collect();
        let schema = looked.schema.clone();
        match policy::decide(&ask, &looked.ruling, &grants) {
            Verdict::Person { rule, approvers, ignored, failed } => {
                self.written.ignored.extend(ignored);
                let by_rule = ByRule { rule, approvers, failed };
                self.ask_person(step, (ask, schema), by_rule, sent_by)
            }
            Verdict::Decided(decided) => self.ask_nobody(step, (ask, schema), decided, sent_by),
        }
    }

    /// Who alone may answer, as far as no rule says otherwise. Whoever alone could let a step run is alone asked what came
    /// of it: an answer may let it run again. Of a call that nobody was asked about it is whoever the tool's last one was
    /// for, since those may have decided about later ones too. Code may ask in the name of another agent than its own: where
    /// none was this one's, it is whoever the last one about a tool of that name was for.
    fn approvers(&self, ask: &Ask) -> Result<Vec<String>, Error> {
        if ask.kind != UNKNOWN_OUTCOME || !ask.approvers.is_empty() {
            return Ok(ask.approvers.clone());
        }
        for is_about in
            [Interrupt::is_about_the_call_of, Interrupt::is_about_the_tool_of, Interrupt::is_about_the_name_of]
        {
            if let Some(asked) = self.tx.last_with_approvers(self.turn, &|asked| is_about(asked, ask))? {
                return Ok(asked.approvers);
            }
        }
        Ok(Vec::new())
    }

    fn opening(&self, max_payload: usize) -> Opening {
        Opening {
            id: clock::interrupt_id(),
            session: self.standing.session,
            turn: self.turn,
            now: self.now,
            default_ttl: self.engine.settings.interrupt_ttl,
            max_payload,
        }
    }

    fn ask_person(
        &mut self,
        step: StepIdentity,
        (ask, schema): (Ask, Result<Option<Arc<Value>>, Error>),
        by_rule: ByRule,
        sent_by: Option<String>,
    ) -> Result<Appended, Error> {
        let opening = self.opening(self.engine.settings.max_payload);
        let id = opening.id;
        // Checked before anything is written: a refused ask leaves nothing behind.
        let interrupt = by_rule.on(Interrupt { sent_by, ..Interrupt::open(ask, schema, opening)? });
        let appended = self.append(&Entry::Ask { step, interrupt_id: id })?;
        self.tx.insert_interrupt(&interrupt)?;
        self.written.after_commit.tell_of(self.tx, read(&self.session)?, &interrupt, self.now)?;
        self.change(session::Event::InterruptOpened { turn: self.turn, interrupt: id })?;
        self.written.asked += 1;
        self.written.expires_at = match (self.written.expires_at, interrupt.expires_at) {
            (Some(first), Some(at)) => Some(first.min(at)),
            (first, at) => first.or(at),
        };
        Ok(Appended { interrupt: Some(id), ..appended })
    }

    /// The question finds its answer there: both are written at once, and nobody is interrupted. What no person has to
    /// look at may be of any size.
    fn ask_nobody(
        &mut self,
        step: StepIdentity,
        (ask, schema): (Ask, Result<Option<Arc<Value>>, Error>),
        decided: Decided,
        sent_by: Option<String>,
    ) -> Result<Appended, Error> {
        let Decided { decision, rule, by, failed } = decided;
        let opened = Interrupt::open(ask, schema, self.opening(usize::MAX))?;
        let interrupt = Interrupt { expires_at: None, sent_by, rule_failed: failed, ..opened };
        let (id, value) = (interrupt.interrupt_id, decision.to_value());
        let appended = self.append(&Entry::Ask { step, interrupt_id: id })?;
        let index = self.append(&Entry::Answer { interrupt_id: id, value: value.clone() })?.index;
        if rule != policy::DEFAULT {
            let interrupt = interrupt.decided(&decision, rule, by.clone(), self.now);
            self.tx.insert_interrupt(&interrupt)?;
            self.written.after_commit.tell_of(self.tx, read(&self.session)?, &interrupt, self.now)?;
            let grant = Grant::new(
                clock::grant_id(),
                interrupt.scope(),
                &decision,
                by.as_deref(),
                &interrupt.approvers,
                self.now,
            );
            if let Some(grant) = grant.map(|grant| grant.ends_with(self.turn)) {
                self.written.after_commit.record(self.tx, Deed::granted(&grant, self.standing.session), self.now)?;
                let session = read(&self.session)?.granted(grant, self.now);
                self.tx.update_session(&session)?;
                self.session = Some(session);
            }
            self.written.decided.push(DecisionSample::of(&interrupt));
        }
        Ok(Appended { interrupt: Some(id), answer: Some((index, value)), answered_by: by, ..appended })
    }

    /// The task that asked was cancelled: the interrupt leaves the list. Nothing happens where it is settled already.
    fn withdraw(&mut self, id: InterruptId) -> Result<(), Error> {
        let of_turn = self.tx.interrupt(id)?.filter(|interrupt| interrupt.turn_id == self.turn);
        let Some(cancelled) = of_turn.and_then(|interrupt| interrupt.cancel(self.now)) else { return Ok(()) };
        self.append(&Entry::Withdraw { interrupt_id: id })?;
        self.tx.update_outcome(&cancelled)?;
        self.written.after_commit.tell_of(self.tx, read(&self.session)?, &cancelled, self.now)?;
        self.change(session::Event::InterruptClosed { turn: self.turn, interrupt: id })
    }

    fn change(&mut self, event: session::Event) -> Result<(), Error> {
        self.session = Some(self.written.after_commit.change(self.tx, read(&self.session)?, event, self.now)?);
        Ok(())
    }

    /// The turn awaits nothing but people and timers: it is paused, unless something has come that it has not seen.
    fn wait(
        &mut self,
        seen: Option<u64>,
        wake_at: Option<Timestamp>,
        pause: &Entry,
        can_replay: bool,
    ) -> Result<(), Error> {
        // What its order brought along it had before it said anything.
        let seen = seen.max(self.standing.known.checked_sub(1));
        let later = self.tx.journal_after(self.turn, seen)?;
        let first = seen.map_or(0, |seen| seen + 1);
        let overtaken = (first..).zip(&later).any(|(index, recorded)| match recorded.entry {
            Entry::Answer { .. } | Entry::Expire { .. } => true,
            Entry::Timer { .. } | Entry::Taken { .. } => !self.own.contains(&index),
            _ => false,
        });
        if overtaken {
            return Ok(());
        }
        let asks = !read(&self.session)?.pending().is_empty();
        let something_wakes_it = wake_at.is_some() || asks;
        let index = self.append(pause)?.index;
        let pause = Pause { index, wake_at, can_be_parked: can_replay && something_wakes_it };
        let after_pause = self.engine.host.after_pause(asks, can_replay);
        self.written.cannot_wait = after_pause == AfterPause::Fails;
        if pause.can_be_parked && after_pause == AfterPause::IsParked {
            self.tx.park_turn(self.turn, self.epoch, wake_at, self.standing.worked_ms())?;
            self.written.is_parked = true;
            self.written.outcome = self.engine.host.outcome(self.tx, self.standing.session, self.turn)?;
            faults::at(Point::EngineParkedAtOnce);
        }
        self.written.pause = Some(pause);
        Ok(())
    }
}
