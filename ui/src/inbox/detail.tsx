// One request: what exactly is asked, why, and the way to answer it.

import { useEffect, useState } from "preact/hooks";
import { Problem } from "../api";
import { Answer, AnswerAsJson } from "../answer";
import { useBegun, type Begun } from "../answer/begun";
import { Changes } from "../answer/changes";
import { Arguments } from "../args";
import { useNow } from "../clock";
import { RuleFailed } from "../failed";
import { age, argsOf, clock, decider, left, outcome, outcomeTone, questions, ruleName, said, saysMore, sessionName, title } from "../format";
import { isObject, type Json } from "../json";
import { Markdown } from "../markdown";
import { toSession, write, type Box } from "../router";
import { Attached } from "../sessions/attached";
import { resultOf } from "../sessions/turn";
import { onSession } from "../live";
import { Guard } from "../shell/guard";
import { Loading, Unavailable } from "../shell/loading";
import { Folded, Members, Name, Plain, Source, Text, Value } from "../shown";
import { useStore } from "../store";
import type { Interrupt, Message } from "../types";
import { Context, useConversation } from "./context";
import { groups, undo } from "./deciding";
import { listed, refresh } from "./lists";
import { Kind } from "./row";
import { Handling } from "./handling";

export function Detail({ id, box, onGiven }: { id: string; box: Box; onGiven: () => void }) {
  const record = useStore((state) => state.records.get(id));
  const [failed, setFailed] = useState<Problem | null>(null);
  const [round, setRound] = useState(0);
  useEffect(() => {
    // Always as it is now; on the server it also marks the request as seen.
    const look = (): void =>
      void refresh(id).then(
        () => setFailed(null),
        (error: unknown) => {
          if (error instanceof Problem) setFailed(error);
          else throw error;
        },
      );
    look();
    return onSession((session) => session === "" && look());
  }, [id, round]);
  const conversation = useConversation(record?.session_id);
  const back = <a class="back" href={write({ page: "inbox", box, id: null })}>‹ Back</a>;
  if (record === undefined) {
    return <div class="detail">{back}{failed === null ? <Loading what="The request" /> : failed.status === 404 ? <p class="note bad" role="alert">There is no such request. Perhaps its session was deleted.</p> : <Unavailable text={failed.message} onRetry={() => setRound(round + 1)} />}</div>;
  }
  return (
    <article class="detail" aria-labelledby={`title-${id}`}>
      {back}
      <Guard instead={<Bare record={record} onGiven={onGiven} />}>
        <Head record={record} />
        <Asked record={record} />
        <Standing record={record} onGiven={onGiven} />
        <Became record={record} messages={conversation.messages} />
      </Guard>
      <Guard instead={<p class="wrong">The conversation cannot be shown here.</p>}><Context record={record} conversation={conversation} /></Guard>
    </article>
  );
}

/** A request that cannot be shown as what it is: all of it as JSON, and a box that takes any answer. */
function Bare({ record, onGiven }: { record: Interrupt; onGiven: () => void }) {
  return (
    <>
      <h1 id={`title-${record.interrupt_id}`}>A request that cannot be shown here</h1>
      <Source value={record.payload} label="The request as JSON" />
      {record.status === "pending" && <section class="standing" aria-label="Answer"><AnswerAsJson record={record} onGiven={onGiven} /></section>}
    </>
  );
}

function Head({ record }: { record: Interrupt }) {
  const session = useStore((state) => state.sessions.get(record.session_id));
  const now = useNow();
  const expires = record.status === "pending" && record.expires_at !== null ? left(record.expires_at, now) : null;
  return (
    <header class="head">
      <p class="facts">
        <Kind type={record.type} />
        {record.agent !== null && <span><Plain text={record.agent} /></span>}
        <a class="to-session" href={toSession(record.session_id)} title={record.session_id} dir="auto"><Plain text={sessionName(record.session_id, session)} /></a>
        <time dateTime={record.created_at} title={clock(record.created_at)}>{age(record.created_at, now)}</time>
        {expires !== null && <span class={expires.urgent ? "urgent" : ""} title={clock(record.expires_at ?? "")}>{expires.text}</span>}
      </p>
      <h1 id={`title-${record.interrupt_id}`} tabIndex={-1} class={record.type === "tool_approval" ? "mono" : ""} dir="auto">
        {record.type === "tool_approval" ? <Name text={title(record)} /> : <Plain text={title(record)} />}
      </h1>
      {record.message !== null && saysMore(record) && <Markdown text={record.message} />}
      <p class="why">
        {record.rule !== null && record.status === "pending" && <span>Asked by {ruleName(record.rule)}. </span>}
        {record.rule === null && record.type === "tool_approval" && <span>The tool itself asks for approval. </span>}
        {record.tool_source !== undefined && <span>The tool is from <Plain text={record.tool_source} />. </span>}
        {record.sent_by != null && <span>The message was sent by <Plain text={record.sent_by} />. </span>}
        {record.approvers != null && record.approvers.length > 0 && <span>Only for <Plain text={listed(record.approvers)} /> to answer. </span>}
      </p>
      <RuleFailed record={record} />
    </header>
  );
}

function Asked({ record }: { record: Interrupt }) {
  if (record.type === "tool_approval" || record.type === "unknown_outcome") return <Args record={record} />;
  // The questions stand in the form as long as they can be answered.
  if (questions(record).length > 0) return null;
  const above = said(record);
  const more = Object.keys(record.payload).length > above.length;
  if (!more && record.metadata === null) return null;
  return (
    <section class="asked" aria-label="What is asked">
      {more && <Members value={record.payload} without={above} />}
      {record.metadata !== null && <Folded title="Metadata"><Members value={record.metadata} /></Folded>}
    </section>
  );
}

type View = "table" | "json";

function Args({ record }: { record: Interrupt }) {
  const [view, setView] = useState<View>("table");
  const others = Object.fromEntries(Object.entries(record.payload).filter(([name]) => !["type", "tool_name", "tool_args"].includes(name)));
  return (
    <section class="asked" aria-label="Arguments">
      <div class="bar">
        <h2>Arguments</h2>
        <div class="modes" role="group" aria-label="Shown as">
          {(["table", "json"] as const).map((one) => (
            <button type="button" class="tab" key={one} aria-pressed={view === one} onClick={() => setView(one)}>{one === "table" ? "Table" : "JSON"}</button>
          ))}
        </div>
      </div>
      <Arguments record={record} view={view} />
      {argsOf(record) !== undefined && Object.keys(others).length > 0 && <Folded title="More about the call"><Members value={others} /></Folded>}
      {record.metadata !== null && <Folded title="Metadata"><Members value={record.metadata} /></Folded>}
      {record.args_digest !== null && <p class="digest">For exactly these arguments: <Plain text={record.args_digest} /></p>}
    </section>
  );
}

/** Where it stands: to be answered, answered a moment ago, or settled. */
function Standing({ record, onGiven }: { record: Interrupt; onGiven: () => void }) {
  const held = useStore((state) => state.held.get(record.interrupt_id));
  const all = useStore((state) => state.held);
  const key = held === undefined ? undefined : groups(all).find(([, group]) => group === held)?.[0];
  const begun = useBegun(record, held !== undefined);
  return (
    <section class="standing" aria-label="Answer" ref={begun.place}>
      {held !== undefined ? (
        <p class="note"><Plain text={held.label} />. {held.sending ? "It is being sent." : <>It is sent in a moment. <button type="button" class="link" onClick={() => key !== undefined && undo(key)}>Undo</button></>}</p>
      ) : record.status !== "pending" && <Settled record={record} />}
      <Open record={record} begun={begun} isHeld={held !== undefined} onGiven={onGiven} />
      {held === undefined && record.status === "pending" && <Handling record={record} />}
    </section>
  );
}

interface OpenProps {
  record: Interrupt;
  begun: Begun;
  isHeld: boolean;
  keys?: boolean;
  onGiven?: (() => void) | undefined;
}

/** The form, while it waits; and what was begun in it, once somebody else was first. */
export function Open({ record, begun, isHeld, keys = true, onGiven }: OpenProps) {
  if (isHeld || (record.status !== "pending" && !begun.isKept)) return null;
  return (
    <>
      {begun.isKept && (
        <div class="note bad bar" role="alert">
          <p>What you had begun was not sent: it was {outcome(record)} before. It can still be copied.</p>
          <button type="button" onClick={begun.leave}>Leave it <kbd>Esc</kbd></button>
        </div>
      )}
      <Answer key={record.interrupt_id} record={record} keys={keys} onGiven={onGiven} onLeave={begun.isKept ? begun.leave : undefined} />
    </>
  );
}

/** Who was first, and what they said. */
export function Settled({ record }: { record: Interrupt }) {
  const who = decider(record);
  const value = record.value;
  const edited = isObject(value) && isObject(value["args"]) ? value["args"] : null;
  const reason = isObject(value) && typeof value["reason"] === "string" ? value["reason"] : null;
  return (
    <div class={`note ${outcomeTone(record)}`} role="status">
      <p>
        <strong>{sentence(outcome(record))}</strong>
        {who !== null && <> by <Plain text={who} /></>}
        {record.resolved_at !== null && <> · <time dateTime={record.resolved_at}>{clock(record.resolved_at)}</time></>}
      </p>
      {reason !== null && <p dir="auto">“<Plain text={reason} />”</p>}
      {edited !== null && <Changes before={record.payload["tool_args"] ?? null} after={edited} />}
      {record.type !== "tool_approval" && record.status === "resolved" && <Given record={record} value={value} />}
      {record.type === "tool_approval" && isObject(value) && value["type"] === "respond" && <Value value={value["message"] ?? null} />}
    </div>
  );
}

/** What a call became that somebody let run. */
function Became({ record, messages }: { record: Interrupt; messages: Message[] | null }) {
  if (record.type !== "tool_approval" || !outcome(record).startsWith("approved") || messages === null) return null;
  const result = resultOf(messages, record.tool_call_id);
  if (result === null) return null;
  return (
    <section class="became" aria-label="What came of it">
      <h2>What came of it</h2>
      <p class={result.failed ? "result bad" : "result"} dir="auto">{result.content ? <Text text={result.content} /> : <span class="muted">The tool returned nothing.</span>}{result.shortened && "…"}</p>
      <Attached message={result} />
    </section>
  );
}

function Given({ record, value }: { record: Interrupt; value: Json }) {
  const answers = record.type === "user_input" && isObject(value) && isObject(value["answers"]) ? value["answers"] : null;
  return answers === null ? <Value value={value} /> : <Members value={answers} />;
}

function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
