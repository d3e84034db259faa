//! Rules in their order, ready to be asked.

use std::cell::OnceCell;
use std::collections::HashSet;

use serde_json::Value;

use super::glob;
use super::predicate::{Predicate, Scope};
use super::rule::{Effect, Rule};
use crate::domain::{FieldError, access};

/// The most rules of one list.
const MAX_RULES: usize = 1000;

/// A call, as far as rules see it.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The tool.
    pub tool: &'a str,
    /// With what.
    pub args: &'a Value,
    /// The agent that calls.
    pub agent: Option<&'a str>,
}

/// Rules in their order.
#[derive(Debug, Clone, Default)]
pub struct Rules(Vec<Ready>);

/// A rule with its expression compiled.
#[derive(Debug, Clone)]
struct Ready {
    rule: Rule,
    when: Option<Predicate>,
}

/// The rule that decides over a call.
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
    /// Why its expression could not tell; its effect is `ask` then, whatever it says itself.
    pub failed: Option<String>,
}

impl Matched {
    /// What records of its decisions show.
    pub fn rule(&self) -> String {
        format!("policy:{}", self.name)
    }
}

/// What one rule makes of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Look {
    /// The tool is another one.
    OtherTool,
    /// The agent is another one.
    OtherAgent,
    /// Its expression is false.
    Untrue,
    /// It decides.
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
                errors.push(FieldError::new::<crate::domain::error::Place>([index.into(), member.into()], kind, msg));
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
            } else if let Err(why) = access::check_approvers(&rule.approvers) {
                wrong("approvers", "invalid_name", why);
            }
            let when = rule.when.as_deref().map(Predicate::compile).transpose();
            match when {
                Ok(when) => ready.push(Ready { rule, when }),
                Err(why) => wrong("when", "invalid_expression", why),
            }
        }
        if errors.is_empty() { Ok(Self(ready)) } else { Err(errors) }
    }

    /// A single rule that has everything asked, for rules that cannot be read any more.
    pub fn asking(name: &str) -> Self {
        let rule = Rule {
            name: name.to_owned(),
            effect: Effect::Ask,
            tool: "*".to_owned(),
            agent: None,
            when: None,
            reason: None,
            approvers: Vec::new(),
        };
        Self(vec![Ready { rule, when: None }])
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether these are the same rules.
    pub fn is_as(&self, others: &Self) -> bool {
        self.0.iter().map(|ready| &ready.rule).eq(others.0.iter().map(|ready| &ready.rule))
    }

    /// Whether asking them takes more than comparing names.
    pub fn have_expressions(&self) -> bool {
        self.0.iter().any(|ready| ready.when.is_some())
    }

    /// The first rule that is for this call.
    pub fn first_match(&self, call: Call<'_>) -> Option<Matched> {
        self.look(call).find_map(|(_, look)| match look {
            Look::Matched(matched) => Some(matched),
            _ => None,
        })
    }

    /// What each rule makes of a call, one after the other.
    pub fn look<'a>(&'a self, call: Call<'a>) -> impl Iterator<Item = (&'a Rule, Look)> {
        // Made for the first expression, and shared by the rest.
        let scope = OnceCell::new();
        self.0.iter().map(move |ready| (&ready.rule, ready.look(call, &scope)))
    }
}

impl Ready {
    fn look<'v>(&self, call: Call<'_>, scope: &OnceCell<Result<Scope<'v>, String>>) -> Look {
        let rule = &self.rule;
        if !glob::fits(&rule.tool, call.tool) {
            return Look::OtherTool;
        }
        let is_its_agent = |pattern: &String| call.agent.is_some_and(|agent| glob::fits(pattern, agent));
        if !rule.agent.as_ref().is_none_or(is_its_agent) {
            return Look::OtherAgent;
        }
        let holds = match &self.when {
            None => Ok(true),
            Some(when) => match scope.get_or_init(|| Scope::of(call)) {
                Ok(scope) => when.holds(scope),
                Err(why) => Err(why.clone()),
            },
        };
        let (effect, failed) = match holds {
            Ok(false) => return Look::Untrue,
            Ok(true) => (rule.effect, None),
            Err(why) => (Effect::Ask, Some(why)),
        };
        let approvers = if effect == Effect::Ask { rule.approvers.clone() } else { Vec::new() };
        Look::Matched(Matched { name: rule.name.clone(), effect, reason: rule.reason.clone(), approvers, failed })
    }
}
