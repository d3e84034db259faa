//! A run that is carried about: the journal of one open turn with what belongs to it, as one JSON document.
//!
//! Decisions are made on the document itself ([`RunState::answer`]): the `Answer` entries that a store would append are
//! appended here, after the same checks, and travel with it. Whoever goes on with the run finds them in the journal.

mod compact;
mod position;
mod signature;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::compact::CompactInterrupt;
pub use self::position::JournalPosition;
use super::decision::TOOL_APPROVAL;
use super::grant::Grant;
use super::id::GrantId;
use super::interrupt::{Answered, Interrupt};
use super::journal::{CodeVersion, Entry, RecordedEntry};
use super::message::ChatMessage;
use super::policy::{self, Rule, RuleSets, Rules};
use super::status::InterruptStatus;
use super::{Error, InterruptId, SessionId, StoreId, Timestamp, TurnId, answer, json};

/// The version of the document that this release writes, and the newest that it reads.
pub const VERSION: u64 = 1;

/// See the module.
#[derive(Debug, Clone, PartialEq)]
pub struct RunState {
    /// The release of hitl that wrote it.
    pub library: String,
    /// The name of the agent that was run: what its sessions call it, `MODULE:ATTR` where a server imported it.
    pub agent: String,
    /// What the agent calls itself, where that is known besides.
    pub agent_name: Option<String>,
    /// The version of the agent's code.
    pub code: CodeVersion,
    /// The store that its turn lives in, where somebody keeps one: not its address, which may be a secret.
    pub store: Option<StoreId>,
    /// Whose turn.
    pub session: SessionId,
    /// Which turn.
    pub turn: TurnId,
    /// The message that started it.
    pub message: ChatMessage,
    /// What the session remembered when it began.
    pub messages: Vec<ChatMessage>,
    /// Its journal; answers given since are the last entries.
    pub journal: Vec<RecordedEntry>,
    /// What was open when the journal was written, in order of arrival; those answered since are resolved.
    pub interrupts: Vec<Interrupt>,
    /// Decisions that hold for the rest of the run.
    pub grants: Vec<Grant>,
    /// The rules of its session.
    pub rules: Vec<Rule>,
    /// The context object of the run as the worker encoded it, if it had one.
    pub context: Option<Value>,
}

/// The document as it is read.
#[derive(Deserialize)]
struct Document {
    version: u64,
    library: String,
    agent: String,
    #[serde(default)]
    agent_name: Option<String>,
    code: CodeVersion,
    #[serde(default)]
    store: Option<StoreId>,
    session_id: SessionId,
    turn_id: TurnId,
    message: ChatMessage,
    #[serde(default)]
    messages: Vec<ChatMessage>,
    journal: Vec<RecordedEntry>,
    #[serde(default)]
    interrupts: Vec<CompactInterrupt>,
    #[serde(default)]
    grants: Vec<Grant>,
    #[serde(default)]
    rules: Vec<Rule>,
    #[serde(default)]
    context: Option<Value>,
}

/// The same as it is written.
#[derive(Serialize)]
struct WrittenDocument<'a> {
    version: u64,
    library: &'a str,
    agent: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_name: Option<&'a str>,
    code: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<StoreId>,
    session_id: SessionId,
    turn_id: TurnId,
    message: Value,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    messages: Vec<Value>,
    journal: &'a [RecordedEntry],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    interrupts: Vec<CompactInterrupt>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    grants: &'a [Grant],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    rules: &'a [Rule],
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<&'a Value>,
}

impl RunState {
    /// A state whose context stands once in it, and not at every pause.
    #[must_use]
    pub fn with_context_apart(mut self) -> Self {
        for recorded in &mut self.journal {
            if let Entry::Pause { context, .. } = &mut recorded.entry
                && context.is_some()
            {
                self.context = context.take();
            }
        }
        self
    }

    /// The journal as a store has it: with the context at the last pause.
    pub fn whole_journal(&self) -> Vec<RecordedEntry> {
        let mut journal = self.journal.clone();
        let last = journal.iter_mut().rev().find_map(|recorded| match &mut recorded.entry {
            Entry::Pause { context, .. } => Some(context),
            _ => None,
        });
        if let Some(context) = last {
            context.clone_from(&self.context);
        }
        journal
    }

    /// Reads a document.
    ///
    /// # Errors
    /// [`Error::RunStateNewer`] for one of a later format, [`Error::RunStateInvalid`] for what is none, or says two things.
    pub fn read(text: &str) -> Result<Self, Error> {
        json::check(text).map_err(|refused| Error::RunStateInvalid(refused.to_string()))?;
        // In one go, where nothing is wrong with it; else what is wrong is found step by step.
        if let Ok(document) = serde_json::from_str::<Document>(text)
            && (1..=VERSION).contains(&document.version)
        {
            return Self::of(document);
        }
        let value = serde_json::from_str(text).map_err(|error| Error::RunStateInvalid(error.to_string()))?;
        Self::read_value(value)
    }

    fn read_value(value: Value) -> Result<Self, Error> {
        let invalid = |why: &dyn std::fmt::Display| Error::RunStateInvalid(why.to_string());
        let Value::Object(members) = &value else { return Err(invalid(&"it is no JSON object")) };
        // The version first: in a later format nothing else need be as it is here.
        let version = members.get("version").and_then(Value::as_u64).ok_or_else(|| invalid(&"it has no version"))?;
        let library = members.get("library").and_then(Value::as_str).map(str::to_owned);
        if version > VERSION {
            return Err(Error::RunStateNewer { found: version, known: VERSION, library });
        }
        if version == 0 {
            return Err(invalid(&"there is no version 0"));
        }
        let document: Document = serde_json::from_value(value).map_err(|error| invalid(&error))?;
        Self::of(document)
    }

    fn of(document: Document) -> Result<Self, Error> {
        let Document {
            version: _,
            library,
            agent,
            agent_name,
            code,
            store,
            session_id: session,
            turn_id: turn,
            message,
            messages,
            journal,
            interrupts,
            grants,
            rules,
            context,
        } = document;
        check(&journal)?;
        compile(&rules)?;
        let interrupts: Vec<Interrupt> =
            interrupts.into_iter().map(|compact| compact.expand(session, turn, &journal)).collect::<Result<_, _>>()?;
        all_that_is_asked_is_there(&journal, &interrupts)?;
        Ok(Self {
            library,
            agent,
            agent_name,
            code,
            store,
            session,
            turn,
            message,
            messages,
            journal,
            interrupts,
            grants,
            rules,
            context,
        })
    }

    /// Writes the document, compact.
    ///
    /// # Errors
    /// [`Error::Internal`] for what is no JSON, which nothing that was stored is.
    pub fn write(&self) -> Result<String, Error> {
        let document = WrittenDocument {
            version: VERSION,
            library: &self.library,
            agent: &self.agent,
            agent_name: self.agent_name.as_deref(),
            code: &self.code,
            store: self.store,
            session_id: self.session,
            turn_id: self.turn,
            message: self.message.without_nulls(),
            messages: self.messages.iter().map(ChatMessage::without_nulls).collect(),
            journal: &self.journal,
            interrupts: self.interrupts.iter().map(CompactInterrupt::of).collect(),
            grants: &self.grants,
            rules: &self.rules,
            context: self.context.as_ref(),
        };
        serde_json::to_string(&document).map_err(|error| Error::Internal(error.to_string()))
    }

    /// What is open and unanswered, in order of arrival.
    pub fn pending(&self) -> impl Iterator<Item = &Interrupt> {
        self.interrupts.iter().filter(|interrupt| interrupt.is_pending())
    }

    /// Whether nothing has happened since the turn paused: to run it would change nothing.
    pub fn is_undecided(&self) -> bool {
        matches!(self.journal.last().map(|last| &last.entry), Some(Entry::Pause { .. }))
            && self.pending().next().is_some()
    }

    /// Answers interrupts: all of them, or, with an error, none. How many of the answers are new. `new_grant` is the id
    /// of the next grant that one of them makes.
    ///
    /// # Errors
    /// [`Error::NothingPending`], [`Error::UnknownInterrupt`], [`Error::DuplicateAnswer`], [`Error::InvalidAnswer`],
    /// [`Error::AlreadyResolved`], [`Error::InterruptExpired`].
    pub fn answer(
        &mut self,
        answers: Vec<(String, Value)>,
        by: Option<&str>,
        now: Timestamp,
        new_grant: fn() -> GrantId,
    ) -> Result<usize, Error> {
        let mut answered: Vec<(usize, Interrupt)> = Vec::new();
        let mut seen: Vec<InterruptId> = Vec::new();
        let rules = compile(&self.rules)?;
        for (id, value) in answers {
            let (place, interrupt) = self.find(&id)?;
            if seen.contains(&interrupt.interrupt_id) {
                return Err(Error::DuplicateAnswer(id));
            }
            seen.push(interrupt.interrupt_id);
            if let Answered::Now(resolved) = interrupt.answer(value, by, now)? {
                let standing = RuleSets { session: &rules, server: &Rules::default() };
                // Who answers nobody knows here: whoever has the document can write it.
                policy::objection(&resolved, standing, None, resolved.kind == TOOL_APPROVAL)?;
                answered.push((place, *resolved));
            }
        }
        let new = answered.len();
        for (place, resolved) in answered {
            let entry = Entry::Answer {
                interrupt_id: resolved.interrupt_id,
                value: resolved.value.clone().unwrap_or_default(),
            };
            self.journal.push(RecordedEntry { at: now, entry });
            let decision = resolved.value.as_ref().and_then(|value| answer::decision((&resolved).into(), value));
            let granted = decision.and_then(|decision| {
                Grant::new(new_grant(), resolved.scope(), &decision, by, &resolved.approvers, now)
            });
            if let Some(grant) = granted {
                self.grants.retain(|earlier| !grant.replaces(earlier));
                self.grants.push(grant);
            }
            self.interrupts[place] = resolved;
        }
        Ok(new)
    }

    /// Looks whether the interrupt that somebody named is of the type of which they take it to be.
    ///
    /// # Errors
    /// [`Error::NothingPending`], [`Error::UnknownInterrupt`], [`Error::InvalidAnswer`].
    pub fn check_type(&self, id: &str, expected: &str) -> Result<(), Error> {
        answer::check_type((&self.find(id)?.1).into(), Some(expected))
    }

    /// The interrupt that somebody named, and where it stands.
    fn find(&self, text: &str) -> Result<(usize, Interrupt), Error> {
        let unknown = || {
            if self.interrupts.is_empty() { Error::NothingPending } else { Error::UnknownInterrupt(text.to_owned()) }
        };
        let id: InterruptId = text.parse().map_err(|_| unknown())?;
        if let Some(place) = self.interrupts.iter().position(|interrupt| interrupt.interrupt_id == id) {
            return Ok((place, self.interrupts[place].clone()));
        }
        // It may have been settled before the journal was written.
        let settled = self.journal.iter().find_map(|recorded| match &recorded.entry {
            Entry::Answer { interrupt_id, .. } if *interrupt_id == id => {
                Some(Error::AlreadyResolved { resolved_by: None, resolved_at: recorded.at })
            }
            Entry::Expire { interrupt_id } if *interrupt_id == id => Some(Error::InterruptExpired(recorded.at)),
            Entry::Withdraw { interrupt_id } if *interrupt_id == id => Some(Error::InterruptCancelled),
            _ => None,
        });
        Err(settled.unwrap_or_else(unknown))
    }

    /// The state once what nobody has answered in time has expired; itself where nothing has.
    pub fn expired(&self, now: Timestamp) -> Cow<'_, Self> {
        let mut state = Cow::Borrowed(self);
        for (place, interrupt) in self.interrupts.iter().enumerate() {
            if let Some(expired) = interrupt.expire(now) {
                let entry = Entry::Expire { interrupt_id: expired.interrupt_id };
                let state = state.to_mut();
                state.journal.push(RecordedEntry { at: now, entry });
                if let Some(interrupt) = state.interrupts.get_mut(place) {
                    *interrupt = expired;
                }
            }
        }
        state
    }
}

/// Whether the journal is that of an open turn.
fn check(journal: &[RecordedEntry]) -> Result<(), Error> {
    let invalid = |why: &str| Err(Error::RunStateInvalid(why.to_owned()));
    match journal.first().map(|first| &first.entry) {
        Some(Entry::Start { .. }) => {}
        _ => return invalid("its journal does not begin with a start"),
    }
    if journal.iter().any(|recorded| matches!(recorded.entry, Entry::End { .. } | Entry::Cancel {})) {
        return invalid("its turn has ended");
    }
    Ok(())
}

/// A question that nobody can find is one that nobody can answer: its turn would wait for ever.
fn all_that_is_asked_is_there(journal: &[RecordedEntry], interrupts: &[Interrupt]) -> Result<(), Error> {
    for recorded in journal {
        if let Entry::Ask { interrupt_id: id, .. } = recorded.entry
            && interrupts.iter().all(|interrupt| interrupt.interrupt_id != id)
            && settled(journal, id).is_none()
        {
            return Err(Error::RunStateInvalid(format!("its journal asks interrupt {id}, of which it says nothing")));
        }
    }
    Ok(())
}

fn compile(rules: &[Rule]) -> Result<Rules, Error> {
    Rules::compile(rules.to_vec()).map_err(|errors| {
        let why: Vec<_> = errors.into_iter().map(|error| error.under(&["rules".into()]).to_string()).collect();
        Error::RunStateInvalid(why.join("; "))
    })
}

/// The entry that settled an interrupt, if one did.
fn settled(journal: &[RecordedEntry], id: InterruptId) -> Option<(InterruptStatus, Timestamp, Option<Value>)> {
    journal.iter().rev().find_map(|recorded| match &recorded.entry {
        Entry::Answer { interrupt_id, value } if *interrupt_id == id => {
            Some((InterruptStatus::Resolved, recorded.at, Some(value.clone())))
        }
        Entry::Expire { interrupt_id } if *interrupt_id == id => Some((InterruptStatus::Expired, recorded.at, None)),
        Entry::Withdraw { interrupt_id } if *interrupt_id == id => {
            Some((InterruptStatus::Cancelled, recorded.at, None))
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests;
