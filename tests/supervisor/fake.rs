//! A worker in this test: it says what the test says, frame by frame, where a server has its one thread.

use std::collections::VecDeque;
use std::os::unix::net::UnixStream;

use hitl::supervisor::Supervisor;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::support::{Turn, World, captured_log, within};

/// See the module.
pub struct Fake {
    stream: tokio::net::UnixStream,
    calls: u64,
    /// Frames that came while another one was looked for.
    passed: VecDeque<Value>,
}

impl Fake {
    /// A supervisor whose one worker this is.
    pub async fn worker() -> (World, Self) {
        captured_log();
        let (mut fake, ours) = Self::silent();
        fake.greet(true).await;
        let supervisor = within(Supervisor::in_process(ours, 16_384, 60.0)).await.unwrap();
        (World::over(supervisor), fake)
    }

    /// A worker that has not said anything, and the other end of its channel.
    pub fn silent() -> (Self, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        theirs.set_nonblocking(true).unwrap();
        let stream = tokio::net::UnixStream::from_std(theirs).unwrap();
        (Self { stream, calls: 0, passed: VecDeque::new() }, ours)
    }

    /// Says hello, and whether what it runs can be replayed.
    pub async fn greet(&mut self, replay: bool) {
        self.say(&[json!({
            "frame": "hello", "protocol": 3, "pid": 1, "python": "3.11.2", "library": "0", "code": "c0de", "replay": replay,
        })])
        .await;
    }

    /// Says frames in one go.
    pub async fn say(&mut self, frames: &[Value]) {
        let mut bytes = Vec::new();
        for frame in frames {
            let body = serde_json::to_vec(frame).unwrap();
            bytes.extend(u32::try_from(body.len()).unwrap().to_be_bytes());
            bytes.extend(body);
        }
        within(self.stream.write_all(&bytes)).await.unwrap();
    }

    /// The next frame of the server.
    pub async fn next(&mut self) -> Value {
        match self.passed.pop_front() {
            Some(frame) => frame,
            None => within(self.read()).await,
        }
    }

    /// The next frame of this name; others keep.
    pub async fn next_of(&mut self, name: &str) -> Value {
        if let Some(place) = self.passed.iter().position(|frame| frame["frame"] == name) {
            return self.passed.remove(place).unwrap();
        }
        loop {
            let frame = within(self.read()).await;
            if frame["frame"] == name {
                return frame;
            }
            self.passed.push_back(frame);
        }
    }

    async fn read(&mut self) -> Value {
        let length = self.stream.read_u32().await.unwrap();
        let mut body = vec![0; length as usize];
        self.stream.read_exact(&mut body).await.unwrap();
        serde_json::from_slice(&body).unwrap()
    }

    fn call(&mut self) -> u64 {
        self.calls += 1;
        self.calls
    }

    /// A finished step.
    pub fn step(&mut self, turn: &Turn, name: &str) -> Value {
        json!({"frame": "step", "turn": turn.id, "call": self.call(), "step": identity("step", name), "result": {"value": 1}})
    }

    /// The beginning of a step that happens once.
    pub fn intent(&mut self, turn: &Turn, name: &str) -> Value {
        json!({"frame": "intent", "turn": turn.id, "call": self.call(), "step": identity("step", name)})
    }

    /// A question.
    pub fn ask(&mut self, turn: &Turn, kind: &str) -> Value {
        let interrupt = json!({"type": kind, "payload": {"type": kind}});
        json!({"frame": "ask", "turn": turn.id, "call": self.call(), "step": identity("interrupt", kind), "interrupt": interrupt})
    }

    /// A timer that fired.
    pub fn timer(&mut self, turn: &Turn, path: &str) -> Value {
        json!({"frame": "timer", "turn": turn.id, "call": self.call(), "path": path, "due": 5})
    }

    /// The end.
    pub fn end(&mut self, turn: &Turn, content: &str) -> Value {
        let result = json!({"response": {"role": "assistant", "content": content}, "state": []});
        json!({"frame": "end", "turn": turn.id, "call": self.call(), "result": result})
    }
}

/// Nothing is to be done but to wait.
pub fn waiting(turn: &Turn, seen: u64) -> Value {
    json!({"frame": "waiting", "turn": turn.id, "seen": seen, "timers": [{"path": "0@1", "due": 9}]})
}

/// The turn is dropped.
pub fn parked(turn: &Turn) -> Value {
    json!({"frame": "parked", "turn": turn.id, "left": 0})
}

fn identity(kind: &str, name: &str) -> Value {
    json!({"path": format!("0~{name}"), "kind": kind, "name": name, "arguments": {}})
}
