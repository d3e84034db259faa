// Talking to an agent: what was said, what it says now, what it asks, and room for the next message.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { api } from "../api";
import { cardOf, useBegun, useCards } from "../answer/begun";
import { Arguments } from "../args";
import { RuleFailed } from "../failed";
import { questions, said, saysMore, title } from "../format";
import { Open, Settled } from "../inbox/detail";
import { Kind } from "../inbox/row";
import { onDelta, onSession, onStep } from "../live";
import { Markdown } from "../markdown";
import { Members, Name, Plain } from "../shown";
import { Loading } from "../shell/loading";
import { failed } from "../shell/notices";
import { useStore } from "../store";
import type { Interrupt, Message, Session } from "../types";
import { Composer } from "./composer";
import { seeArrived } from "./drafts";
import { Said, Thread, type Calls } from "./thread";
import { conversation, messageOf, readerOf, type Conversation } from "./turn";

interface Speech {
  attempt: number;
  text: string;
}

export function Chat({ session }: { session: Session }) {
  const id = session.session_id;
  const [read, setRead] = useState<Conversation | null>(null);
  // What was sent from here, and how much people had said before that.
  const [sent, setSent] = useState<{ message: Message; after: number } | null>(null);
  const [speech, setSpeech] = useState<ReadonlyMap<string, Speech>>(new Map());
  // Of this turn, as far as it was heard: what was said and came of tools, and which tools are at work.
  const [steps, setSteps] = useState<Message[]>([]);
  const [atWork, setAtWork] = useState<ReadonlyMap<string, AtWork>>(new Map());
  // What is heard of a turn that was over when it was read is among the messages; of the next one it is shown once that is read.
  const isOver = read?.isOver === true;
  const [asked, setAsked] = useState<ReadonlyMap<string, Interrupt>>(new Map());
  const [problem, setProblem] = useState<string | null>(null);
  const end = useRef<HTMLDivElement>(null);
  const readMessages = useMemo(() => readerOf(id), [id]);
  const me = useStore((state) => state.me);
  const canSend = me === null || me.scopes.some((scope) => scope === "send" || scope === "admin");
  const forget = () => {
    setSpeech(new Map());
    setSteps([]);
    setAtWork(new Map());
  };
  useEffect(() => {
    let here = true;
    // Who decided is worth to know beside a call, and no reason to show nothing.
    askedIn(id).then((found) => here && setAsked(found), (error: unknown) => here && failed(error));
    const heard = new Set(steps);
    conversation(id, session.status, readMessages).then((said) => {
      if (!here) return;
      setRead(said);
      setProblem(null);
      seeArrived(id, said.messages.filter(isOfPerson));
      // An event never comes before what it tells of, so all that was heard before the request is in the reply: without the
      // name of its step, where its turn is over by then.
      if (said.isWhole) {
        setSteps((now) => now.filter((message) => !heard.has(message)));
        // Whoever was cut off has not heard the end of what they heard begin.
        for (const { step } of said.messages) {
          if (step === undefined) continue;
          setSpeech((now) => without(now, step));
          setAtWork((now) => without(now, step));
        }
      }
      // What was said is among the messages now.
      if (said.isOver) {
        forget();
        setSent(null);
      }
    }).catch((error: unknown) => {
      if (!here) return;
      setRead((now) => now && { ...now, isOver: false });
      setProblem(error instanceof Error ? error.message : String(error));
    });
    return () => {
      here = false;
    };
  }, [id, session.status, session.updated_at]);
  useEffect(
    () =>
      onDelta((delta) => {
        const said = delta.delta?.content;
        if (delta.session_id !== id || typeof said !== "string") return;
        setSpeech((before) => {
          const known = before.get(delta.step_id);
          // A later attempt says it anew.
          if (known !== undefined && known.attempt > delta.attempt) return before;
          const text = known !== undefined && known.attempt === delta.attempt ? known.text + said : said;
          return new Map(before).set(delta.step_id, { attempt: delta.attempt, text });
        });
      }),
    [id],
  );
  useEffect(
    () =>
      onStep((kind, step) => {
        if (step.session_id !== id) return;
        if (kind === "tool.started") {
          setAtWork((before) => new Map(before).set(step.step_id, { name: step.name ?? "", call: step.tool_call_id ?? null }));
          return;
        }
        // Said whole, it takes the place of what was said piece by piece.
        if (kind === "message.completed") setSpeech((before) => without(before, step.step_id));
        else setAtWork((before) => without(before, step.step_id));
        setSteps((before) => [...before, messageOf(step)]);
      }),
    [id],
  );
  // It ends, or another begins: what was heard before that is of the one that was over.
  useEffect(() => (isOver ? onSession((changed) => void (changed === id && forget())) : undefined), [id, isOver]);
  const messages = read?.messages ?? null;
  const spoken = isOver ? "" : [...speech.values()].map((one) => one.text).join("");
  useEffect(() => showEnd(end.current), [messages, steps.length, spoken.length > 0, sent, session.interrupts?.length]);
  const open = session.interrupts ?? [];
  const { cards, onLeft } = useCards(open);
  const isBusy = session.status === "running" || session.status === "interrupted";
  const all = [...(messages ?? [])];
  const said = byPeople(all);
  if (sent !== null && said <= sent.after) all.push(sent.message);
  const known = new Set(all.map((message) => message.step));
  if (!isOver) all.push(...steps.filter((message) => !known.has(message.step)));
  const working = isOver ? [] : [...atWork.values()];
  const calls: Calls = { atWork: new Set(working.map((one) => one.call).filter((call) => call !== null)), wait: session.status === "interrupted", asked };
  return (
    <>
      <div class="conversation" role="group" aria-label="Conversation" tabIndex={0}>
        <div role="log" aria-label="What was said">
          {messages === null && problem === null && <Loading what="The conversation" />}
          {problem !== null && <p class="note bad" role="alert">The conversation cannot be read: {problem}</p>}
          <Thread messages={all} calls={calls} />
          {messages?.length === 0 && sent === null && session.status === "idle" && <p class="empty">{canSend ? "Say something to begin." : "Nothing was said yet."}</p>}
          <ol class="thread">
            {spoken !== "" && <Said message={{ role: "assistant", content: spoken }} live />}
          </ol>
          {session.status === "running" && spoken === "" && (
            <p class="working" role="status">{working.length === 0 ? "The agent works…" : <><Plain text={working.map((one) => one.name).join(", ")} /> at work…</>}</p>
          )}
        </div>
        {session.error !== null && <p class="note bad" role="alert"><Plain text={session.error} /></p>}
        {cards.map((record) => <InPlace key={record.interrupt_id} record={record} isAlone={open.length === 1} onLeft={onLeft} />)}
        <div ref={end} />
      </div>
      {canSend && <Composer id={id} busy={isBusy} asked={open.length > 0} said={messages && byPeople(messages)} onSent={(message) => setSent(message === null ? null : { message, after: byPeople(messages ?? []) })} />}
    </>
  );
}

/** Scrolls to the end of the conversation; no further than to where a request begins: nobody decides by its buttons before what it asks was in sight. */
function showEnd(end: HTMLElement | null): void {
  end?.scrollIntoView({ block: "end" });
  const card = end?.parentElement?.querySelector(".card");
  if (card && card.getBoundingClientRect().top < (end?.parentElement?.getBoundingClientRect().top ?? 0)) card.scrollIntoView({ block: "start" });
}

function without<T>(map: ReadonlyMap<string, T>, key: string): ReadonlyMap<string, T> {
  if (!map.has(key)) return map;
  const left = new Map(map);
  left.delete(key);
  return left;
}

interface AtWork {
  name: string;
  call: string | null;
}

const isOfPerson = (message: Message): boolean => message.role === "user";

const byPeople = (messages: Message[]): number => messages.filter(isOfPerson).length;

/** What was asked about calls of this session, by the call; the newest where models use an id again. */
async function askedIn(session: string): Promise<ReadonlyMap<string, Interrupt>> {
  const { items } = await api.interrupts({ session_id: session, limit: "200" });
  const calls = new Map<string, Interrupt>();
  for (const record of items) if (record.tool_call_id !== null && !calls.has(record.tool_call_id)) calls.set(record.tool_call_id, record);
  return calls;
}

/** Whether all that is asked is whether a tool may run, or what came of it. Others show a call's arguments and more besides. */
const isOfCall = (record: Interrupt): boolean => ["tool_approval", "unknown_outcome"].includes(record.type);

/** Keys mean this request only where there is no other; and where there was one, once somebody has turned to this one. */
function InPlace({ record, isAlone, onLeft }: { record: Interrupt; isAlone: boolean; onLeft: () => void }) {
  const [wasAmong, setAmong] = useState(!isAlone);
  useLayoutEffect(() => {
    if (!isAlone) setAmong(true);
  }, [isAlone]);
  const turnTo = (): void => {
    if (isAlone) setAmong(false);
  };
  const now = useStore((state) => state.records.get(record.interrupt_id)) ?? record;
  const held = useStore((state) => state.held.get(record.interrupt_id));
  const begun = useBegun(now, held !== undefined, onLeft);
  return (
    <section class="card" id={cardOf(record.interrupt_id)} aria-label={`Request: ${title(record)}`} ref={begun.place} onPointerDown={turnTo} onFocusIn={turnTo}>
      <p class="facts"><Kind type={record.type} />{record.agent !== null && <span><Plain text={record.agent} /></span>}</p>
      <h2 class={record.type === "tool_approval" ? "mono" : ""} dir="auto">{record.type === "tool_approval" ? <Name text={title(record)} /> : <Plain text={title(record)} />}</h2>
      {record.message !== null && saysMore(record) && <Markdown text={record.message} />}
      <RuleFailed record={record} />
      {isOfCall(record) ? <Arguments record={record} /> : questions(record).length === 0 && Object.keys(record.payload).length > said(record).length ? <Members value={record.payload} without={said(record)} /> : null}
      {held !== undefined ? <p class="note"><Plain text={held.label} />. It is sent in a moment.</p> : now.status !== "pending" && <Settled record={now} />}
      <Open record={now} begun={begun} isHeld={held !== undefined} keys={isAlone && !wasAmong} />
    </section>
  );
}
