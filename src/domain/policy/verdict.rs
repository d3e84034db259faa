//! The order of who decides. First the rules, of the session and then of the server, of which the first match counts;
//! where none matches the tool's own code; then a grant; then a person.

use serde_json::Value;

use super::rule::Effect;
use super::rules::{Call, Matched, Rules};
use crate::domain::FieldError;
use crate::domain::answer::{self, terms};
use crate::domain::decision::{Decider, Decision};
use crate::domain::grant::{Grant, Scope};
use crate::domain::interrupt::{Ask, Interrupt};

/// What stands before a call is made.
#[derive(Debug, Clone, Copy)]
pub struct Standing<'a> {
    /// The rules of the session.
    pub session: &'a Rules,
    /// The rules of the server.
    pub server: &'a Rules,
    /// What was decided for the rest of the session.
    pub grants: &'a [Grant],
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
const ON_APPROVAL: &str = "on_approval";
/// Who decides by a rule.
const POLICY: &str = "policy";

impl Standing<'_> {
    /// The rule that decides over a call.
    pub fn first_match(&self, call: Call<'_>) -> Option<Matched> {
        self.session.first_match(call).or_else(|| self.server.first_match(call))
    }
}

impl Verdict {
    fn person(rule: Option<String>) -> Self {
        Self::Person { rule, ignored: Vec::new() }
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
pub fn decide(ask: &Ask, standing: Standing<'_>) -> Verdict {
    let Some(scope) = ask.scope() else { return Verdict::person(None) };
    let args = ask.payload.get("tool_args").unwrap_or(&Value::Null);
    let call = Call { tool: scope.tool, args, agent: scope.agent };
    let allowed = terms(ask.into()).allowed;
    match standing.first_match(call) {
        Some(matched) if matched.effect == Effect::Deny => Verdict::denied(matched),
        Some(matched) if matched.effect == Effect::Allow && allowed.contains(&Decision::APPROVE.kind()) => {
            Verdict::decided(Decision::APPROVE, matched.rule(), Some(POLICY))
        }
        Some(matched) => granted(ask, scope, standing).unwrap_or_else(|| Verdict::person(Some(matched.rule()))),
        None if !ask.required => Verdict::decided(Decision::APPROVE, DEFAULT.to_owned(), None),
        None => match &ask.proposed {
            Some(proposed) => decided_by_code(ask, call, proposed, standing),
            None => granted(ask, scope, standing).unwrap_or_else(|| Verdict::person(None)),
        },
    }
}

/// What is wrong with an answer that lets a call run which a rule denies.
pub fn denial(answered: &Interrupt, standing: Standing<'_>) -> Option<FieldError> {
    let (scope, value) = (answered.scope()?, answered.value.as_ref()?);
    if standing.session.is_empty() && standing.server.is_empty() {
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

/// What a grant for these calls says.
fn granted(ask: &Ask, scope: Scope<'_>, standing: Standing<'_>) -> Option<Verdict> {
    let grant = standing.grants.iter().find(|grant| grant.scope() == scope)?;
    let decision = grant.decision();
    terms(ask.into())
        .allowed
        .contains(&decision.kind())
        .then(|| Verdict::decided(decision, grant.rule(), grant.created_by.as_deref()))
}

/// What the tool's own code says; an edit is for the rules again, with what it would run.
fn decided_by_code(ask: &Ask, call: Call<'_>, proposed: &Value, standing: Standing<'_>) -> Verdict {
    let decision = match Decision::read(proposed, terms(ask.into())) {
        Ok(decision) => decision,
        Err(ignored) => return Verdict::Person { rule: None, ignored },
    };
    if let Decision::Edit { args } = &decision {
        let args = Value::Object(args.clone());
        match standing.first_match(Call { args: &args, ..call }) {
            Some(matched) if matched.effect == Effect::Deny => return Verdict::denied(matched),
            Some(matched) if matched.effect == Effect::Ask => return Verdict::person(Some(matched.rule())),
            _ => {}
        }
    }
    Verdict::decided(decision, ON_APPROVAL.to_owned(), Some(ON_APPROVAL))
}
