//! The order of who decides. First the rules, of the session and then of the server, of which the first match counts;
//! where none matches the tool's own code; then a grant; then a person.

use serde_json::Value;

use super::rule::Effect;
use super::rules::{Call, Matched, Rules};
use crate::domain::FieldError;
use crate::domain::answer::{self, terms};
use crate::domain::decision::{Decider, Decision, DecisionKind, Terms};
use crate::domain::grant::{Grant, Scope};
use crate::domain::interrupt::{Ask, Interrupt};

/// The rules that are asked about a call.
#[derive(Debug, Clone, Copy)]
pub struct Standing<'a> {
    /// The rules of the session, which come first.
    pub session: &'a Rules,
    /// The rules of the server.
    pub server: &'a Rules,
}

/// What the rules say about what asks. Made apart from [`decide`], since expressions may take their time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ruling {
    /// The rule for the call as it is.
    call: Option<Matched>,
    /// The rule for the call as the tool's own code would have it.
    edited: Option<Matched>,
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
}

/// The rule where nobody has to decide, and no rule says otherwise. Of such a call there is no record.
pub const DEFAULT: &str = "default";
/// The rule of what the tool's own code decides, and who it is.
pub const ON_APPROVAL: &str = "on_approval";
/// Who decides by a rule.
const POLICY: &str = "policy";

impl Standing<'_> {
    /// The rule that decides over a call.
    pub fn first_match(&self, call: Call<'_>) -> Option<Matched> {
        self.session.first_match(call).or_else(|| self.server.first_match(call))
    }

    /// What the rules say about what asks; nothing about what is no tool approval.
    pub fn rule_on(&self, ask: &Ask) -> Ruling {
        let Some(scope) = ask.scope().filter(|_| !self.is_empty()) else { return Ruling::default() };
        let args = ask.payload.get("tool_args").unwrap_or(&Value::Null);
        let call = Call { tool: scope.tool, args, agent: scope.agent };
        let proposed = ask.proposed.as_ref().and_then(|proposed| proposed_decision(ask, proposed).ok());
        let edited = match proposed {
            Some(Decision::Edit { args }) => self.first_match(Call { args: &Value::Object(args), ..call }),
            _ => None,
        };
        Ruling { call: self.first_match(call), edited }
    }

    /// Whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.session.is_empty() && self.server.is_empty()
    }
}

impl Verdict {
    fn person(matched: Option<Matched>) -> Self {
        let rule = matched.as_ref().map(Matched::rule);
        Self::Person {
            rule,
            approvers: matched.map(|matched| matched.approvers).unwrap_or_default(),
            ignored: Vec::new(),
        }
    }

    fn denied(matched: Matched) -> Self {
        let rule = matched.rule();
        let decision = Decision::Reject { reason: matched.reason, message: None, always: false, by: Decider::Policy };
        Self::decided(decision, rule, Some(POLICY))
    }

    fn decided(decision: Decision, rule: String, by: Option<&str>) -> Self {
        Self::Decided(Decided { decision, rule, by: by.map(str::to_owned) })
    }
}

/// Decides over what asks, or says that a person has to. What is no tool approval is always for a person.
pub fn decide(ask: &Ask, ruling: Ruling, grants: &[Grant]) -> Verdict {
    let Some(scope) = ask.scope() else { return Verdict::person(None) };
    let allowed = terms(ask.into()).allowed;
    match ruling.call {
        Some(matched) if matched.effect == Effect::Deny => Verdict::denied(matched),
        Some(matched) if matched.effect == Effect::Allow && allowed.contains(&Decision::APPROVE.kind()) => {
            Verdict::decided(Decision::PASSED, matched.rule(), Some(POLICY))
        }
        // Whom the rule names has not decided: the grant may be anybody's.
        Some(matched) if !matched.approvers.is_empty() => Verdict::person(Some(matched)),
        Some(matched) => granted(ask, scope, grants).unwrap_or_else(|| Verdict::person(Some(matched))),
        None if !ask.required => Verdict::decided(Decision::PASSED, DEFAULT.to_owned(), None),
        None => match &ask.proposed {
            Some(proposed) => decided_by_code(ask, proposed, ruling.edited),
            None => granted(ask, scope, grants).unwrap_or_else(|| Verdict::person(None)),
        },
    }
}

/// What is wrong with an answer that lets a call run which a rule denies.
pub fn denial(answered: &Interrupt, standing: Standing<'_>) -> Option<FieldError> {
    let (scope, value) = (answered.scope()?, answered.value.as_ref()?);
    if standing.is_empty() {
        return None;
    }
    let asked = answered.payload.get("tool_args").unwrap_or(&Value::Null);
    let (args, place) = match answer::decision(answered.into(), value)? {
        Decision::Approve { .. } => (asked.clone(), None),
        Decision::Edit { args } => (Value::Object(args), Some("args")),
        Decision::Reject { .. } | Decision::Respond { .. } => return None,
    };
    let call = Call { tool: scope.tool, args: &args, agent: scope.agent };
    let matched = standing.first_match(call).filter(|matched| matched.effect == Effect::Deny)?;
    let reason = matched.reason.map(|reason| format!(": {reason}")).unwrap_or_default();
    Some(FieldError::new(place, "denied", format!("rule {:?} denies this call{reason}", matched.name)))
}

/// What a grant for these calls says, made by those who may decide over this one.
fn granted(ask: &Ask, scope: Scope<'_>, grants: &[Grant]) -> Option<Verdict> {
    let grant = grants.iter().find(|grant| grant.scope() == scope && grant.is_open_to(&ask.approvers))?;
    let decision = grant.decision();
    terms(ask.into())
        .allowed
        .contains(&decision.kind())
        .then(|| Verdict::decided(decision, grant.rule(), grant.created_by.as_deref()))
}

/// What the tool's own code says, which may be more than a person is offered.
fn proposed_decision(ask: &Ask, proposed: &Value) -> Result<Decision, Vec<FieldError>> {
    Decision::read(proposed, Terms { allowed: &DecisionKind::ALL, ..terms(ask.into()) })
}

/// Its effect; an edit is for the rules again, with what it would run.
fn decided_by_code(ask: &Ask, proposed: &Value, edited: Option<Matched>) -> Verdict {
    match (proposed_decision(ask, proposed), edited) {
        (Err(ignored), _) => Verdict::Person { rule: None, approvers: Vec::new(), ignored },
        (Ok(_), Some(matched)) if matched.effect == Effect::Deny => Verdict::denied(matched),
        (Ok(_), Some(matched)) if matched.effect == Effect::Ask => Verdict::person(Some(matched)),
        (Ok(decision), _) => Verdict::decided(decision, ON_APPROVAL.to_owned(), Some(ON_APPROVAL)),
    }
}
