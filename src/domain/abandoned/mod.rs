//! From a journal to what was done. Calls are found by the id that their entries carry; in a journal that was written
//! before entries had it, by the tool's name, where that leaves no doubt.
//!
//! Steps of agents of other frameworks are named by keys, `~tool:c1`, and say nothing of tasks: a call is the one of the
//! last message before it that has its id. Nodes of a graph, `~node:...`, are steps around what they do, and the
//! conversation goes through them.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::decision::{Decision, DecisionKind, TOOL_APPROVAL, Terms};
use super::journal::{
    Abandoned, AbandonedCall, AbandonedReply, CallOutcome, Entry, LONGEST, MOST, RecordedEntry, StepIdentity,
    StepResult,
};
use super::message::{ChatMessage, ToolCall};
use super::payload::json_size;
use super::{InterruptId, JsonObject};

/// How the name of a step begins that is a node of a graph.
const NODE: &str = "~node:";

/// Where a step was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct CallSite<'j> {
    /// The path of the step that it is inside of; empty for none.
    scope: &'j str,
    /// The task in that scope.
    task: &'j str,
}

impl<'j> CallSite<'j> {
    fn of(path: &'j str) -> Self {
        let (scope, inner) = path.rsplit_once('/').unwrap_or(("", path));
        Self { scope, task: inner.split(['#', '~']).next().unwrap_or(inner) }
    }

    /// Whether a key of its own names the step that was asked for here, and no task does.
    fn is_keyed(&self) -> bool {
        self.task.is_empty()
    }

    /// The steps that it is inside of, without nodes of graphs.
    fn around(&self) -> impl Iterator<Item = &'j str> {
        self.scope.split('/').filter(|step| !step.is_empty() && !step.starts_with(NODE))
    }

    /// Whether both are named by keys, in the same conversation.
    fn is_beside(&self, other: CallSite<'_>) -> bool {
        self.is_keyed() && other.is_keyed() && self.around().eq(other.around())
    }

    /// Whether a task of `other` made this one, at whatever distance.
    fn is_below(&self, other: CallSite<'_>) -> bool {
        self.scope == other.scope && self.task.strip_prefix(other.task).is_some_and(|rest| rest.starts_with('.'))
    }

    /// The numbers of the tasks, for their order.
    fn order(&self) -> Vec<u64> {
        self.task.split('.').map(|number| number.parse().unwrap_or(u64::MAX)).collect()
    }
}

/// A model's message with tool calls.
struct Reply<'j> {
    place: CallSite<'j>,
    index: usize,
    content: Option<String>,
    calls: Vec<ToolCall>,
}

impl Reply<'_> {
    fn has(&self, call: &str) -> bool {
        self.calls.iter().any(|other| other.id == call)
    }
}

/// What a journal tells of one call, or of one step inside of a call.
struct Trace<'j> {
    place: CallSite<'j>,
    index: usize,
    name: &'j str,
    /// The call's id; none in older journals, and for a step.
    id: Option<&'j str>,
    is_step: bool,
    /// The path of the tool's own step, once that has begun or is over.
    path: Option<&'j str>,
    has_begun: bool,
    asked: Option<InterruptId>,
    /// The question whose answer is the call's result, of a call that does not run here.
    put: Option<InterruptId>,
    outcome: Option<CallOutcome>,
    guardrails: usize,
}

/// What was settled of an interrupt.
enum Settled<'j> {
    Answered(&'j Value),
    Expired,
}

/// What is known after a turn about `message` with this journal came to no answer; `before` is what was known before it.
/// `None` where nothing was done.
pub fn known(before: Option<&Abandoned>, message: &ChatMessage, journal: &[RecordedEntry]) -> Option<Abandoned> {
    let (replies, older) = replies(journal);
    Abandoned::with(before, message, replies, older)
}

/// What the models of a turn said and had done: the last of it, as much as may be kept and a little more, and how many
/// calls were before that.
fn replies(journal: &[RecordedEntry]) -> (Vec<AbandonedReply>, usize) {
    let read = Read::of(journal);
    let mut outermost = read.replies.iter().filter(|reply| reply.place.around().next().is_none()).rev();
    let (mut told, mut size) = (Vec::new(), 0);
    while let Some(reply) = (size <= MOST).then(|| outermost.next()).flatten() {
        let reply = read.told(reply);
        size += json_size(&reply);
        told.push(reply);
    }
    told.reverse();
    (told, outermost.map(|reply| reply.calls.len()).sum())
}

struct Read<'j> {
    replies: Vec<Reply<'j>>,
    traces: Vec<Trace<'j>>,
    settled: HashMap<InterruptId, Settled<'j>>,
    /// Where in `traces` those of each call are, by its id, and those of steps, by their paths.
    by_id: HashMap<&'j str, Vec<usize>>,
    by_path: HashMap<&'j str, usize>,
    /// Steps that are over.
    over: HashSet<&'j str>,
    /// Steps that have steps of their own.
    outer: HashSet<&'j str>,
}

impl<'j> Read<'j> {
    fn of(journal: &'j [RecordedEntry]) -> Self {
        let mut read = Self {
            replies: Vec::new(),
            traces: Vec::new(),
            settled: HashMap::new(),
            by_id: HashMap::new(),
            by_path: HashMap::new(),
            over: HashSet::new(),
            outer: HashSet::new(),
        };
        for (index, recorded) in journal.iter().enumerate() {
            match &recorded.entry {
                Entry::Intent { step, .. } => {
                    read.note_outer(step);
                    if let Some(trace) = read.trace(step, index) {
                        trace.has_begun = true;
                        trace.path = Some(&step.path);
                        trace.outcome = None; // it begins again, once what it asked is answered
                    }
                }
                Entry::Ask { step, interrupt_id } => {
                    read.note_outer(step);
                    if step.name == TOOL_APPROVAL && step.tool_call_id.is_some() {
                        let trace = read.trace_of_call(step, "", index);
                        trace.asked = Some(*interrupt_id);
                    } else if let Some(id) = &step.tool_call_id
                        && is_named(&step.path, "~ask:", id)
                    {
                        let trace = read.trace_of_call(step, "", index);
                        trace.put = Some(*interrupt_id);
                    }
                }
                Entry::Step { step, result } => {
                    read.note_outer(step);
                    read.over.insert(&step.path);
                    read.step(step, result, index);
                }
                Entry::Answer { interrupt_id, value } => {
                    read.settled.insert(*interrupt_id, Settled::Answered(value));
                }
                Entry::Expire { interrupt_id } => {
                    read.settled.insert(*interrupt_id, Settled::Expired);
                }
                _ => {}
            }
        }
        read
    }

    /// Remembers which step this one is inside of, unless it only asks what came of that.
    fn note_outer(&mut self, step: &'j StepIdentity) {
        if let Some((outer, inner)) = step.path.rsplit_once('/')
            && !inner.starts_with('?')
        {
            self.outer.insert(outer);
        }
    }

    fn step(&mut self, step: &'j StepIdentity, result: &'j StepResult, index: usize) {
        match (step.kind.as_str(), result) {
            ("model", StepResult::Value(value)) => {
                let message = value.get("message");
                let calls = message.and_then(|message| message.get("tool_calls")).and_then(Value::as_array);
                let calls: Vec<ToolCall> =
                    calls.into_iter().flatten().filter_map(|call| serde_json::from_value(call.clone()).ok()).collect();
                if !calls.is_empty() {
                    let content = message.and_then(|message| message.get("content")).and_then(Value::as_str);
                    let content = content.map(str::to_owned);
                    self.replies.push(Reply { place: CallSite::of(&step.path), index, content, calls });
                }
            }
            // A hook that answers in the tool's place.
            ("hook", StepResult::Value(text @ Value::String(_))) if step.tool_call_id.is_some() => {
                self.trace_of_call(step, "", index).outcome = Some(CallOutcome::Value(text.clone()));
            }
            ("guardrail", result) => {
                let place = CallSite::of(&step.path);
                let of = |trace: &&mut Trace<'_>| {
                    trace.place == place
                        && trace.outcome.is_some()
                        && step.name.starts_with(&format!("{}.", trace.name))
                };
                if let Some(trace) = self.traces.iter_mut().rev().find(of) {
                    trace.guardrails += 1;
                    if !matches!(result, StepResult::Value(Value::Null)) {
                        trace.outcome = Some(outcome_of(result));
                    }
                }
            }
            ("tool" | "step", result) => {
                if let Some(trace) = self.trace(step, index) {
                    trace.path = Some(&step.path);
                    trace.guardrails = 0;
                    trace.outcome = Some(if trace.is_step { CallOutcome::Finished } else { outcome_of(result) });
                    if let (true, StepResult::Error(_)) = (trace.is_step, result) {
                        trace.outcome = Some(CallOutcome::Failed("the step failed".to_owned()));
                    }
                }
            }
            _ => {}
        }
    }

    /// Where a tool call, or a step inside of one, is noted. Other steps of the turn are the agent's own business.
    fn trace(&mut self, step: &'j StepIdentity, index: usize) -> Option<&mut Trace<'j>> {
        match step.kind.as_str() {
            "tool" => Some(self.trace_of_call(step, &step.name, index)),
            "step" if step.path.contains('/') => {
                let trace = self.find(index, CallSite::of(&step.path), &step.name, None, &step.path);
                trace.is_step = true;
                Some(trace)
            }
            _ => None,
        }
    }

    /// `name`: empty where the step is not the tool's own.
    fn trace_of_call(&mut self, step: &'j StepIdentity, name: &'j str, index: usize) -> &mut Trace<'j> {
        let trace = self.find(index, CallSite::of(&step.path), name, step.tool_call_id.as_deref(), &step.path);
        if trace.name.is_empty() {
            trace.name = name;
        }
        trace
    }

    fn find(
        &mut self,
        index: usize,
        place: CallSite<'j>,
        name: &'j str,
        id: Option<&'j str>,
        path: &'j str,
    ) -> &mut Trace<'j> {
        let said = id.filter(|_| place.is_keyed()).and_then(|id| {
            let has_it = |reply: &&Reply<'_>| reply.place.is_beside(place) && reply.has(id);
            self.replies.iter().rev().find(has_it).map(|reply| reply.index)
        });
        let is_it = |trace: &Trace<'_>| match place.is_keyed() {
            true => trace.place.is_beside(place) && said.is_none_or(|said| trace.index > said),
            false => trace.place == place,
        };
        let known = match id {
            Some(id) => self.by_id.get(id).and_then(|known| known.iter().copied().find(|at| is_it(&self.traces[*at]))),
            None => self.by_path.get(path).copied(),
        };
        let at = known.unwrap_or_else(|| {
            match id {
                Some(id) => self.by_id.entry(id).or_default().push(self.traces.len()),
                None => drop(self.by_path.insert(path, self.traces.len())),
            }
            self.traces.push(Trace {
                place,
                index,
                name,
                id,
                is_step: false,
                path: id.is_none().then_some(path),
                has_begun: false,
                asked: None,
                put: None,
                outcome: None,
                guardrails: 0,
            });
            self.traces.len() - 1
        });
        &mut self.traces[at]
    }

    /// A message of a model, with what came of its calls.
    fn told(&self, reply: &Reply<'j>) -> AbandonedReply {
        let mut told = AbandonedReply {
            content: reply.content.clone(),
            calls: reply.calls.iter().map(|call| self.called(call, reply)).collect(),
            within: self.within(reply),
        };
        told.shorten(LONGEST);
        told
    }

    /// Up to where the journal is about this message: the next one of the same conversation. Where steps are named by
    /// keys, about this call of it: the next one that has its id.
    fn end_of(&self, reply: &Reply<'_>, call: &str) -> usize {
        let is_next = |next: &&Reply<'_>| match reply.place.is_keyed() {
            true => next.place.is_beside(reply.place) && next.has(call),
            false => next.place == reply.place,
        };
        let next = self.replies.iter().filter(|next| next.index > reply.index).find(is_next);
        next.map_or(usize::MAX, |next| next.index)
    }

    fn called(&self, call: &ToolCall, reply: &Reply<'_>) -> AbandonedCall {
        let name = call.function.name.as_str();
        let (is_keyed, end) = (reply.place.is_keyed(), self.end_of(reply, &call.id));
        let belongs = |trace: &&Trace<'_>| {
            let is_its = if is_keyed { trace.place.is_beside(reply.place) } else { trace.place.is_below(reply.place) };
            is_its && (reply.index..end).contains(&trace.index)
        };
        let traces: Vec<&Trace<'_>> = self.traces.iter().filter(belongs).collect();
        let mut by_id = traces.iter().filter(|trace| trace.id == Some(call.id.as_str()));
        let found = match (by_id.next(), by_id.next()) {
            (Some(trace), None) => Ok(Some(*trace)),
            (Some(_), Some(_)) => Err(()),
            (None, _) if is_keyed => Ok(None), // they all have ids
            (None, _) => by_name(call, &reply.calls, &traces),
        };
        let (outcome, edited, guardrails) = match found {
            Ok(Some(trace)) => self.came_of(trace),
            Ok(None) => (CallOutcome::Unfinished, None, 0),
            Err(()) => (CallOutcome::Unknown, None, 0),
        };
        let (id, arguments) = (Some(call.id.clone()), Some(call.function.arguments.clone()));
        AbandonedCall { id, name: name.to_owned(), arguments, edited, outcome, guardrails }
    }

    /// What came of the call or step of a trace, what was made of its arguments, and how many guardrails saw the result.
    fn came_of(&self, trace: &Trace<'_>) -> (CallOutcome, Option<JsonObject>, usize) {
        let settled = trace.asked.map(|asked| self.settled.get(&asked));
        let decided = match settled {
            Some(Some(Settled::Answered(value))) => {
                let terms = Terms { allowed: &DecisionKind::ALL, tool_name: None, args_schema: None };
                Decision::recorded(value, terms).ok()
            }
            _ => None,
        };
        let edited = match &decided {
            Some(Decision::Edit { args }) => Some(args.clone()),
            _ => None,
        };
        match trace.put.map(|put| self.settled.get(&put)) {
            Some(Some(Settled::Answered(value))) => return (CallOutcome::Responded((*value).clone()), edited, 0),
            Some(Some(Settled::Expired)) => return (CallOutcome::Expired, edited, 0),
            Some(None) => return (CallOutcome::Unfinished, edited, 0),
            None => {}
        }
        if let Some(outcome) = &trace.outcome {
            return (outcome.clone(), edited, trace.guardrails);
        }
        let is_in_flight = trace.has_begun && !trace.path.is_some_and(|path| self.outer.contains(path));
        let outcome = match (is_in_flight, decided, settled) {
            (true, ..) => CallOutcome::Unknown,
            (_, Some(Decision::Reject { reason, message, by, .. }), _) => CallOutcome::Rejected { reason, message, by },
            (_, Some(Decision::Respond { message }), _) => CallOutcome::Responded(message),
            (_, _, Some(Some(Settled::Expired))) => CallOutcome::Expired,
            (_, _, Some(None)) => CallOutcome::Undecided,
            _ => CallOutcome::Unfinished,
        };
        (outcome, edited, 0)
    }

    /// What is known of the calls and steps inside of those calls of the message that came to no end.
    fn within(&self, reply: &Reply<'_>) -> Vec<AbandonedCall> {
        let is_open = |scope: &str| {
            let mut outer = Some(scope);
            while let Some(path) = outer {
                if self.over.contains(path) && !is_node(path) {
                    return false;
                }
                outer = path.rsplit_once('/').map(|(outer, _)| outer);
            }
            true
        };
        let is_in = |trace: &Trace<'_>, root: &str, call: &ToolCall| {
            let is_its = match reply.place.is_keyed() {
                true => is_named(root, "~tool:", &call.id),
                false => CallSite::of(root).is_below(reply.place),
            };
            is_its && (reply.index..self.end_of(reply, &call.id)).contains(&trace.index)
        };
        let is_within = |trace: &&Trace<'_>| {
            let root = trace.place.around().next();
            root.is_some_and(|root| reply.calls.iter().any(|call| is_in(trace, root, call)))
                && is_open(trace.place.scope)
                && !(trace.is_step && trace.path.is_some_and(|path| self.is_node_around(path)))
        };
        let told = |trace: &Trace<'_>| {
            let (outcome, edited, guardrails) = self.came_of(trace);
            let call = self.call_of(trace);
            let name = call.map_or(trace.name, |call| call.function.name.as_str()).to_owned();
            let arguments = call.map(|call| call.function.arguments.clone());
            let id = trace.id.map(str::to_owned);
            AbandonedCall { id, name, arguments, edited, outcome, guardrails }
        };
        let known = self.traces.iter().filter(is_within).map(told);
        known.filter(|call| call.outcome != CallOutcome::Unfinished && !call.name.is_empty()).collect()
    }

    /// Whether a step is a node of a graph with steps of its own: those are what is told.
    fn is_node_around(&self, path: &str) -> bool {
        self.outer.contains(path) && is_node(path)
    }

    /// The call that a model inside of a call made, by its id.
    fn call_of(&self, trace: &Trace<'_>) -> Option<&ToolCall> {
        let id = trace.id?;
        let asked = self.replies.iter().rev().find(|reply| {
            let is_its = trace.place.is_below(reply.place) || trace.place.is_beside(reply.place);
            reply.index < trace.index && is_its && reply.has(id)
        });
        asked?.calls.iter().find(|call| call.id == id)
    }
}

/// Whether a step is a node of a graph.
fn is_node(path: &str) -> bool {
    path.rsplit('/').next().is_some_and(|step| step.starts_with(NODE))
}

/// Whether the last part of a path is a step with this kind of key, for the call (`keyed_step` in hitl/turn/places.py).
fn is_named(path: &str, kind: &str, call: &str) -> bool {
    let escaped = call.replace('%', "%25").replace('/', "%2F").replace('#', "%23");
    let key = path.rsplit('/').next().and_then(|step| step.strip_prefix(kind));
    key.and_then(|key| key.strip_prefix(&escaped)).is_some_and(|rest| rest.is_empty() || rest.starts_with('#'))
}

/// In a journal without ids: the steps of the tool are those of its calls in order where there are as many; else nobody
/// can tell which of the calls has run.
fn by_name<'t, 'j>(call: &ToolCall, calls: &[ToolCall], traces: &[&'t Trace<'j>]) -> Result<Option<&'t Trace<'j>>, ()> {
    let name = call.function.name.as_str();
    let mut unnamed: Vec<&Trace<'_>> =
        traces.iter().copied().filter(|trace| trace.id.is_none() && trace.name == name).collect();
    if unnamed.is_empty() {
        return Ok(None);
    }
    let alike: Vec<&ToolCall> = calls.iter().filter(|call| call.function.name == name).collect();
    if alike.len() != unnamed.len() {
        return Err(());
    }
    unnamed.sort_by_key(|trace| trace.place.order());
    let position = alike.iter().position(|other| std::ptr::eq(*other, call)).ok_or(())?;
    unnamed.get(position).copied().map(Some).ok_or(())
}

fn outcome_of(result: &StepResult) -> CallOutcome {
    match result {
        StepResult::Value(value) => CallOutcome::Value(value.clone()),
        StepResult::Error(error) => CallOutcome::Failed(raised(error)),
    }
}

/// As a model is told of it: our own errors speak for themselves, others with their class.
fn raised(error: &Value) -> String {
    let member = |name: &str| error.get(name).and_then(Value::as_str).unwrap_or_default();
    let is_ours = member("module").split('.').next() == Some("hitl");
    match (member("type"), member("message")) {
        ("", _) => "an error".to_owned(),
        (kind, "") => kind.to_owned(),
        (_, message) if is_ours => message.to_owned(),
        (kind, message) => format!("{kind}: {message}"),
    }
}

#[cfg(test)]
mod tests;
