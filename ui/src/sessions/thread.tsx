// Messages, one after the other.

import { parse, isObject, type Json } from "../json";
import { Markdown } from "../markdown";
import { Members, Plain, Text } from "../shown";
import type { Message, ToolCall } from "../types";

const speakers: Record<Message["role"], string> = { user: "User", assistant: "Agent", tool: "Result", system: "System" };

export function Thread({ messages, compact = false }: { messages: Message[]; compact?: boolean }) {
  return (
    <ol class={compact ? "thread compact" : "thread"}>
      {messages.map((message, index) => <Said key={index} message={message} />)}
    </ol>
  );
}

export function Said({ message, live = false }: { message: Message; live?: boolean }) {
  const calls = message.tool_calls ?? [];
  const content = message.content ?? "";
  return (
    <li class={`said ${message.role} ${live ? "live" : ""}`}>
      <span class="speaker">{message.role === "tool" && message.name ? <Plain text={message.name} /> : speakers[message.role]}</span>
      <div class="what">
        {message.reasoning && <details><summary>Reasoning</summary><Markdown text={message.reasoning} /></details>}
        {content !== "" && (message.role === "tool" ? <p class="result" dir="auto"><Text text={content} /></p> : <Markdown text={content} />)}
        {calls.map((call) => <Call key={call.id} call={call} />)}
        {content === "" && calls.length === 0 && !message.reasoning && <p class="muted">Nothing.</p>}
      </div>
    </li>
  );
}

function Call({ call }: { call: ToolCall }) {
  let args: Json = call.function.arguments;
  try {
    args = parse(call.function.arguments);
  } catch {
    // Models write broken JSON; then it is shown as it is.
  }
  return (
    <details class="call">
      <summary><code><Plain text={call.function.name} /></code> was called</summary>
      {isObject(args) ? <Members value={args} /> : <p class="result"><Text text={call.function.arguments} /></p>}
    </details>
  );
}
