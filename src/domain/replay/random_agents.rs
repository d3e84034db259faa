//! Random agents on a small deterministic scheduler: they are recorded, killed after every entry, replayed, and edited.
//!
//! An agent is a tree of asks. A fiber stands for a task; what it hears goes into what it asks for next, together with
//! the order in which all fibers of its scope have heard things. So a replay in another order asks for other arguments.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use proptest::prelude::*;
use serde_json::json;

use super::order::around;
use super::*;

mod host;
mod properties;

use host::Host;

/// A part of an agent's code. `told`: its arguments depend on what was heard before.
#[derive(Debug, Clone, PartialEq)]
enum Node {
    Step {
        name: u8,
        told: bool,
        once: bool,
    },
    Ask {
        name: u8,
        told: bool,
    },
    Sleep,
    /// Raw I/O.
    Outside,
    /// A step whose body makes steps of its own.
    Call {
        name: u8,
        body: Vec<Node>,
    },
    /// Tasks that are all waited for, or of which the first wins and the others are cancelled.
    Tasks {
        race: bool,
        code: Vec<Vec<Node>>,
    },
    /// One of two ways, by what was heard.
    Branch(Vec<Node>, Vec<Node>),
}

/// One task at work.
#[derive(Debug)]
struct Fiber {
    /// What stands before the path of its task: `0#2/` in the body of `0#2`.
    scope: String,
    task: String,
    code: VecDeque<Node>,
    waits: Waits,
    heard: u64,
    steps: usize,
    timers: usize,
    children: usize,
}

#[derive(Debug)]
enum Waits {
    No,
    Result(String),
    Timer(String),
    Outside,
    Body(String, Option<Box<Fiber>>),
    Tasks { race: bool, fibers: Vec<Fiber>, ended: usize },
}

/// Whom a delivery is for.
#[derive(Debug, Clone, Copy, PartialEq)]
enum To<'a> {
    Path(&'a str),
    Timer(&'a str),
    Task(&'a str),
}

fn mix(left: u64, right: u64) -> u64 {
    let mixed = (left ^ right.wrapping_mul(0x9E37_79B9_7F4A_7C15)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed ^ (mixed >> 29)
}

impl Fiber {
    fn new(scope: &str, task: &str, code: &[Node]) -> Self {
        Self {
            scope: scope.to_owned(),
            task: task.to_owned(),
            code: code.iter().cloned().collect(),
            waits: Waits::No,
            heard: 0,
            steps: 0,
            timers: 0,
            children: 0,
        }
    }

    fn path(&self) -> String {
        format!("{}{}", self.scope, self.task)
    }

    /// Runs until it waits; true at its end.
    fn run(&mut self, host: &mut Host) -> Result<bool, AskError> {
        while matches!(self.waits, Waits::No) {
            let Some(node) = self.code.pop_front() else { return Ok(true) };
            self.start(node, host)?;
        }
        Ok(false)
    }

    fn identity(&mut self, kind: &str, name: u8, told: bool, host: &Host) -> StepIdentity {
        self.steps += 1;
        let seen = if told { mix(self.heard, host.order_of(&self.scope)) } else { 0 };
        let path = format!("{}#{}", self.path(), self.steps);
        identity(&path, kind, &format!("{kind}{name}"), json!({"input": format!("{seen:016x}")}))
    }

    fn start(&mut self, node: Node, host: &mut Host) -> Result<(), AskError> {
        match node {
            Node::Step { name, told, once } => {
                let step = self.identity("step", name, told, host);
                self.waits = Waits::Result(step.path.clone());
                host.step(step, once, &self.scope)
            }
            Node::Ask { name, told } => {
                let step = self.identity("interrupt", name, told, host);
                self.waits = Waits::Result(step.path.clone());
                host.interrupt(step, &self.scope)
            }
            Node::Sleep => {
                self.timers += 1;
                let path = format!("{}@{}", self.path(), self.timers);
                host.arm(&path, &self.scope);
                self.waits = Waits::Timer(path);
                Ok(())
            }
            Node::Outside => {
                self.waits = Waits::Outside;
                Ok(())
            }
            Node::Call { name, body } => {
                let step = self.identity("tool", name, false, host);
                let path = step.path.clone();
                let fiber = Box::new(Fiber::new(&format!("{path}/"), "0", &body));
                let runs_now = host.call(step, &self.scope)?;
                self.waits = Waits::Body(path.clone(), Some(fiber));
                if runs_now { self.begin(&path, host).map(drop) } else { Ok(()) }
            }
            Node::Tasks { race, code } => {
                let mut fibers = Vec::new();
                for code in &code {
                    self.children += 1;
                    fibers.push(Fiber::new(&self.scope, &format!("{}.{}", self.task, self.children), code));
                }
                let mut ended = 0;
                for fiber in &mut fibers {
                    ended += usize::from(fiber.run(host)?);
                }
                self.waits = Waits::Tasks { race, fibers, ended };
                self.join(host);
                Ok(())
            }
            Node::Branch(left, right) => {
                let taken = if self.heard.is_multiple_of(2) { left } else { right };
                for node in taken.into_iter().rev() {
                    self.code.push_front(node);
                }
                Ok(())
            }
        }
    }

    /// Goes on when enough of its tasks have ended.
    fn join(&mut self, host: &mut Host) {
        if let Waits::Tasks { race, fibers, ended } = &mut self.waits
            && (*ended == fibers.len() || (*race && *ended > 0))
        {
            for fiber in fibers {
                fiber.cancel(host);
            }
            self.waits = Waits::No;
        }
    }

    fn cancel(&mut self, host: &mut Host) {
        self.code.clear();
        match std::mem::replace(&mut self.waits, Waits::No) {
            Waits::No | Waits::Outside => {}
            Waits::Result(path) => host.withdraw(&path, &self.scope),
            Waits::Timer(path) => host.disarm(&path, &self.scope),
            Waits::Body(path, fiber) => {
                host.withdraw(&path, &self.scope);
                if let Some(mut fiber) = fiber {
                    fiber.cancel(host);
                }
            }
            Waits::Tasks { fibers, .. } => {
                for mut fiber in fibers {
                    fiber.cancel(host);
                }
            }
        }
    }

    /// Starts the body of the call at `path`; true when it is here.
    fn begin(&mut self, path: &str, host: &mut Host) -> Result<bool, AskError> {
        match &mut self.waits {
            Waits::Body(here, Some(fiber)) if here == path => {
                let ended = fiber.run(host)?;
                self.body_ran(ended, host);
                Ok(true)
            }
            Waits::Body(_, Some(fiber)) => fiber.begin(path, host),
            Waits::Tasks { fibers, .. } => {
                for fiber in fibers {
                    if fiber.begin(path, host)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            _ => Ok(false),
        }
    }

    fn body_ran(&mut self, ended: bool, host: &mut Host) {
        if let (true, Waits::Body(path, fiber)) = (ended, &mut self.waits) {
            *fiber = None;
            host.body_ended(path);
        }
    }

    /// Hands a value to whoever waits for it, and runs what follows. None: nobody does. True: this fiber has ended.
    fn give(&mut self, to: To<'_>, value: u64, host: &mut Host) -> Result<Option<bool>, AskError> {
        let is_mine = match &self.waits {
            Waits::Result(path) | Waits::Body(path, _) => to == To::Path(path),
            Waits::Timer(path) => to == To::Timer(path),
            Waits::Outside => to == To::Task(&self.path()),
            Waits::No | Waits::Tasks { .. } => false,
        };
        if is_mine {
            self.waits = Waits::No;
            self.heard = mix(self.heard, value);
            host.hears(&self.scope, value);
            return self.run(host).map(Some);
        }
        match &mut self.waits {
            Waits::Body(_, Some(fiber)) => {
                let Some(ended) = fiber.give(to, value, host)? else { return Ok(None) };
                self.body_ran(ended, host);
                Ok(Some(false))
            }
            Waits::Tasks { fibers, ended, .. } => {
                for fiber in fibers {
                    if let Some(has_ended) = fiber.give(to, value, host)? {
                        *ended += usize::from(has_ended);
                        if has_ended {
                            self.heard = mix(self.heard, value);
                            self.join(host);
                        }
                        return self.run(host).map(Some);
                    }
                }
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    /// The tasks that wait for raw I/O.
    fn outside(&self) -> Vec<String> {
        match &self.waits {
            Waits::Outside => vec![self.path()],
            Waits::Body(_, Some(fiber)) => fiber.outside(),
            Waits::Tasks { fibers, .. } => fibers.iter().flat_map(Fiber::outside).collect(),
            _ => Vec::new(),
        }
    }
}

fn identity(path: &str, kind: &str, name: &str, arguments: serde_json::Value) -> StepIdentity {
    let step = json!({"path": path, "kind": kind, "name": name, "location": "agent.py:1", "arguments": arguments});
    serde_json::from_value(step).unwrap()
}
