//! Rules in their order, ready to be asked.

use std::cell::OnceCell;
use std::collections::HashSet;

use super::call::Call;
use super::glob;
use super::predicate::{ExpressionVariables, Predicate};
use super::rule::{Effect, Rule};
use crate::domain::FieldError;
use crate::domain::approver::check_approvers;

/// The most rules of one list.
const MAX_RULES: usize = 1000;

/// Rules in their order.
#[derive(Debug, Clone, Default)]
pub struct Rules(Vec<Ready>);

/// A rule with its expression compiled.
#[derive(Debug, Clone)]
struct Ready {
    rule: Rule,
    /// Of a rule that is in the store and could not be made any more: why.
    when: Option<Result<Predicate, String>>,
}

/// A rule that has a say in a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matched {
    /// Its name.
    pub name: String,
    /// What it does with this call.
    pub effect: Effect,
    /// Its reason.
    pub reason: Option<String>,
    /// Who alone may answer where it asks.
    pub approvers: Vec<String>,
    /// Why its expression could not tell; one that allows asks then.
    pub failed: Option<String>,
    /// See [`Rule::unsigned`].
    pub unsigned: bool,
}

impl Matched {
    /// Whether no rule after it has a say.
    pub fn is_last_word(&self) -> bool {
        self.failed.is_none() && !self.unsigned
    }
}

impl Matched {
    /// What records of its decisions show.
    pub fn rule(&self) -> String {
        format!("policy:{}", self.name)
    }
}

/// What one rule makes of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleOutcome {
    /// The tool is another one.
    OtherTool,
    /// The agent is another one.
    OtherAgent,
    /// Its expression is false.
    Untrue,
    /// It has a say: it decides, or could not tell.
    Matched(Matched),
}

impl Rules {
    /// Makes rules ready, in this order.
    ///
    /// # Errors
    /// Every place that is wrong: the rule's number, and the member.
    pub fn compile(rules: Vec<Rule>) -> Result<Self, Vec<FieldError>> {
        let mut errors = Vec::new();
        if rules.len() > MAX_RULES {
            errors.push(FieldError::new([rules.len()], "too_long", format!("more than {MAX_RULES} rules")));
            return Err(errors);
        }
        let mut names = HashSet::new();
        let mut ready = Vec::new();
        for (index, rule) in rules.into_iter().enumerate() {
            let mut wrong = |member: &str, kind: &str, msg: String| {
                errors.push(FieldError::new::<crate::domain::error::LocSegment>(
                    [index.into(), member.into()],
                    kind,
                    msg,
                ));
            };
            for (member, text) in
                [("name", Some(&rule.name)), ("tool", Some(&rule.tool)), ("agent", rule.agent.as_ref())]
            {
                if text.is_some_and(String::is_empty) {
                    wrong(member, "empty", "must not be empty".to_owned());
                }
            }
            if !names.insert(rule.name.clone()) {
                wrong("name", "duplicate", format!("another rule has the name {:?}", rule.name));
            }
            if rule.effect != Effect::Ask && !rule.approvers.is_empty() {
                wrong("approvers", "contradiction", "only a rule that asks has approvers".to_owned());
            } else if let Err(why) = check_approvers(&rule.approvers) {
                wrong("approvers", "invalid_name", why);
            }
            let when = rule.when.as_deref().map(Predicate::compile).transpose();
            match when {
                Ok(when) => ready.push(Ready { rule, when: when.map(Ok) }),
                Err(why) => wrong("when", "invalid_expression", why),
            }
        }
        if errors.is_empty() { Ok(Self(ready)) } else { Err(errors) }
    }

    /// Makes rules ready that were taken once, whatever is wrong with them by now: an expression that is none any more
    /// never can tell.
    pub fn stored(rules: Vec<Rule>) -> Self {
        let ready = |rule: Rule| {
            let when = rule.when.as_deref().map(Predicate::compile);
            Ready { rule, when }
        };
        Self(rules.into_iter().map(ready).collect())
    }

    /// One rule in the place of those that cannot be read: it never can tell, because of `why`.
    pub fn unreadable(rule: Rule, why: &str) -> Self {
        Self(vec![Ready { rule, when: Some(Err(why.to_owned())) }])
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether asking them takes more than comparing names.
    pub fn have_expressions(&self) -> bool {
        self.0.iter().any(|ready| ready.when.is_some())
    }

    /// The rules that have a say in this call: those that cannot tell, up to the first that clearly matches.
    pub fn says(&self, call: Call<'_>) -> Vec<Matched> {
        let mut says = Vec::new();
        for (_, look) in self.evaluate(call) {
            let RuleOutcome::Matched(matched) = look else { continue };
            let is_clear = matched.failed.is_none();
            says.push(matched);
            if is_clear {
                break;
            }
        }
        says
    }

    /// What each rule makes of a call, one after the other.
    pub fn evaluate<'a>(&'a self, call: Call<'a>) -> impl Iterator<Item = (&'a Rule, RuleOutcome)> {
        // Made for the first expression, and shared by the rest.
        let scope = OnceCell::new();
        self.0.iter().map(move |ready| (&ready.rule, ready.evaluate(call, &scope)))
    }
}

impl Ready {
    fn evaluate(&self, call: Call<'_>, scope: &OnceCell<Result<ExpressionVariables, String>>) -> RuleOutcome {
        let rule = &self.rule;
        if !glob::fits(&rule.tool, call.tool) {
            return RuleOutcome::OtherTool;
        }
        let is_its_agent = |pattern: &String| call.agent.is_some_and(|agent| glob::fits(pattern, agent));
        if !rule.agent.as_ref().is_none_or(is_its_agent) {
            return RuleOutcome::OtherAgent;
        }
        let holds = match &self.when {
            None => Ok(true),
            Some(when) => when.as_ref().map_err(String::clone).and_then(|when| {
                let scope = scope.get_or_init(|| ExpressionVariables::of(call)).as_ref().map_err(String::clone)?;
                when.is_met(scope)
            }),
        };
        let (effect, failed) = match holds {
            Ok(false) => return RuleOutcome::Untrue,
            Ok(true) => (rule.effect, None),
            Err(why) if rule.effect == Effect::Allow => (Effect::Ask, Some(why)),
            Err(why) => (rule.effect, Some(why)),
        };
        let (name, reason, approvers) = (rule.name.clone(), rule.reason.clone(), rule.approvers.clone());
        RuleOutcome::Matched(Matched { name, effect, reason, approvers, failed, unsigned: rule.unsigned })
    }
}
