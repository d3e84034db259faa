// Messages, one after the other; what came of a call stands beside it.

import { useState } from "preact/hooks";
import { Attached, attachedTo } from "./attached";
import { decider, lineOf, outcome, outcomeTone, summaryOf } from "../format";
import { parse, isObject, type Json } from "../json";
import { Markdown } from "../markdown";
import { Members, Name, Plain, Text } from "../shown";
import type { Interrupt, Message, ToolCall } from "../types";

const speakers: Record<Message["role"], string> = { user: "User", assistant: "Agent", tool: "Result", system: "System" };

/** What is known of calls besides their results: which are at work, or wait with all of the turn, and what was asked about them. */
export interface Calls {
  atWork: ReadonlySet<string>;
  wait: boolean;
  asked: ReadonlyMap<string, Interrupt>;
}

export const noCalls: Calls = { atWork: new Set(), wait: false, asked: new Map() };

/** How many messages are shown at first, and how many more at a time: a page of thousands takes seconds to lay out, at each turn. */
const SHOWN = 200;

export function Thread({ messages, compact = false, calls = noCalls }: { messages: Message[]; compact?: boolean; calls?: Calls }) {
  const [shown, setShown] = useState(SHOWN);
  const { results, taken } = paired(messages);
  const first = Math.max(messages.length - shown, 0);
  return (
    <>
      {first > 0 && <button type="button" class="earlier" onClick={() => setShown(shown + SHOWN)}>Show {Math.min(first, SHOWN)} earlier messages</button>}
      <ol class={compact ? "thread compact" : "thread"}>
        {messages.slice(first).map((message, offset) => {
          const index = first + offset;
          return taken.has(index) ? null : <Said key={message.step ?? index} message={message} results={results.get(index)} calls={calls} />;
        })}
      </ol>
    </>
  );
}

type Results = ReadonlyMap<string, Message>;

/** Of each message the results of its calls, which come after it, and which messages those are. */
function paired(messages: Message[]): { results: ReadonlyMap<number, Results>; taken: ReadonlySet<number> } {
  const results = new Map<number, Map<string, Message>>();
  const taken = new Set<number>();
  // Which message made the call last: models use an id again.
  const made = new Map<string, number>();
  messages.forEach((message, index) => {
    for (const call of message.tool_calls ?? []) made.set(call.id, index);
    const caller = message.role === "tool" && message.tool_call_id ? made.get(message.tool_call_id) : undefined;
    if (caller === undefined || !message.tool_call_id) return;
    const of = results.get(caller) ?? new Map<string, Message>();
    results.set(caller, of.set(message.tool_call_id, message));
    taken.add(index);
  });
  return { results, taken };
}

export function Said({ message, live = false, results = new Map(), calls = noCalls }: { message: Message; live?: boolean; results?: Results | undefined; calls?: Calls }) {
  const made = message.tool_calls ?? [];
  const content = typeof message.content === "string" ? message.content : "";
  const isNothing = content === "" && made.length === 0 && !message.reasoning && attachedTo(message).length === 0;
  return (
    <li class={`said ${message.role} ${live ? "live" : ""}`}>
      <span class="speaker">{message.role === "tool" && message.name ? <Name text={message.name} /> : speakers[message.role]}</span>
      <div class="what">
        {message.reasoning && <details><summary>Reasoning</summary><Markdown text={message.reasoning} /></details>}
        {content !== "" && (message.role === "tool" ? <Result message={message} /> : <Markdown text={content} />)}
        <Attached message={message} />
        {made.map((call) => <Call key={call.id} call={call} result={results.get(call.id)} calls={calls} />)}
        {isNothing && <p class="muted">{message.shortened ? "A long message; all of it is here once the turn is over." : "Nothing."}</p>}
      </div>
    </li>
  );
}

function Result({ message }: { message: Message }) {
  return (
    <p class={message.failed ? "result bad" : "result"} dir="auto">
      {message.content ? <Text text={message.content} /> : <span class="muted">nothing</span>}{message.shortened && "…"}
    </p>
  );
}

function Call({ call, result, calls }: { call: ToolCall; result: Message | undefined; calls: Calls }) {
  let args: Json = call.function.arguments;
  try {
    args = parse(call.function.arguments);
  } catch {
    // Models write broken JSON; then it is shown as it is.
  }
  const asked = calls.asked.get(call.id);
  // A tool that asks has begun, and waits.
  const atWork = calls.atWork.has(call.id) && asked?.status !== "pending";
  const line = isObject(args) ? summaryOf(args) : call.function.arguments;
  const who = asked === undefined ? null : decider(asked);
  return (
    <div class="call">
      <details>
        <summary><code><Plain text={call.function.name} /></code> {line !== "" && <span class="muted"><Plain text={lineOf(line)} /></span>}</summary>
        {isObject(args) ? <Members value={args} /> : <p class="result"><Text text={call.function.arguments} /></p>}
      </details>
      {asked !== undefined && (
        <p class={`became ${outcomeTone(asked)}`}>
          {asked.status === "pending" ? "waits for an answer" : outcome(asked)}{who !== null && <> by <Plain text={who} /></>}
        </p>
      )}
      {result !== undefined ? <><Result message={result} /><Attached message={result} /></> : atWork ? <p class="became">{calls.wait ? "waits for an answer" : "at work…"}</p> : null}
    </div>
  );
}
