//! The order of who decides. First the rules, of the session and then of the server; where none has a say the tool's own
//! code; then a grant; then a person. What a person says is for the rules again, with what would run.

use serde_json::Value;

use super::call::{Call, Origin};
use super::rule::Effect;
use super::rules::Matched;
use super::ruling::{RuleSets, Ruling};
use crate::domain::access::Actor;
use crate::domain::answer::{self, terms};
use crate::domain::approver::is_approver;
use crate::domain::decision::{Decider, Decision, DecisionKind, TOOL_APPROVAL, Terms};
use crate::domain::grant::{Grant, GrantScope};
use crate::domain::interrupt::{Ask, Interrupt, UNKNOWN_OUTCOME};
use crate::domain::schema::Validators;
use crate::domain::{Error, FieldError};

/// What the rules, and the tool's own code, say about what asks. Made apart from [`decide`], since expressions and schemas
/// may take their time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Evaluation {
    /// About the call as it is.
    call: Ruling,
    /// About the call as the tool's own code would have it.
    edited: Ruling,
    /// What the tool's own code decided, if it did.
    proposed: Option<Result<Decision, Vec<FieldError>>>,
    /// Whether there are rules, and the arguments that they were shown are not what would run.
    is_hidden: bool,
}

/// Who decides, and how.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// It is decided.
    Decided(Decided),
    /// A person is asked.
    Person {
        /// The rule that wants it.
        rule: Option<String>,
        /// Who alone may answer, where the rule says so.
        approvers: Vec<String>,
        /// What is wrong with the decision of the tool's own code, which therefore does not count.
        ignored: Vec<FieldError>,
        /// Which rules could not tell, and why.
        failed: Option<String>,
    },
}

/// A decision that no person has to make.
#[derive(Debug, Clone, PartialEq)]
pub struct Decided {
    /// What.
    pub decision: Decision,
    /// By which rule: `policy:<name>`, `on_approval`, `grant:<id>`, or `default` where nobody has to decide.
    pub rule: String,
    /// Who stands behind it.
    pub by: Option<String>,
    /// Which rules could not tell, and why.
    pub failed: Option<String>,
}

/// The rule where nobody has to decide, and no rule says otherwise. Of such a call there is no record.
pub const DEFAULT: &str = "default";
/// The rule of what the tool's own code decides, and who it is.
pub const ON_APPROVAL: &str = "on_approval";
/// Who decides by a rule.
const POLICY: &str = "policy";
/// Why rules could not tell about a call whose arguments are not what would run.
const HIDDEN: &str = "something else may run than the arguments say: a validator, an alias or a default changes them";
/// What somebody says of a step that is to run again, since nothing came of it.
const NOT_DONE: &str = "not_done";

impl RuleSets<'_> {
    /// What the rules say about what asks; nothing about what is no tool approval. May take its time.
    pub fn rule_on(&self, ask: &Ask, validators: &dyn Validators) -> Evaluation {
        let Some(scope) = ask.scope() else { return Evaluation::default() };
        let proposed = ask.proposed.as_ref().map(|proposed| proposed_decision(ask, proposed, validators));
        if self.is_empty() {
            return Evaluation { proposed, ..Evaluation::default() };
        }
        let args = ask.payload.get("tool_args").unwrap_or(&Value::Null);
        let origin = Some(Origin { source: scope.tool_source, metadata: ask.metadata.as_ref() });
        let call = Call { tool: scope.tool, args, agent: scope.agent, origin };
        let edited = match &proposed {
            Some(Ok(Decision::Edit { args })) => self.ruling(Call { args: &Value::Object(args.clone()), ..call }),
            _ => Ruling::default(),
        };
        Evaluation { call: self.ruling(call), edited, proposed, is_hidden: !ask.is_run }
    }
}

impl Verdict {
    fn person(ruling: &Ruling) -> Self {
        Self::Person {
            rule: ruling.deciding().map(Matched::rule),
            approvers: ruling.with_approvers().next().map(|matched| matched.approvers.clone()).unwrap_or_default(),
            ignored: Vec::new(),
            failed: ruling.failures(),
        }
    }

    /// A call that only a person may let run, who is told why.
    fn hidden(ruling: &Ruling) -> Self {
        let mut verdict = Self::person(ruling);
        if let Self::Person { failed, .. } = &mut verdict {
            *failed = Some(failed.take().map_or_else(|| HIDDEN.to_owned(), |why| format!("{HIDDEN}; {why}")));
        }
        verdict
    }

    fn denied(matched: &Matched, ruling: &Ruling) -> Self {
        let reason = matched.reason.clone();
        let decision = Decision::Reject { reason, message: None, always: false, by: Decider::Policy };
        let (rule, by) = (matched.rule(), Some(POLICY.to_owned()));
        Self::Decided(Decided { decision, rule, by, failed: ruling.failures() })
    }

    fn decided(decision: Decision, rule: String, by: Option<&str>) -> Self {
        Self::Decided(Decided { decision, rule, by: by.map(str::to_owned), failed: None })
    }
}

/// Decides over what asks, or says that a person has to. What is no tool approval is always for a person.
pub fn decide(ask: &Ask, asked: &Evaluation, grants: &[Grant]) -> Verdict {
    let Some(scope) = ask.scope() else { return Verdict::person(&Ruling::default()) };
    let allowed = terms(ask.into()).allowed;
    let ruling = &asked.call;
    match ruling.deciding() {
        Some(matched) if matched.effect == Effect::Deny => Verdict::denied(matched, ruling),
        _ if asked.is_hidden => Verdict::hidden(ruling),
        Some(matched) if matched.effect == Effect::Allow && allowed.contains(&Decision::APPROVE.kind()) => {
            Verdict::decided(Decision::PASSED, matched.rule(), Some(POLICY))
        }
        Some(_) if is_for_people_alone(ruling) => Verdict::person(ruling),
        Some(_) => granted(ask, scope, grants).unwrap_or_else(|| Verdict::person(ruling)),
        None if !ask.required => Verdict::decided(Decision::PASSED, DEFAULT.to_owned(), None),
        None => match &asked.proposed {
            Some(proposed) => decided_by_code(proposed, &asked.edited),
            None => granted(ask, scope, grants).unwrap_or_else(|| Verdict::person(ruling)),
        },
    }
}

/// Why the rules of now do not take an answer that lets a call run or answers in its place. `by` is whoever gives it,
/// where somebody may be asked for that; `is_tool` is whether it is a tool that it would let run.
///
/// # Errors
/// [`Error::InvalidAnswer`] for a call that they deny, [`Error::NotAnApprover`] for one that is for others to decide.
pub fn objection(answered: &Interrupt, standing: RuleSets<'_>, by: Option<&Actor>, is_tool: bool) -> Result<(), Error> {
    let Some((args, place)) = would_run(answered) else { return Ok(()) };
    let tool = answered.payload.get("tool_name").and_then(Value::as_str).filter(|_| is_tool);
    let Some(tool) = tool else { return Ok(()) };
    let agent = answered.agent.as_deref();
    let ruling = standing.ruling(Call { tool, args: &args, agent, origin: origin(answered) });
    if let Some(matched) = ruling.deciding().filter(|matched| matched.effect == Effect::Deny) {
        return Err(Error::InvalidAnswer(vec![denial(matched, place)]));
    }
    let Some(actor) = by else { return Ok(()) };
    let mut rules = ruling.with_approvers().peekable();
    // Where no rule says who, the tool itself does, also where a rule spoke for it when it asked.
    if rules.peek().is_none() && !is_approver(actor, &answered.tool_approvers) {
        return Err(Error::NotAnApprover { approvers: answered.tool_approvers.clone(), rule: None });
    }
    match rules.find(|matched| !is_approver(actor, &matched.approvers)) {
        Some(Matched { name, approvers, .. }) => {
            Err(Error::NotAnApprover { approvers: approvers.clone(), rule: Some(name.clone()) })
        }
        None => Ok(()),
    }
}

/// Whether what somebody decided for always may settle `settled` too, of which they were not asked: the rules take it as
/// a plain answer of theirs, and each of them can tell, and could when it was asked. None can tell of a call whose arguments are not
/// what would run.
pub fn lets_sweep(settled: &Interrupt, standing: RuleSets<'_>, by: &Actor) -> bool {
    let Some((args, _)) = would_run(settled) else { return true };
    let Some(scope) = settled.scope() else { return false };
    let origin = origin(settled);
    let ruling = standing.ruling(Call { tool: scope.tool, args: &args, agent: scope.agent, origin });
    let can_tell =
        settled.rule_failed.is_none() && !ruling.is_undecided() && (!settled.is_hidden || standing.is_empty());
    can_tell && objection(settled, standing, Some(by), true).is_ok()
}

/// Where the call comes from that an answer lets run. What is asked after a crash says nothing of it.
fn origin(answered: &Interrupt) -> Option<Origin<'_>> {
    let known = || Origin { source: answered.tool_source.as_deref(), metadata: answered.metadata.as_ref() };
    (answered.kind != UNKNOWN_OUTCOME).then(known)
}

/// With which arguments the call runs that an answer lets run, or answers in its place, and where they stand in the
/// answer; `None` for an answer that does neither.
fn would_run(answered: &Interrupt) -> Option<(Value, Option<&'static str>)> {
    let value = answered.value.as_ref()?;
    let asked = || answered.payload.get("tool_args").cloned().unwrap_or_default();
    if answered.kind == UNKNOWN_OUTCOME {
        return (value["outcome"] == NOT_DONE).then(|| (asked(), None));
    }
    if answered.kind != TOOL_APPROVAL {
        return None;
    }
    match answer::decision(answered.into(), value) {
        Some(Decision::Reject { .. }) => None,
        Some(Decision::Edit { args }) => Some((Value::Object(args), Some("args"))),
        Some(Decision::Approve { .. } | Decision::Respond { .. }) | None => Some((asked(), None)),
    }
}

fn denial(matched: &Matched, place: Option<&'static str>) -> FieldError {
    let reason = matched.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    match &matched.failed {
        None => FieldError::new(place, "denied", format!("rule {:?} denies this call{reason}", matched.name)),
        Some(why) => FieldError::new(
            place,
            "rule_failed",
            format!("rule {:?} could not tell ({why}), and so denies this call{reason}", matched.name),
        ),
    }
}

/// Whether no grant may decide: a rule names people, who have not decided (the grant may be anybody's), or could not tell.
fn is_for_people_alone(ruling: &Ruling) -> bool {
    ruling.is_undecided() || ruling.with_approvers().next().is_some()
}

/// What a grant for these calls says, made by those who may decide over this one.
fn granted(ask: &Ask, scope: GrantScope<'_>, grants: &[Grant]) -> Option<Verdict> {
    let grant = grants.iter().find(|grant| grant.scope() == scope && grant.is_open_to(&ask.approvers))?;
    let decision = grant.decision();
    terms(ask.into())
        .allowed
        .contains(&decision.kind())
        .then(|| Verdict::decided(decision, grant.rule(), grant.created_by.as_deref()))
}

/// What the tool's own code says, which may be more than a person is offered.
fn proposed_decision(ask: &Ask, proposed: &Value, validators: &dyn Validators) -> Result<Decision, Vec<FieldError>> {
    Decision::read(proposed, Terms { allowed: &DecisionKind::ALL, ..terms(ask.into()) }, validators)
}

/// Its effect; an edit is for the rules again, with what it would run.
fn decided_by_code(proposed: &Result<Decision, Vec<FieldError>>, edited: &Ruling) -> Verdict {
    match (proposed.clone(), edited.deciding()) {
        (Err(ignored), _) => Verdict::Person { rule: None, approvers: Vec::new(), ignored, failed: None },
        (Ok(_), Some(matched)) if matched.effect == Effect::Deny => Verdict::denied(matched, edited),
        (Ok(_), Some(matched)) if matched.effect == Effect::Ask => Verdict::person(edited),
        (Ok(decision), _) => Verdict::decided(decision, ON_APPROVAL.to_owned(), Some(ON_APPROVAL)),
    }
}
