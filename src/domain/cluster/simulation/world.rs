//! The servers, their clocks, the store and the network between.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use super::super::lease::{Beat, ServerLease};
use super::super::watch::{Suspect, Watch};
use super::super::{Moment, Timings};
use super::Random;

/// True time, in microseconds.
pub type Time = u64;

/// What lives again after it was called dead, as another server.
pub type Machine = usize;

/// A server's life.
pub type SimulatedLife = usize;

pub const SECOND: Time = 1_000_000;

/// What a world may do to its servers, and what is wrong with their protocol.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    pub timings: Timings,
    pub servers: usize,
    /// How far a clock's rate may be off, in per mille.
    pub drift: u64,
    /// How long a message takes at most.
    pub delay: Time,
    /// Of a hundred messages, how many are lost.
    pub lost: u64,
    /// Of a hundred messages, how many come up to 20 s late.
    pub late: u64,
    pub fault: Option<Fault>,
}

/// A rule of the protocol that is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A beat lasts from when it was answered.
    LeaseFromAnswer,
    /// A count was seen when it was asked for, and stands still until its look was answered.
    SeenWhenAsked,
    /// A row may be written dead whatever its count is meanwhile.
    BuriedUnseen,
}

impl Setting {
    /// Nothing goes wrong but what a run does on purpose.
    pub fn calm() -> Self {
        Self { timings: Timings::USUAL, servers: 3, drift: 1, delay: SECOND / 5, lost: 0, late: 0, fault: None }
    }

    /// Everything goes wrong.
    pub fn rough() -> Self {
        Self { servers: 4, drift: 100, delay: SECOND, lost: 10, late: 5, ..Self::calm() }
    }
}

/// One life of a server.
#[derive(Debug)]
struct Server {
    machine: Machine,
    /// What its clock shows at true time 0, and how much it goes on in a thousand microseconds.
    clock: (Time, u64),
    lease: ServerLease,
    watch: Watch<SimulatedLife>,
    state: State,
    /// What has come for it while it was stopped.
    waiting: Vec<WorldEvent>,
    /// The number of the beat that it waits for: what comes of an earlier one is too late.
    beats: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    Stopped,
    Killed,
}

/// A server's row.
#[derive(Debug, Clone, Copy)]
struct Row {
    beat: u64,
    died: Option<Time>,
}

#[derive(Debug, Clone)]
enum WorldEvent {
    /// A server sends its next beat.
    Due(SimulatedLife),
    /// A beat is at the store.
    BeatArrives {
        of: SimulatedLife,
        number: u64,
        begun: Moment,
    },
    /// Its answer is at the server.
    Answered {
        of: SimulatedLife,
        number: u64,
        begun: Moment,
        counts: Option<Vec<(SimulatedLife, u64)>>,
    },
    /// The server has waited for it long enough.
    GivenUp {
        of: SimulatedLife,
        number: u64,
        begun: Moment,
    },
    /// Somebody's word that somebody is dead is at the store.
    BurialArrives(Suspect<SimulatedLife>),
    Kill(Machine),
    Stop(Machine),
    GoOn(Machine),
    /// Nothing comes to the store, or from it, for a time.
    Outage(Time),
}

/// What a run came to.
#[derive(Debug, Default)]
pub struct Outcome {
    /// When each life was killed that was.
    pub killed: BTreeMap<SimulatedLife, Time>,
    /// When each life was called dead.
    pub deaths: BTreeMap<SimulatedLife, Time>,
    /// Who acted, or had workers, while it was dead: when, and whose life.
    pub acted_dead: Vec<(Time, SimulatedLife)>,
    /// Who may act at the end.
    pub acting: Vec<SimulatedLife>,
}

#[derive(Debug)]
pub struct World {
    setting: Setting,
    random: Random,
    now: Time,
    queue: BinaryHeap<Reverse<(Time, u64)>>,
    events: BTreeMap<u64, WorldEvent>,
    numbered: u64,
    servers: Vec<Server>,
    /// The life that each machine has now.
    machines: Vec<SimulatedLife>,
    rows: BTreeMap<SimulatedLife, Row>,
    out_until: Time,
    outcome: Outcome,
}

impl World {
    pub fn new(setting: Setting, seed: u64) -> Self {
        let mut world = Self {
            setting,
            random: Random(seed),
            now: 0,
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            numbered: 0,
            servers: Vec::new(),
            machines: vec![0; setting.servers],
            rows: BTreeMap::new(),
            out_until: 0,
            outcome: Outcome::default(),
        };
        for machine in 0..setting.servers {
            world.start(machine);
        }
        world
    }

    /// A new life, which begins within a second.
    fn start(&mut self, machine: Machine) {
        let life = self.servers.len();
        self.machines[machine] = life;
        let rate = self.random.within(1000 - self.setting.drift..1001 + self.setting.drift);
        self.servers.push(Server {
            machine,
            clock: (self.random.within(0..1000 * SECOND), rate),
            lease: ServerLease::new(self.setting.timings),
            watch: Watch::new(self.setting.timings),
            state: State::Running,
            waiting: Vec::new(),
            beats: 0,
        });
        self.rows.insert(life, Row { beat: 0, died: None });
        let begins = self.now + self.random.within(0..SECOND);
        self.put(begins, WorldEvent::Due(life));
    }

    pub fn kill(&mut self, at: Time, machine: Machine) {
        self.put(at, WorldEvent::Kill(machine));
    }

    pub fn stop(&mut self, at: Time, machine: Machine, how_long: Time) {
        self.put(at, WorldEvent::Stop(machine));
        self.put(at + how_long, WorldEvent::GoOn(machine));
    }

    pub fn outage(&mut self, at: Time, how_long: Time) {
        self.put(at, WorldEvent::Outage(how_long));
    }

    /// The network and the store are well from now on.
    pub fn heal(&mut self) {
        (self.setting.lost, self.setting.late, self.setting.delay) = (0, 0, SECOND / 5);
    }

    /// Lets everything happen up to a moment.
    pub fn run(&mut self, until: Time) {
        while let Some(&Reverse((at, number))) = self.queue.peek() {
            if at > until {
                break;
            }
            self.queue.pop();
            self.now = at;
            if let Some(event) = self.events.remove(&number) {
                self.happens(event);
            }
            self.look_for_the_acting_dead();
        }
        self.now = until;
    }

    pub fn finish(mut self) -> Outcome {
        let acting = (0..self.servers.len()).filter(|life| self.acts(*life, Duration::ZERO));
        self.outcome.acting = acting.collect();
        self.outcome.deaths = self.rows.iter().filter_map(|(life, row)| row.died.map(|at| (*life, at))).collect();
        self.outcome
    }

    fn put(&mut self, at: Time, event: WorldEvent) {
        self.numbered += 1;
        self.queue.push(Reverse((at, self.numbered)));
        self.events.insert(self.numbered, event);
    }

    /// Gives an event to the network.
    fn send(&mut self, event: WorldEvent) {
        if self.random.chance(self.setting.lost) || self.now < self.out_until {
            return;
        }
        let late = if self.random.chance(self.setting.late) { 20 * SECOND } else { self.setting.delay };
        let at = self.now + self.random.within(100..late);
        self.put(at, event);
    }

    /// What a server's clock shows.
    fn clock(&self, life: SimulatedLife) -> Moment {
        let (start, rate) = self.servers[life].clock;
        Duration::from_micros(start + self.now * rate / 1000)
    }

    /// When a server's clock shows something.
    fn true_time(&self, life: SimulatedLife, moment: Moment) -> Time {
        let (start, rate) = self.servers[life].clock;
        let shown = u64::try_from(moment.as_micros()).expect("a run lasts minutes");
        (shown.saturating_sub(start) * 1000).div_ceil(rate).max(self.now)
    }

    /// Whether a server would act now, or a worker of it, which lives `longer` than its lease. One that is stopped acts when
    /// it goes on, by what its clock shows then.
    fn acts(&self, life: SimulatedLife, longer: Duration) -> bool {
        let server = &self.servers[life];
        let ends = server.lease.ends();
        server.state != State::Killed && ends.is_some_and(|end| self.clock(life) < end + longer)
    }

    fn look_for_the_acting_dead(&mut self) {
        let kill = self.setting.timings.kill;
        for (life, row) in &self.rows {
            if row.died.is_some() && self.acts(*life, kill) {
                self.outcome.acted_dead.push((self.now, *life));
            }
        }
    }

    fn happens(&mut self, event: WorldEvent) {
        let of = match event {
            WorldEvent::Due(of) | WorldEvent::Answered { of, .. } | WorldEvent::GivenUp { of, .. } => Some(of),
            _ => None,
        };
        match of.map(|of| (of, self.servers[of].state)) {
            Some((_, State::Killed)) => {}
            Some((of, State::Stopped)) => self.servers[of].waiting.push(event),
            _ => self.takes_place(event),
        }
    }

    fn takes_place(&mut self, event: WorldEvent) {
        match event {
            WorldEvent::Due(of) => {
                self.servers[of].beats += 1;
                let (number, begun) = (self.servers[of].beats, self.clock(of));
                self.send(WorldEvent::BeatArrives { of, number, begun });
                let given_up = self.true_time(of, begun + self.setting.timings.patience);
                self.put(given_up, WorldEvent::GivenUp { of, number, begun });
            }
            WorldEvent::BeatArrives { of, number, begun } => {
                let counts = self.count(of);
                self.send(WorldEvent::Answered { of, number, begun, counts });
            }
            WorldEvent::Answered { of, number, begun, counts } => self.answered(of, number, begun, counts),
            WorldEvent::GivenUp { of, number, begun } if number == self.servers[of].beats => {
                self.servers[of].beats += 1;
                self.told(of, begun, Beat::Failed);
            }
            WorldEvent::GivenUp { .. } => {}
            WorldEvent::BurialArrives(suspect) => self.bury(suspect),
            WorldEvent::Kill(machine) => {
                self.servers[self.machines[machine]].state = State::Killed;
                self.outcome.killed.insert(self.machines[machine], self.now);
            }
            WorldEvent::Stop(machine) => self.turn(machine, State::Running, State::Stopped),
            WorldEvent::GoOn(machine) => {
                self.turn(machine, State::Stopped, State::Running);
                for event in std::mem::take(&mut self.servers[self.machines[machine]].waiting) {
                    self.takes_place(event);
                }
            }
            WorldEvent::Outage(how_long) => self.out_until = self.now + how_long,
        }
    }

    fn turn(&mut self, machine: Machine, from: State, to: State) {
        let server = &mut self.servers[self.machines[machine]];
        if server.state == from {
            server.state = to;
        }
    }

    /// The store counts a beat, and says what the others are at; `None` for the dead.
    fn count(&mut self, of: SimulatedLife) -> Option<Vec<(SimulatedLife, u64)>> {
        let row = self.rows.get_mut(&of)?;
        if row.died.is_some() {
            return None;
        }
        row.beat += 1;
        let living = self.rows.iter().filter(|(life, row)| **life != of && row.died.is_none());
        Some(living.map(|(life, row)| (*life, row.beat)).collect())
    }

    fn bury(&mut self, suspect: Suspect<SimulatedLife>) {
        let now = self.now;
        let unseen = self.setting.fault == Some(Fault::BuriedUnseen);
        if let Some(row) = self.rows.get_mut(&suspect.server)
            && row.died.is_none()
            && (row.beat == suspect.beat || unseen)
        {
            row.died = Some(now);
        }
    }

    fn answered(&mut self, of: SimulatedLife, number: u64, begun: Moment, counts: Option<Vec<(SimulatedLife, u64)>>) {
        let now = self.clock(of);
        let is_late = number != self.servers[of].beats;
        let beat = if counts.is_some() { Beat::Counted } else { Beat::Refused };
        let lease_from = if self.setting.fault == Some(Fault::LeaseFromAnswer) { now } else { begun };
        if is_late {
            // It was given up, and another one is under way, which says when the next is due.
            self.servers[of].lease.told(lease_from, beat);
            return;
        }
        let (asked, had) = if self.setting.fault == Some(Fault::SeenWhenAsked) { (now, begun) } else { (begun, now) };
        for suspect in self.servers[of].watch.look(asked, had, counts.into_iter().flatten()) {
            self.send(WorldEvent::BurialArrives(suspect));
        }
        self.servers[of].beats += 1;
        self.told(of, lease_from, beat);
    }

    /// A server hears what came of its beat. One that was called dead begins another life.
    fn told(&mut self, of: SimulatedLife, begun: Moment, beat: Beat) {
        let now = self.clock(of);
        self.servers[of].lease.told(begun, beat);
        match self.servers[of].lease.next_beat(begun, now, beat) {
            Some(next) => {
                let decides = self.servers[of].watch.decides_after(begun);
                let at = self.true_time(of, decides.map_or(next, |decides| next.min(decides)));
                self.put(at, WorldEvent::Due(of));
            }
            None => self.start(self.servers[of].machine),
        }
    }
}
