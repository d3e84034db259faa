//! What may take its time about answers (schemas, the rules' expressions) is done apart from the transaction that
//! writes them, on what stands in the store at that moment. The transaction takes what was found only where all of it
//! still stands; else it is looked at again. Most answers are small, and neither a schema nor an expression is asked about
//! them: those the transaction looks at itself, which saves a read.

use std::collections::{HashMap, HashSet};
use std::num::NonZero;
use std::sync::{Arc, LazyLock};

use serde_json::Value;

use crate::domain::access::Actor;
use crate::domain::answer::{self, AnswerTerms, Valid};
use crate::domain::decision::{DecisionKind, TOOL_APPROVAL};
use crate::domain::error::LocSegment;
use crate::domain::grant::Grant;
use crate::domain::interrupt::{Answered, Interrupt, UNKNOWN_OUTCOME};
use crate::domain::payload::json_size;
use crate::domain::policy::{self, Rule, RuleSets, Rules};
use crate::domain::schema::Validators;
use crate::domain::session::Session;
use crate::domain::standing::check_standing;
use crate::domain::status::{InterruptStatus, Status};
use crate::domain::{Error, InterruptId, SessionId, Timestamp};
use crate::engine::Engine;
use crate::engine::journal::grants;
use crate::engine::journal::messages::{reply_scope, stored_reply};
use crate::engine::journal::triage::claimer;
use crate::engine::telling::view::{Answer, IdempotencyKey, Resumed};
use crate::faults::Rule as Kept;
use crate::store::{Reader, StoreExt};

/// Processors of this machine, as many as answers are looked at apart at the same time. Asked once: the system opens
/// files to tell, and each run without a server has an engine of its own.
pub(in crate::engine) static PROCESSORS: LazyLock<usize> =
    LazyLock::new(|| std::thread::available_parallelism().map_or(2, NonZero::get));

/// How often what was looked at may be another thing by the time of the transaction.
pub(in crate::engine) const MAX_PRECHECKS: usize = 5;
/// Bytes of an answer that are looked at in passing.
const SMALL: usize = 4096;

/// How a value is looked at as an answer.
type Check = fn(AnswerTerms<'_>, Value, &dyn Validators) -> Result<Valid, Error>;

/// What was found about the answers of a request.
#[derive(Debug, Default)]
pub(in crate::engine) struct Precheck {
    /// By which rules.
    own: Vec<Rule>,
    server: Arc<Rules>,
    /// By what is answered.
    found: HashMap<InterruptId, CheckedAnswer>,
    /// Whether what is decided for always may settle what else is asked.
    sweeps: HashMap<(InterruptId, DecisionKind), bool>,
}

/// What was found about one answer.
#[derive(Debug)]
struct CheckedAnswer {
    asked: Arc<Interrupt>,
    valid: Valid,
    grant: Option<Grant>,
}

/// What is in the store for a look.
pub(in crate::engine) struct PrecheckInput {
    pub(in crate::engine) session: Session,
    /// What each of the answers is for.
    pub(in crate::engine) asked: Vec<AnswerTarget>,
    /// What else the session asks, where it may be settled too.
    pub(in crate::engine) pending: Vec<Interrupt>,
}

impl PrecheckInput {
    /// Whether to look at the answers takes no more than to read them.
    fn is_soon_judged(&self, answers: &[Answer], server: &Rules) -> bool {
        let has_expressions = server.have_expressions() || self.session.rules.iter().any(|rule| rule.when.is_some());
        !has_expressions && answers.iter().zip(&self.asked).all(|(answer, asked)| is_soon_done(answer, asked))
    }
}

/// What one answer is for.
pub(in crate::engine) struct AnswerTarget {
    pub(in crate::engine) interrupt: Result<Arc<Interrupt>, Error>,
    /// Whether the answer would let a tool run.
    is_tool: bool,
}

impl Precheck {
    /// What was found about an answer of `asked`; `None` where that was not looked at, or is another question by now.
    pub(in crate::engine) fn found_about(&self, asked: &Interrupt) -> Option<(&Valid, Option<&Grant>)> {
        let found = self.found.get(&asked.interrupt_id)?;
        found.asked.asks_the_same(asked).then_some((&found.valid, found.grant.as_ref()))
    }

    /// Whether the rules let what `grant` says settle `asked` too; `None` where that was not looked at.
    pub(in crate::engine) fn lets_sweep(&self, asked: &Interrupt, grant: &Grant) -> Option<bool> {
        self.sweeps.get(&(asked.interrupt_id, grant.decision().kind())).copied()
    }
}

impl Engine {
    /// Looks at the answers of a request.
    ///
    /// # Errors
    /// Why they are not taken.
    pub(in crate::engine) async fn precheck(
        self: &Arc<Self>,
        id: SessionId,
        answers: &Arc<[Answer]>,
        actor: &Actor,
        key: Option<&IdempotencyKey>,
    ) -> Result<Precheck, Error> {
        let (engine, of, key) = (Arc::clone(self), Arc::clone(answers), key.cloned());
        let scene = self.store.query(move |reader| engine.scene(reader, id, &of, key.as_ref()));
        match scene.await? {
            Ok(scene) => self.precheck_scene(scene, answers, actor).await,
            Err(_) => Ok(Precheck::default()),
        }
    }

    /// Looks at the answers of a request on what was read for that.
    ///
    /// # Errors
    /// Those of [`Engine::precheck`].
    pub(in crate::engine) async fn precheck_scene(
        self: &Arc<Self>,
        scene: PrecheckInput,
        answers: &Arc<[Answer]>,
        actor: &Actor,
    ) -> Result<Precheck, Error> {
        let server = self.access.server_rules();
        if scene.is_soon_judged(answers, &server) {
            return self.judge(&scene, answers, actor, server, answer::check);
        }
        // No more of them at once than there are processors: the rest is for everybody else.
        let working = Arc::clone(&self.journal.prechecking).acquire_owned().await;
        let working = working.map_err(|error| Error::Internal(error.to_string()))?;
        let (engine, answers, actor) = (Arc::clone(self), Arc::clone(answers), actor.clone());
        let judged = tokio::task::spawn_blocking(move || {
            let _working = working;
            engine.judge(&scene, &answers, &actor, server, answer::check)
        });
        judged.await.unwrap_or_else(|error| Err(Error::Internal(error.to_string())))
    }

    /// Whether the transaction that writes them may try to look at them itself: what is known before it begins tells nothing
    /// to the contrary.
    pub(in crate::engine) fn may_look_in_passing(&self, answers: &[Answer]) -> bool {
        !self.access.server_rules().have_expressions() && answers.iter().all(is_small)
    }

    /// Looks at the answers of a request inside of the transaction that writes them, on what that has read; `None` where it
    /// may take its time.
    ///
    /// # Errors
    /// Why they are not taken.
    pub(in crate::engine) fn look_in_passing(
        &self,
        scene: &PrecheckInput,
        answers: &[Answer],
        actor: &Actor,
    ) -> Result<Option<Precheck>, Error> {
        let server = self.access.server_rules();
        // The rules of a session are compiled where nobody has asked them yet.
        if !scene.session.rules.is_empty() || !scene.is_soon_judged(answers, &server) {
            return Ok(None);
        }
        self.judge(scene, answers, actor, server, answer::check_in_passing).map(Some)
    }

    /// Reads what there is to look at, and to write about; `Err` with the reply where the request was answered before.
    pub(in crate::engine) fn scene(
        &self,
        reader: &dyn Reader,
        id: SessionId,
        answers: &[Answer],
        key: Option<&IdempotencyKey>,
    ) -> Result<Result<PrecheckInput, Resumed>, Error> {
        let session = reader.session(id)?.ok_or(Error::SessionNotFound)?;
        if let Some(body) = stored_reply(reader, &reply_scope("resume", &session), key)? {
            let status = body["status"].as_str().and_then(Status::parse).unwrap_or(session.status());
            return Ok(Err(Resumed { session_id: id, status, replayed: true }));
        }
        self.check_agent(&session)?;
        let asked = targets(answers, |id| {
            let interrupt = find(reader, &session, id)?;
            let is_tool = match &interrupt {
                Ok(interrupt) if interrupt.kind == UNKNOWN_OUTCOME => is_about_a_tool(reader, interrupt)?,
                _ => true,
            };
            Ok(AnswerTarget { interrupt: interrupt.map(Arc::new), is_tool })
        })?;
        let may_sweep = answers.iter().any(|answer| answer.value["always"] == true);
        let pending = if may_sweep { reader.pending(id)? } else { Vec::new() };
        Ok(Ok(PrecheckInput { session, asked, pending }))
    }

    /// May take its time, as `check` may and the rules may.
    fn judge(
        &self,
        scene: &PrecheckInput,
        answers: &[Answer],
        actor: &Actor,
        server: Arc<Rules>,
        check: Check,
    ) -> Result<Precheck, Error> {
        let PrecheckInput { session, asked, pending } = scene;
        let (now, own) = (self.now(), self.access.session_rules(session));
        let standing = RuleSets { session: &own, server: &server };
        let (mut found, mut sweeps) = (HashMap::new(), HashMap::new());
        for (answer, AnswerTarget { interrupt, is_tool }) in answers.iter().zip(asked) {
            let asked = interrupt.as_ref().map_err(Error::clone)?;
            self.check_answerer(asked, answer, actor, now)?;
            answer::check_type(asked.as_ref().into(), answer.expected_type.as_deref())
                .map_err(|error| at(&answer.place, error))?;
            if asked.answer_with(&answer.value, None, actor.name(), now)?.is_some() {
                continue;
            }
            let valid = check(asked.as_ref().into(), answer.value.clone(), self.access.schemas())
                .map_err(|error| at(&answer.place, error))?;
            let answered = asked.answer_with(&answer.value, Some(valid.clone()), actor.name(), now)?;
            let Some(Answered::Now(answered)) = answered else { continue };
            policy::objection(&answered, standing, Some(actor), *is_tool).map_err(|error| at(&answer.place, error))?;
            let grant = grants::granted_by(&answered, actor.name(), now);
            found.insert(asked.interrupt_id, CheckedAnswer { asked: Arc::clone(asked), valid, grant });
        }
        for grant in found.values().filter_map(|found| found.grant.as_ref()) {
            for other in pending.iter().filter(|other| grants::may_settle(grant, other, now)) {
                let settled = grants::settled_by(grant, other, now);
                let lets = policy::lets_sweep(&settled, standing, actor);
                sweeps.insert((other.interrupt_id, grant.decision().kind()), lets);
            }
        }
        Ok(Precheck { own: session.rules.clone(), server, found, sweeps })
    }

    /// Whether what was found by a look still stands: what it was about, and the rules that it asked.
    pub(in crate::engine) fn still_stands(&self, look: &Precheck, session: &Session) -> bool {
        look.own == session.rules && Arc::ptr_eq(&look.server, &self.access.server_rules())
    }

    /// # Errors
    /// Why `actor` does not answer what is asked, whatever he says.
    pub(in crate::engine) fn check_answerer(
        &self,
        asked: &Interrupt,
        answer: &Answer,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<(), Error> {
        check_standing(asked, actor, self.settings.prevent_self_approval)?;
        asked.check_claim(claimer(actor, answer.said.as_deref()), now)
    }
}

/// What each of the answers is for. What is answered twice is read once: a small request could else take any memory.
///
/// # Errors
/// The store's, once all of them are looked for: who shares a database asks for them at once then.
fn targets(
    answers: &[Answer],
    mut find: impl FnMut(&str) -> Result<AnswerTarget, Error>,
) -> Result<Vec<AnswerTarget>, Error> {
    let mut seen = HashSet::new();
    let mut target = |answer: &Answer| {
        // By what the ids mean: a UUID can be written in several ways.
        if answer.interrupt_id.parse::<InterruptId>().is_ok_and(|id| !seen.insert(id)) {
            let twice = Error::DuplicateAnswer(answer.interrupt_id.clone());
            return Ok(AnswerTarget { interrupt: Err(twice), is_tool: true });
        }
        find(&answer.interrupt_id)
    };
    let found: Vec<_> = answers.iter().map(&mut target).collect();
    found.into_iter().collect()
}

/// The interrupt that a client named, if it is one of this session that can be answered.
///
/// # Errors
/// The store's.
fn find(reader: &dyn Reader, session: &Session, id: &str) -> Result<Result<Interrupt, Error>, Error> {
    let found = match id.parse::<InterruptId>() {
        Ok(id) => reader.interrupt(id)?.filter(|interrupt| interrupt.session_id == session.id),
        Err(_) => None,
    };
    Ok(match (found, session.status()) {
        // What a suspended turn asks cannot be answered before it is taken up again.
        (Some(found), status) if found.is_pending() && session.retry().is_some() => Err(Error::NotInterrupted(status)),
        (Some(found), _) if Kept::FirstWriter.is_left_out() => {
            Ok(Interrupt { status: InterruptStatus::Pending, ..found })
        }
        (Some(found), _) => Ok(found),
        (None, Status::Interrupted) => Err(Error::UnknownInterrupt(id.to_owned())),
        (None, other) => Err(Error::NotInterrupted(other)),
    })
}

/// Says where in the request the wrong answer stood.
fn at(place: &[LocSegment], error: Error) -> Error {
    match error {
        Error::InvalidAnswer(errors) => {
            Error::InvalidAnswer(errors.into_iter().map(|error| error.under(place)).collect())
        }
        other => other,
    }
}

/// Whether to look at an answer takes no more than to read it.
fn is_soon_done(answer: &Answer, asked: &AnswerTarget) -> bool {
    let Ok(interrupt) = &asked.interrupt else { return true };
    let has_schema = match interrupt.kind.as_str() {
        TOOL_APPROVAL => answer.value.get("args").is_some() && interrupt.args_schema.is_some(),
        _ => interrupt.response_schema.is_some(),
    };
    !has_schema && is_small(answer)
}

fn is_small(answer: &Answer) -> bool {
    json_size(&answer.value) <= SMALL
}

/// Whether the step is a tool whose outcome nobody knows. What the journal does not know is taken for one.
fn is_about_a_tool(reader: &dyn Reader, asked: &Interrupt) -> Result<bool, Error> {
    let Some(question) = reader.asking_step(asked.turn_id, asked.interrupt_id)? else { return Ok(true) };
    // The question is asked inside of the step that it is about.
    let Some((path, _)) = question.path.rsplit_once('/') else { return Ok(true) };
    let began = reader.begun_step(asked.turn_id, path)?;
    Ok(began.is_none_or(|step| step.kind == "tool"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn what_is_answered_twice_is_looked_for_once() {
        let id = Uuid::from_u128(7);
        let spelt = [id.to_string(), id.simple().to_string(), id.to_string(), "none".to_owned(), "none".to_owned()];
        let answer =
            |interrupt_id| Answer { interrupt_id, value: json!(1), place: Vec::new(), said: None, expected_type: None };
        let answers = spelt.clone().map(answer);
        let mut looked_for = Vec::new();
        let found = targets(&answers, |id| {
            looked_for.push(id.to_owned());
            Ok(AnswerTarget { interrupt: Err(Error::UnknownInterrupt(id.to_owned())), is_tool: true })
        });
        assert_eq!(looked_for, [spelt[0].as_str(), "none", "none"]);
        let came_to: Vec<_> = found.unwrap().into_iter().map(|target| target.interrupt.unwrap_err().code()).collect();
        let (unknown, twice) = ("unknown_interrupt", "duplicate_answer");
        assert_eq!(came_to, [unknown, twice, twice, unknown, unknown]);
    }

    #[test]
    fn all_are_looked_for_before_one_is_missed() {
        let answer = |number: u128| Answer {
            interrupt_id: Uuid::from_u128(number).to_string(),
            value: json!(1),
            place: Vec::new(),
            said: None,
            expected_type: None,
        };
        let mut looked_for = 0;
        let missed = targets(&[1, 2, 3].map(answer), |id| {
            looked_for += 1;
            Err(Error::StoreUnavailable(id.to_owned()))
        });
        assert_eq!(looked_for, 3);
        assert_eq!(missed.err(), Some(Error::StoreUnavailable(Uuid::from_u128(1).to_string())));
    }
}
