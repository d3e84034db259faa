"""The native core of hitl: the domain's checks, replay, and the server. Internal; use `hitl`."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, final

from hitl.errors import ReplayMismatch

__all__ = [
    "DEBUG_BUILD",
    "FAILPOINTS",
    "PYTHONS",
    "AuditVerifier",
    "GraphStore",
    "Replay",
    "RunBridge",
    "RunState",
    "RunStore",
    "Server",
    "StoredSessions",
    "__version__",
    "adopt_store",
    "check_attachment",
    "check_decision",
    "check_json",
    "check_payload",
    "check_questions",
    "check_response_schema",
    "check_store",
    "copy_store",
    "create_key",
    "described",
    "digest",
    "drain_server",
    "edited_text",
    "fingerprint",
    "flush_log",
    "init_logging",
    "list_keys",
    "list_servers",
    "log_text",
    "migrate_store",
    "push_policy",
    "pushed_policy",
    "read_decision",
    "read_frames",
    "rejection_text",
    "remove_policy",
    "revoke_key",
    "schema_script",
    "short_code",
    "store_schema",
    "to_json",
    "try_policy",
    "validate",
    "with_defaults",
    "write_frame",
    "zygote_request",
]

__version__: Final[str]
DEBUG_BUILD: Final[bool]
"""Whether the core was compiled without optimisation, as `maturin develop` does: several times slower."""
FAILPOINTS: Final[list[str]]
"""Where a test can let the server die (`HITL_FAILPOINT=<place>@<n>`); empty in every release."""
PYTHONS: Final[tuple[str, ...]]
"""Minor versions of Python on which hitl is tested, and that replay each other's journals: `3.11`, and so on."""

def check_payload(payload: object, max_bytes: int = 16384) -> str:
    """The compact JSON of a valid interrupt payload.

    Raises `TypeError` for what is no dict, has a `type` that is no string, or is not JSON; `ValueError` for NaN, cycles
    and anything above `max_bytes`.
    """

def to_json(value: object) -> str:
    """The compact JSON of a value; errors as `check_payload`."""

def check_json(text: str) -> None:
    """Raises `ValueError` for a text that is no JSON, or that not everybody reads alike: with a member that is there
    twice, a number that would be read as another one, or nested too deeply.
    """

def digest(value: object) -> str:
    """`sha256:<hex>` of a JSON value; the order of members does not matter."""

def check_response_schema(schema: object) -> None:
    """Raises `ValueError` where `schema` is no usable JSON Schema."""

def validate(schema: object, value: object) -> list[dict[str, Any]]:
    """What is wrong with `value` under `schema`: a list of `{"loc", "msg", "type"}`, empty when it is valid."""

def check_questions(arguments: object) -> dict[str, Any]:
    """The interrupt payload for the arguments of `ask_user_question`; `ValueError` names each wrong field."""

def read_decision(value: object, allowed: list[str], tool_name: str | None = None) -> dict[str, Any]:
    """A recorded answer to a tool approval, with every member of its kind: `{"type": "approve", "always", "by"}`,
    `{"type": "edit", "args"}`, `{"type": "reject", "reason", "message", "always", "by"}` or `{"type": "respond",
    "message"}`.

    `by` is `person` or `policy`. Raises `ValueError` for anything else, and for what `allowed` does not list.
    """

def check_decision(
    value: object,
    allowed: list[str],
    tool_name: str | None = None,
    args_schema: Mapping[str, object] | bool | None = None,
) -> dict[str, Any]:
    """What somebody decides, as `read_decision` gives it; the arguments of an edit have to fit `args_schema`. Raises
    `ValueError`, which names every place that is wrong."""

def rejection_text(
    tool_name: str, reason: str | None = None, message: str | None = None, by: Literal["person", "policy"] = "person"
) -> str:
    """What the model is told of a rejection: `User rejected NAME: reason`, or `Policy rejected`; `message` replaces
    all of it."""

def with_defaults(value: object, schema: Mapping[str, object]) -> Any:
    """`value` with the defaults that a schema of its own names for members that are not there, also deeper inside."""

def edited_text(args: Mapping[str, object]) -> str:
    """What the model is told, after its result, of a call that ran with other arguments than its own."""

def push_policy(address: str, text: str) -> tuple[dict[str, Any], bool]:
    """Puts a policy (the text of its file) into the store at `address`, which is made where it is missing: the policy
    as it is there now (`text`, `digest`, `pushed_at`, `pushed_by`), and whether it is another one than before.

    Raises `ValueError`, which names the line, where the text is no policy, before any store is opened; `StoreError`.
    """

def pushed_policy(address: str) -> dict[str, Any] | None:
    """The policy in the store at `address`, whoever has it; `None` where none was pushed. Raises `StoreError`."""

def remove_policy(address: str) -> dict[str, Any] | None:
    """Takes the policy out of the store at `address`: the one that was there, `None` where none was. Raises
    `StoreError`.
    """

def try_policy(
    text: str,
    tool: str,
    args: object,
    agent: str | None = None,
    source: str | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """What each rule of a policy (the text of its file) makes of a call, up to the first that clearly matches: a list
    of `{"name", "effect", "look", "failed", "reason"}`; `look` is `other_tool`, `other_agent` or `untrue`, and of those
    that have a say `decides` for the strictest, and else `failed` or `matched`.

    `metadata` is an object, or None.

    Raises `ValueError`, which names the line, where the text is no policy; `TypeError`.
    """

def init_logging(level: str, format: str) -> bool:
    """Starts the log of this process: `level` is debug, info, warning or error, `format` human or json. Only the first
    call counts; returns whether this was it. Whoever logs waits for no reader, and `flush_log` has to be called before
    the process ends; where the system gives no thread for it, lines are written where they are logged."""

def log_text(text: bytes) -> None:
    """Whole lines that are not the log's, behind those that were logged before."""

def flush_log() -> None:
    """Waits until everything that was logged is written; for a few seconds where nobody reads."""

@final
class Replay:
    """A turn that is run again from its journal: says what each ask gets, and in which order.

    It decides, the caller delivers. A call waits for the one before it, on whichever thread.
    """

    def __new__(cls, journal: Sequence[Mapping[str, object]], code: str) -> Replay:
        """`journal`: as a worker's `turn` frame carries it; results and answers are not read. `code`: the version of
        the agent's code at hand.

        Raises `ValueError`, which names the entry that cannot be.
        """

    def ask(
        self, step: Mapping[str, object], once: bool
    ) -> tuple[Literal["live", "recorded", "body"]] | tuple[Literal["intent"], int] | tuple[Literal["interrupt"], str]:
        """The agent asks for a step.

        `live`: the journal has nothing of it; to be done once the journal is at its end. `recorded`: its result will be
        delivered. `body`: no result, but its body ran; it runs again now. `intent`: a `once` step that began then, in
        milliseconds since 1970, and has no result. `interrupt`: it asked this interrupt.

        Raises `ReplayMismatch` when the journal holds something else at its path, `ValueError` for a path that was
        asked before.
        """

    def intents(self, path: str) -> list[int]:
        """When the body of the `once` step at `path` began, each time, in milliseconds since 1970."""

    def arm(self, path: str) -> None:
        """The agent set a timer. Raises `ValueError` for a path that was armed before."""

    def disarm(self, path: str) -> None:
        """The agent cancelled a timer; one that fired, or was never armed, is left as it is."""

    def withdraw(self, path: str) -> None:
        """Nobody waits for this step or interrupt any more: its entries are dropped from here on."""

    def body_ended(self, path: str) -> None:
        """The body of this step has come to its end: where nobody waits for the step, nobody asks for what the journal
        holds inside it any more."""

    def next(
        self,
    ) -> tuple[Literal["deliver"], int, str] | tuple[Literal["wake"], str] | tuple[Literal["wait", "end"]]:
        """What a turn in which nothing runs gets next: the entry with that index, for who asked (or armed) that path; a
        wake from outside of that task, and then `woken()`; nothing yet; nothing more. Only a delivery moves on."""

    def is_asked_for(self) -> bool:
        """Whether the replay could go on without the wakes that stand next: the entry after them has been asked for, or
        there is none."""

    def woken(self) -> None:
        """The wake that `next()` named has been delivered. Raises `ValueError` when none stands next."""

    def stuck(self, held: Sequence[Mapping[str, object]]) -> ReplayMismatch | None:
        """Nothing of the turn runs, and `next()` does not go on: what is wrong, to be raised, or None when what was in
        the way could be dropped. `held`: the asks that wait for the end of the journal, in their order."""

    def returned(self) -> ReplayMismatch | None:
        """The agent has returned, and the tasks it left behind have ended: what the journal still holds that nobody
        asked for."""

    def orphans(self) -> list[str]:
        """Ids of interrupts that the journal leaves open although nobody waits for them any more."""

    @property
    def warnings(self) -> list[str]:
        """What differs from the journal and was let pass, for people."""

    @property
    def done(self) -> bool:
        """Whether nothing is left to deliver or to wait for."""

def fingerprint(value: object) -> str | None:
    """32 hex digits of the SHA-256 of a value's canonical JSON; None for one with something else in it than dicts with
    string keys, lists, tuples, strings, integers of 64 bits, booleans and None."""

def write_frame(frame: object, most: int) -> bytes | None:
    """The bytes of a frame; None for one that Python has to write, or to refuse. `most`: bytes of JSON that it may
    have."""

def read_frames(data: bytes, members: dict[str, tuple[str, ...]]) -> tuple[list[dict[str, Any]], int]:
    """The frames that `data` begins with, and how many of its bytes they are. They end before one that is not there as
    a whole, and before one that Python has to read, or to refuse. `members`: what must be in a frame, by its name."""

def zygote_request(message: bytes) -> tuple[int, str | None]:
    """What the server asks of a zygote: the number of a child, and how that runs, which is to be forked; without that
    it is to be killed. `ValueError` for anything else."""

@final
class RunBridge:
    """What one event loop asks the core to do for its runs. What is asked for with a token goes on in `fetch()`, which
    also returns what comes of it; no thread of the core runs Python.

    `RuntimeError` in a process that was forked from one which had used it.
    """

    def __new__(cls) -> RunBridge: ...
    def open(self) -> int:
        """The descriptor of the socket that becomes readable when there is something to fetch: the caller's from now
        on."""

    def run(
        self,
        token: int,
        store: RunStore,
        agent: str,
        code: str,
        python: str,
        replay: bool,
        pin: bool,
        message: bytes | None,
        session: str | None,
        state: RunState | None,
        events: bool,
        kept: bool,
        traceparent: str | None,
    ) -> str:
        """Begins a turn with `message` (JSON), in `session` or a new one, or goes on from `state`: the session's id.

        Its value is `(status, response, messages, error, error_code, state)`, messages as JSON; what the turn is told
        comes before that, and with `events` what happens, each `(name, data)`, data as JSON. With `kept` somebody keeps
        the store, and its states say that they live there; `traceparent` names the span that a new turn is a part of.
        """

    def hear(self, token: int, frame: dict[str, Any]) -> bool:
        """Hears a frame of a worker about the turn of a run. Whether it could be read: what is no plain JSON, or too
        large, is for `hear_json`."""

    def hear_json(self, token: int, frame: bytes) -> None:
        """Hears a frame that is written as JSON; `ValueError` for one that is none of a turn."""

    def stop(self, token: int) -> None:
        """Lets go of a run that is under way; its value still comes."""

    def open_store(self, token: int, address: str) -> None:
        """Its value is a `RunStore`, or it fails with `StoreError`."""

    def load(self, token: int, store: RunStore, session: str, agent: str, code: str) -> None:
        """Its value is the `RunState` of a session's open turn, or None."""

    def close_store(self, token: int, store: RunStore) -> None:
        """Its value is None."""

    def fetch(self) -> list[tuple[int, str, Any]]:
        """Carries on with what can go on, and returns what came of everything since the last call: `(token, what,
        value)` of each, where `what` is `told` (a frame of the server about the turn), `event`, `value`, or `error` (an
        exception)."""

@final
class RunState:
    """The journal of an open turn, on which people decide."""

    @staticmethod
    def read(text: str, key: str | None = None) -> tuple[RunState, bool]:
        """Reads what `write()` wrote, and whether its signature under `key` verifies; raises `RunStateError`."""

    def write(self, key: str | None = None) -> str:
        """The state as one compact JSON document, signed where there is a key."""

    def duplicate(self) -> RunState:
        """Another one like it."""

    def answer(self, answers: Sequence[tuple[str, object]]) -> int:
        """Answers interrupts, `(id, value)` each: all, or with an error none. Returns how many answers were new.

        Raises `UnknownInterrupt`, `InvalidAnswer`, `NothingPending`, `AlreadyResolved`, `InterruptExpired`.
        """

    def check_type(self, id: str, expected: str) -> None:
        """Looks whether an interrupt is of that type. Raises `UnknownInterrupt`, `InvalidAnswer`, `NothingPending`."""

    def pending(self) -> bytes:
        """The records of open interrupts, in order of arrival, as JSON."""

    def interrupts(self) -> bytes:
        """The records of all interrupts that were open when the turn paused, as JSON."""

    def messages(self) -> bytes:
        """What the session remembered when the turn began, as JSON."""

    def message(self) -> bytes:
        """The message that began the turn, as JSON."""

    def context(self) -> bytes | None:
        """The context object of the run as it was at the pause, encoded, as JSON."""

    def set_context(self, context: object) -> None:
        """Replaces it with another one, encoded; None for none."""

    @property
    def session_id(self) -> str:
        """Whose turn."""

    @property
    def store_id(self) -> str | None:
        """The store that the turn lives in, by its id; None where it lives nowhere but in the state."""

    @property
    def turn_id(self) -> str:
        """Which turn."""

    @property
    def agent_name(self) -> str | None:
        """What the agent that was run calls itself; None where a server of an older release did not say."""

@final
class RunStore:
    """A store that runs write to."""

    @staticmethod
    def memory() -> RunStore:
        """One in memory."""

    @staticmethod
    def open(address: str) -> RunStore:
        """The one at `address`, to be used beside other processes, for whoever may wait for it. Raises `StoreError`."""

    @property
    def address(self) -> str | None:
        """Where it is found again, whatever directory the program is in then; None for one in memory."""

_CheckpointKey: TypeAlias = tuple[str, str, str]
_StoredCheckpoint: TypeAlias = tuple[
    _CheckpointKey,
    str | None,
    tuple[str, bytes],
    tuple[str, bytes],
    list[tuple[str, tuple[str, bytes]]],
    list[tuple[str, str, tuple[str, bytes]]],
]

@final
class GraphStore:
    """Checkpoints of graphs in a store. Its calls block, and let go of the interpreter.

    A key is `(thread, namespace, id)`, a value `(kind, bytes)`. All of them raise `StoreError`; `put`, `put_writes` and
    `copy_thread` also `ValueError`, for a name with a null character and for more than a store takes at once.
    """

    def __new__(cls, store: RunStore) -> GraphStore: ...
    def put(
        self,
        key: _CheckpointKey,
        parent: str | None,
        run: str | None,
        versions: dict[str, str],
        body: tuple[str, bytes],
        metadata: tuple[str, bytes],
        values: list[tuple[str, str, tuple[str, bytes]]],
    ) -> None:
        """Store a checkpoint; `values` are `(channel, version, value)` of those that are new."""

    def put_writes(
        self, key: _CheckpointKey, task: str, path: str, writes: list[tuple[int, str, tuple[str, bytes]]]
    ) -> None:
        """Store what a task wrote after a checkpoint: `(place, channel, value)`. A place below 0 is overwritten."""

    def page(
        self,
        *,
        limit: int,
        thread: str | None = None,
        namespace: str | None = None,
        id: str | None = None,
        before: str | None = None,
        run: str | None = None,
        after: _CheckpointKey | None = None,
        bare: bool = False,
    ) -> list[_StoredCheckpoint]:
        """Checkpoints, the newest first, after the one with the key `after`; without values and writes if `bare`.

        Each is `(key, parent, body, metadata, [(channel, value)], [(task, channel, value)])`.
        """

    def delete_thread(self, thread: str) -> None:
        """Delete all that there is of a thread."""

    def delete_checkpoints(self, thread: str, keys: list[tuple[str, str]]) -> None:
        """Delete checkpoints of a thread, by namespace and id, and what belongs to no other one."""

    def copy_thread(self, source: str, target: str) -> None:
        """Copy all that there is of a thread to another one, in the place of what has the same names there; everything
        else stays."""

@final
class AuditVerifier:
    """Looks at the rows of an audit in order."""

    def __new__(cls, head: tuple[int, str] | None = None) -> AuditVerifier:
        """`head`: number and hash of a row that was the last one once."""

    def take_line(self, line: bytes) -> None:
        """The next row, as the line of a file. Raises `ValueError` that says which is wrong, and why."""

    def take(self, row: str) -> str:
        """The next row, as the JSON of a server or a store: its line. Raises `ValueError` as `take_line` does."""

    def finish(self) -> tuple[int, str]:
        """Number and hash of the last row. Raises `ValueError` where `head` tells that rows are missing."""

@final
class Server:
    """One server: made, started once, stopped once."""

    def __new__(cls, settings: Mapping[str, Any]) -> Server:
        """`settings`: the members of `serve::Config`."""

    def open_channel(self) -> int:
        """Turns will run in a thread of this process: the descriptor of the socket over which it is reached, which is
        the caller's from now on."""

    def start(self) -> None:
        """Returns once it listens; raises `ServeError`, also when it is stopped meanwhile."""

    @property
    def url(self) -> str:
        """Where it listens."""

    def stop(self, timeout: float) -> None:
        """Finishes turns at work for at most `timeout` seconds, ends the rest, closes. A start under way is given up,
        and has left nothing behind when this returns. Twice does nothing.
        """

    def wait(self) -> None:
        """Blocks until the server does not serve any more."""

    @property
    def is_drained(self) -> bool:
        """Whether it has ended because it was asked to by its row."""

def create_key(address: str, name: str, scopes: list[str], groups: list[str]) -> tuple[dict[str, Any], str]:
    """Makes a key in the store at `address`, which is made where it is missing: the key as `GET /keys` lists it, and
    its secret. Raises `StoreError`, and `HitlError` with the code of what is wrong.
    """

def list_keys(address: str) -> list[dict[str, Any]]:
    """The keys of the store at `address`, whoever has it. Raises `StoreError`."""

def revoke_key(address: str, name: str) -> None:
    """Revokes the key with this name in the store at `address`. Raises `StoreError`, and `HitlError`."""

def store_schema(address: str) -> tuple[int | None, int]:
    """`(found, newest)`: the version of the schema at `address`, and the one that this release needs.

    `found` is None where there is none. Raises `StoreError`.
    """

def migrate_store(address: str, role: str | None = None) -> tuple[int | None, int]:
    """Makes the schema at `address` where there is none, and lets `role` use it: what `store_schema` gave before.

    Raises `StoreError`.
    """

def check_attachment(media_type: str, data: str | None, url: str | None) -> None:
    """Raises `ValueError` for what is wrong with an attachment, naming the field."""

def adopt_store(address: str) -> dict[str, Any]:
    """Lets servers send the notices of a database that was restored or copied elsewhere.

    `was_restored`, whether it was (otherwise nothing was changed), and how many there are of `notices`, with
    `oldest_notice` (when the first was written, or None), of turns `under_way`, and of sessions `waiting`. Raises
    `StoreError`.
    """

def described(media_type: str, name: str | None) -> str:
    """A name and a type of something that is attached on one line, as a model and people are told of it."""

def check_store(address: str) -> dict[str, Any]:
    """Looks whether what the store at `address` holds fits together, whoever has it.

    `rows` is how many rows each table has, `problems` a list of `kind`, `session_id` (or None) and `what`, and `more`
    how many problems are not in it. Raises `StoreError`.
    """

def copy_store(source: str, target: str) -> dict[str, Any]:
    """Copies the store at `source` into the empty or missing one at `target`.

    `waiting` is how many sessions wait for somebody, `rows` how many rows each table had. Raises `StoreError`;
    the target is as empty as before then.
    """

def list_servers(address: str) -> list[dict[str, Any]]:
    """Who has the store at `address`, the first that came first. Raises `StoreError`."""

def short_code(code: str) -> str:
    """A server's code for people, as the label of a metric has it."""

def drain_server(address: str, id: str) -> bool:
    """Asks the server of this id to end as by SIGTERM; whether it was there. Raises `StoreError`, `ValueError`."""

def schema_script(role: str | None = None) -> str:
    """The statements that make the schema, and let `role` use it."""

@final
class StoredSessions:
    """The sessions of a store, read while somebody else may own it."""

    def __new__(cls, address: str) -> StoredSessions:
        """`address`: that of `--store`. Raises `StoreError`."""

    def page(
        self, status: str | None = None, limit: int = 100, cursor: int | None = None, q: str | None = None
    ) -> tuple[list[dict[str, Any]], int | None]:
        """A page of sessions as `GET /sessions` lists them, oldest first, and where the next page begins.

        With `q`, only those that say this in the title or the id: it may look at all of them.
        """

    def audit(self, limit: int = 100, cursor: int | None = None) -> tuple[list[str], int | None]:
        """A page of the audit, oldest row first, each as compact JSON, and where the next page begins."""

    def open_turns(
        self, agent: str, runtime: tuple[str, str | None], status: str, limit: int, cursor: int | None
    ) -> tuple[list[tuple[bytes, tuple[str, str] | None]], dict[str, int], int | None]:
        """The turns of a page of sessions that are open, or failed and can be taken up again: `(turns, others, next)`.

        `turns`: those of `agent`, each as the JSON of a worker's `turn` frame, with `(code, message)` where a worker of
        this `runtime`, its version of Python and the code that its agent is pinned to, would refuse it. `others`: how
        many there are of each other agent.
        """

    def close(self) -> None:
        """Lets go of the file."""
