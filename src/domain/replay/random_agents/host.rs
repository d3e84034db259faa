//! The runtime and the world around a random agent: one of both, so that a run can be stopped anywhere.

use super::*;

/// A record on its way to the journal; several may be under way, and they arrive in order.
#[derive(Debug, Clone)]
enum Sent {
    Intent(StepIdentity),
    Step(StepIdentity),
    Ask(StepIdentity),
    Withdraw(String),
    Timer(String),
    Wakes(Vec<ReplayWake>),
}

#[derive(Debug)]
enum Gated {
    Step(StepIdentity, bool),
    Ask(StepIdentity),
    Call(StepIdentity),
    Ended(String),
}

/// What a run has asked for, given up, set and been told, by scope.
pub type Trace = BTreeMap<String, Vec<String>>;

/// Everything about a run but its fibers.
#[derive(Debug, Default)]
pub struct Host {
    pub trace: Trace,
    pub journal: Vec<ReplayRecord>,
    /// How many entries have been delivered or passed.
    pub delivered: usize,
    replay: Option<Replay>,
    gate: Vec<Gated>,
    orders: HashMap<String, u64>,
    calls: HashMap<String, StepIdentity>,
    working: Vec<StepIdentity>,
    outbox: VecDeque<Sent>,
    /// Interrupts that the journal has open.
    pending: Vec<(String, String)>,
    armed: Vec<String>,
    withdrawn_asks: BTreeSet<String>,
    marks: Vec<ReplayWake>,
    last: usize,
}

/// One run of an agent.
#[derive(Debug)]
pub struct Run {
    pub host: Host,
    pub root: Fiber,
    pub ended: bool,
}

impl Host {
    fn note(&mut self, scope: &str, line: String) {
        self.trace.entry(scope.to_owned()).or_default().push(line);
    }

    pub fn order_of(&self, scope: &str) -> u64 {
        self.orders.get(scope).copied().unwrap_or_default()
    }

    pub fn hears(&mut self, scope: &str, value: u64) {
        let order = self.orders.entry(scope.to_owned()).or_default();
        *order = mix(*order, value);
        self.note(scope, format!("hears {value}"));
    }

    fn ask(&mut self, step: &StepIdentity, once: bool, scope: &str) -> Result<StepLookup, AskError> {
        self.note(scope, format!("asks {} {} {:?}", step.path, step.name, step.arguments));
        match &mut self.replay {
            Some(replay) => replay.ask(step.clone(), once),
            None => Ok(StepLookup::Live),
        }
    }

    pub fn step(&mut self, step: StepIdentity, once: bool, scope: &str) -> Result<(), AskError> {
        match self.ask(&step, once, scope)? {
            StepLookup::Recorded => {}
            // A body that ran, and asks for nothing now: its inner entries will be in the way.
            _ if self.replay.is_some() => self.gate.push(Gated::Step(step, once)),
            _ => self.begin_step(step, once),
        }
        Ok(())
    }

    pub fn interrupt(&mut self, step: StepIdentity, scope: &str) -> Result<(), AskError> {
        match self.ask(&step, false, scope)? {
            StepLookup::Live if self.replay.is_some() => self.gate.push(Gated::Ask(step)),
            StepLookup::Live => self.send(Sent::Ask(step)),
            _ => {}
        }
        Ok(())
    }

    /// Whether the body runs now.
    pub fn call(&mut self, step: StepIdentity, scope: &str) -> Result<bool, AskError> {
        self.calls.insert(step.path.clone(), step.clone());
        match self.ask(&step, false, scope)? {
            StepLookup::Recorded => Ok(false),
            StepLookup::Body => Ok(true),
            StepLookup::Live if self.replay.is_some() => {
                self.gate.push(Gated::Call(step));
                Ok(false)
            }
            StepLookup::Live => Ok(true),
            asked => panic!("a call was {asked:?}"),
        }
    }

    pub fn body_ended(&mut self, path: &str) {
        if self.replay.is_some() {
            self.gate.push(Gated::Ended(path.to_owned()));
        } else {
            self.send(Sent::Step(self.calls[path].clone()));
        }
    }

    pub fn arm(&mut self, path: &str, scope: &str) {
        self.note(scope, format!("arms {path}"));
        self.armed.push(path.to_owned());
        if let Some(replay) = &mut self.replay {
            replay.arm(path).unwrap();
        }
    }

    pub fn disarm(&mut self, path: &str, scope: &str) {
        self.note(scope, format!("disarms {path}"));
        self.armed.retain(|armed| armed != path);
        if let Some(replay) = &mut self.replay {
            replay.disarm(path);
        }
    }

    pub fn withdraw(&mut self, path: &str, scope: &str) {
        self.note(scope, format!("withdraws {path}"));
        if let Some(replay) = &mut self.replay {
            replay.withdraw(path);
            self.gate.retain(|gated| match gated {
                Gated::Step(step, _) | Gated::Ask(step) | Gated::Call(step) => step.path != path,
                Gated::Ended(ended) => ended != path,
            });
        } else {
            self.working.retain(|step| step.path != path);
            if self.outbox.iter().any(|sent| matches!(sent, Sent::Ask(step) if step.path == path)) {
                self.withdrawn_asks.insert(path.to_owned());
            } else if let Some((interrupt, _)) = self.pending.iter().find(|(_, pending)| pending == path) {
                self.outbox.push_back(Sent::Withdraw(interrupt.clone()));
            }
        }
    }

    fn begin_step(&mut self, step: StepIdentity, once: bool) {
        if once {
            self.send(Sent::Intent(step.clone()));
        }
        self.working.push(step);
    }

    fn send(&mut self, sent: Sent) {
        if !self.marks.is_empty() {
            self.outbox.push_back(Sent::Wakes(std::mem::take(&mut self.marks)));
        }
        self.outbox.push_back(sent);
    }

    fn append(&mut self, entry: ReplayEntry) {
        self.journal.push(ReplayRecord { at: self.journal.len() as i64, entry });
    }

    fn commit(&mut self, sent: Sent) {
        match sent {
            Sent::Intent(step) => self.append(ReplayEntry::Intent(step)),
            Sent::Step(step) => self.append(ReplayEntry::Step(step)),
            Sent::Timer(path) => self.append(ReplayEntry::Timer(path)),
            Sent::Wakes(wakes) => self.append(ReplayEntry::Wakes(wakes)),
            Sent::Ask(step) => {
                let (interrupt, path) = (format!("interrupt-{}", self.journal.len()), step.path.clone());
                self.append(ReplayEntry::Ask { step, interrupt: interrupt.clone() });
                if self.withdrawn_asks.remove(&path) {
                    self.outbox.push_back(Sent::Withdraw(interrupt.clone()));
                }
                self.pending.push((interrupt, path));
            }
            Sent::Withdraw(interrupt) => {
                if let Some(place) = self.pending.iter().position(|(pending, _)| *pending == interrupt) {
                    self.pending.remove(place);
                    self.append(ReplayEntry::Withdrawn(interrupt));
                }
            }
        }
    }
}

/// Chance, the same on every machine.
pub struct Chance(pub u64);

impl Chance {
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        (mix(self.0, 1) % limit as u64) as usize
    }
}

impl Run {
    /// A new turn, its agent started.
    pub fn start(code: &[Node]) -> Self {
        let mut host = Host::default();
        host.append(ReplayEntry::Author(Author { code: "one".to_owned(), python: "3.11".to_owned() }));
        let mut run = Self { host, root: Fiber::new("", "0", code), ended: false };
        run.ended = run.root.run(&mut run.host).unwrap();
        run
    }

    /// The agent run again from a journal, until that is at its end.
    pub fn replay(code: &[Node], journal: &[ReplayRecord]) -> Result<Self, Box<Mismatch>> {
        let replay = Replay::new(journal.to_vec(), "two").unwrap();
        let host = Host { replay: Some(replay), journal: journal.to_vec(), ..Host::default() };
        let mut run = Self { host, root: Fiber::new("", "0", code), ended: false };
        match run.replay_all() {
            Ok(()) => Ok(run),
            Err(AskError::Mismatch(mismatch)) => Err(mismatch),
            Err(AskError::Invalid(error)) => panic!("{error}"),
        }
    }

    fn replay_all(&mut self) -> Result<(), AskError> {
        self.ended = self.root.run(&mut self.host)?;
        loop {
            let replay = self.host.replay.as_mut().unwrap();
            if self.ended {
                self.host.delivered = self.host.journal.len();
                return replay.returned().map_or(Ok(()), |left| Err(AskError::Mismatch(Box::new(left))));
            }
            match replay.next() {
                ReplayAction::Deliver { index, path } => {
                    let path = path.to_owned();
                    self.tell(index, &path)?;
                }
                ReplayAction::End => break,
                ReplayAction::Wake(task) if self.root.outside().contains(&task.to_owned()) => {
                    let task = task.to_owned();
                    replay.woken().unwrap();
                    self.wake(&task)?;
                }
                ReplayAction::Wake(_) | ReplayAction::Wait => {
                    // Raw I/O whose mark was lost comes to its end by itself.
                    if let Some(task) = self.root.outside().first() {
                        self.wake(task)?;
                    } else {
                        let held = self.host.gate.iter().filter_map(|gated| match gated {
                            Gated::Step(step, _) | Gated::Ask(step) | Gated::Call(step) => Some(step.clone()),
                            Gated::Ended(_) => None,
                        });
                        if let Some(mismatch) = replay.stuck(&held.collect::<Vec<_>>()) {
                            return Err(AskError::Mismatch(Box::new(mismatch)));
                        }
                    }
                }
            }
        }
        self.go_live()
    }

    fn go_live(&mut self) -> Result<(), AskError> {
        let host = &mut self.host;
        let replay = host.replay.take().unwrap();
        let mut settled = BTreeSet::new();
        for recorded in &host.journal {
            match &recorded.entry {
                ReplayEntry::Ask { step, interrupt } => host.pending.push((interrupt.clone(), step.path.clone())),
                ReplayEntry::Settled(interrupt) | ReplayEntry::Withdrawn(interrupt) => {
                    settled.insert(interrupt.clone());
                }
                _ => {}
            }
        }
        host.pending.retain(|(interrupt, _)| !settled.contains(interrupt));
        host.outbox.extend(replay.orphans().into_iter().map(|interrupt| Sent::Withdraw(interrupt.to_owned())));
        host.delivered = host.journal.len();
        host.last = host.journal.len() - 1;
        for gated in std::mem::take(&mut host.gate) {
            match gated {
                Gated::Step(step, once) => self.host.begin_step(step, once),
                Gated::Ask(step) => self.host.send(Sent::Ask(step)),
                Gated::Call(step) => drop(self.root.begin(&step.path, &mut self.host)?),
                Gated::Ended(path) => self.host.body_ended(&path),
            }
        }
        Ok(())
    }

    /// Delivers the entry `index`, whose value is its index.
    fn tell(&mut self, index: usize, path: &str) -> Result<(), AskError> {
        let is_timer = matches!(self.host.journal[index].entry, ReplayEntry::Timer(_));
        self.host.last = index;
        self.host.armed.retain(|armed| !is_timer || armed != path);
        let to = if is_timer { To::Timer(path) } else { To::Path(path) };
        let ended = self.root.give(to, index as u64, &mut self.host)?;
        self.ended |= ended == Some(true);
        Ok(())
    }

    fn wake(&mut self, task: &str) -> Result<(), AskError> {
        self.ended |= self.root.give(To::Task(task), 0, &mut self.host)? == Some(true);
        Ok(())
    }

    /// Delivers or passes the next entry.
    pub fn deliver_next(&mut self) {
        let index = self.host.delivered;
        self.host.delivered += 1;
        let path = match &self.host.journal[index].entry {
            ReplayEntry::Step(step) => step.path.clone(),
            ReplayEntry::Timer(path) => path.clone(),
            ReplayEntry::Settled(interrupt) => self.path_of(interrupt),
            _ => return,
        };
        self.tell(index, &path).unwrap();
    }

    fn path_of(&self, id: &str) -> String {
        let asks = self.host.journal.iter().find_map(|recorded| match &recorded.entry {
            ReplayEntry::Ask { step, interrupt } if interrupt == id => Some(step.path.clone()),
            _ => None,
        });
        asks.unwrap()
    }

    /// Lets one thing happen in the world; false when nothing can, or the agent has returned.
    pub fn happen(&mut self, chance: &mut Chance) -> bool {
        let outside = self.root.outside();
        let host = &mut self.host;
        let undelivered = host.journal.len() - host.delivered;
        let counts = [
            usize::from(undelivered > 0) * 2,
            usize::from(!host.outbox.is_empty()) * 2,
            host.working.len(),
            host.pending.len(),
            host.armed.len(),
            outside.len(),
        ];
        let total: usize = counts.iter().sum();
        if self.ended || total == 0 {
            return false;
        }
        let mut drawn = chance.below(total);
        let mut kind = 0;
        while drawn >= counts[kind] {
            drawn -= counts[kind];
            kind += 1;
        }
        match kind {
            0 => self.deliver_next(),
            1 => {
                let sent = host.outbox.pop_front().unwrap();
                host.commit(sent);
            }
            2 => {
                let step = host.working.remove(drawn);
                host.send(Sent::Step(step));
            }
            3 => {
                let (interrupt, _) = host.pending.remove(drawn);
                host.append(ReplayEntry::Settled(interrupt));
            }
            4 => {
                let path = host.armed.remove(drawn);
                host.send(Sent::Timer(path));
            }
            _ => {
                host.marks.push(ReplayWake { after: host.last, task: outside[drawn].clone(), location: None });
                self.wake(&outside[drawn]).unwrap();
            }
        }
        true
    }
}
