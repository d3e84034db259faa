// What a decision may depend on: the conversation so far, and how the same was decided before.

import { useEffect, useState } from "preact/hooks";
import { api } from "../api";
import { useNow } from "../clock";
import { age, decided, decider, lineOf, outcome, outcomeTone, title, toolName } from "../format";
import { onSession, onStep } from "../live";
import { toInterrupt, toSession } from "../router";
import { noCalls, Thread, type Calls } from "../sessions/thread";
import { conversation, readerOf } from "../sessions/turn";
import { Unavailable } from "../shell/loading";
import { Name, Plain } from "../shown";
import * as store from "../store";
import type { Interrupt, Message, TitledSession } from "../types";

const RECENT = 8;
/** Of one agent the tool of that name may be from several servers. */
const ASKED = "50";
const EARLIER = 5;
const PAUSE = 150;

interface Conversation {
  messages: Message[] | null;
  problem: string | null;
  retry: () => void;
}

/** What was said in a request's session, and what its turn did: again with each thing that happens there. */
export function useConversation(session: string | undefined): Conversation {
  const [messages, setMessages] = useState<Message[] | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const [round, setRound] = useState(0);
  useEffect(() => {
    if (session === undefined) return;
    let here = true;
    let isLooking = false;
    let again = false;
    let timer = 0;
    let read: { of: string; messages: Message[] } | null = null;
    // A session's messages, with all their files, do not change while it is as it was: what its turn does is in the journal.
    const readMessages = readerOf(session);
    const messagesOf = async (found: TitledSession): Promise<Message[]> => {
      const of = [found.updated_at, found.status, found.total_messages].join();
      if (read?.of !== of) read = { of, messages: await readMessages() };
      return read.messages;
    };
    const look = async (): Promise<void> => {
      // One after the other: on a slow server none would come to its end before the next made it moot.
      if (isLooking) {
        again = true;
        return;
      }
      isLooking = true;
      again = false;
      try {
        // As a list has it, with its title.
        const [found] = (await api.sessions({ q: session })).items;
        if (!here) return;
        if (found === undefined) return setProblem("The session is gone.");
        store.set((state) => ({ sessions: store.changed(state.sessions, [[session, found]]) }));
        const said = await conversation(session, found.status, () => messagesOf(found), readMessages);
        if (!here) return;
        setMessages(said.messages);
        setProblem(null);
      } catch (error) {
        if (here) setProblem(error instanceof Error ? error.message : String(error));
      } finally {
        isLooking = false;
        if (again && here) void look();
      }
    };
    // A turn does many things in a moment.
    const soon = (changed: string, isGone = false): void => {
      if (isGone || (changed !== session && changed !== "")) return;
      clearTimeout(timer);
      timer = window.setTimeout(() => void look(), PAUSE);
    };
    void look();
    const deaf = [onSession(soon), onStep((_, step) => soon(step.session_id))];
    return () => {
      here = false;
      clearTimeout(timer);
      for (const stop of deaf) stop();
    };
  }, [session, round]);
  return { messages, problem, retry: () => setRound(round + 1) };
}

export function Context({ record, conversation: { messages, problem, retry } }: { record: Interrupt; conversation: Conversation }) {
  const [earlier, setEarlier] = useState<Interrupt[] | null>(null);
  const [failed, setFailed] = useState<string | null>(null);
  const [round, setRound] = useState(0);
  const tool = toolName(record);
  useEffect(() => {
    let here = true;
    if (tool === null) return;
    const like = { type: record.type, tool, agent: record.agent ?? undefined };
    const look = (): void =>
      void api.interrupts({ ...like, status: "resolved", limit: ASKED }).then(
        (page) => {
          if (!here) return;
          setEarlier(page.items.filter((one) => one.interrupt_id !== record.interrupt_id && one.agent === record.agent && one.tool_source === record.tool_source).slice(0, EARLIER));
          setFailed(null);
        },
        (error: unknown) => here && setFailed(error instanceof Error ? error.message : String(error)),
      );
    look();
    const deaf = onSession((session) => session === "" && look());
    return () => {
      here = false;
      deaf();
    };
  }, [record.interrupt_id, round]);
  const calls: Calls = { ...noCalls, asked: new Map(record.tool_call_id === null ? [] : [[record.tool_call_id, record]]) };
  return (
    <div class="context">
      <section aria-label="Conversation">
        <div class="bar"><h2>Conversation</h2><a href={toSession(record.session_id)}>Open the session</a></div>
        {problem !== null ? <Unavailable text={problem} onRetry={retry} /> : messages === null ? <p class="muted">Loading…</p> : messages.length === 0 ? <p class="muted">Nothing was said before this turn.</p> : <Thread messages={recent(messages)} compact calls={calls} />}
      </section>
      {tool !== null && (
        <section aria-label="Earlier decisions">
          <h2>Earlier decisions about <code><Name text={tool} /></code>{record.tool_source !== undefined && <> from <Plain text={record.tool_source} /></>}{record.agent !== null && <> by <Plain text={record.agent} /></>}</h2>
          {failed !== null ? <Unavailable text={failed} onRetry={() => setRound(round + 1)} /> : earlier === null ? <p class="muted">Loading…</p> : earlier.length === 0 ? <p class="muted">None yet.</p> : <Earlier list={earlier} />}
        </section>
      )}
    </div>
  );
}

/** The last ones, and what the open turn is about, with its files, however much that turn has done since. */
function recent(messages: Message[]): Message[] {
  const last = messages.slice(-RECENT);
  return last.length < messages.length ? [...messages.slice(0, -RECENT).filter((message) => message.began), ...last] : last;
}

function Earlier({ list }: { list: Interrupt[] }) {
  const now = useNow();
  return (
    <ul class="earlier">
      {list.map((one) => {
        const who = decider(one);
        return (
          <li key={one.interrupt_id}>
            <a href={toInterrupt(one.interrupt_id, "done")}>
              <span class={`outcome ${outcomeTone(one)}`}>{outcome(one)}</span>
              <span class="summary"><Plain text={lineOf(decided(one) || title(one))} /></span>
              <span class="muted">{who !== null && <>{<Plain text={who} />} · </>}{age(one.resolved_at ?? one.created_at, now)}</span>
            </a>
          </li>
        );
      })}
    </ul>
  );
}
