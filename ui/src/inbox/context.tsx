// What a decision may depend on: the conversation so far, and how the same was decided before.

import { useEffect, useState } from "preact/hooks";
import { api, Problem } from "../api";
import { useNow } from "../clock";
import { age, decider, lineOf, outcome, outcomeTone, summary, title, toolName } from "../format";
import { isObject } from "../json";
import { toInterrupt, toSession } from "../router";
import { Thread } from "../sessions/thread";
import { Plain } from "../shown";
import { has, JOURNAL } from "../store";
import type { Interrupt, Message } from "../types";

const RECENT = 8;
const EARLIER = "6";

export function Context({ record }: { record: Interrupt }) {
  const [messages, setMessages] = useState<Message[] | null>(null);
  const [earlier, setEarlier] = useState<Interrupt[] | null>(null);
  const [failed, setFailed] = useState<{ messages?: string; earlier?: string }>({});
  const tool = toolName(record);
  useEffect(() => {
    let here = true;
    const fail = (what: "messages" | "earlier") => (error: unknown): void => {
      if (here) setFailed((before) => ({ ...before, [what]: error instanceof Error ? error.message : String(error) }));
    };
    conversation(record.session_id, record.status === "pending").then((list) => here && setMessages(list), fail("messages"));
    const like = tool === null ? { type: record.type } : { type: record.type, tool };
    api.interrupts({ ...like, status: "resolved", limit: EARLIER }).then(
      (page) => here && setEarlier(page.items.filter((one) => one.interrupt_id !== record.interrupt_id)),
      fail("earlier"),
    );
    return () => {
      here = false;
    };
  }, [record.interrupt_id]);
  return (
    <div class="context">
      <section aria-label="Conversation">
        <div class="bar"><h2>Conversation</h2><a href={toSession(record.session_id)}>Open the session</a></div>
        {failed.messages !== undefined ? <p class="wrong">{failed.messages}</p> : messages === null ? <p class="muted">Loading…</p> : messages.length === 0 ? <p class="muted">Nothing was said before this turn.</p> : <Thread messages={messages.slice(-RECENT)} compact />}
      </section>
      {tool !== null && (
        <section aria-label="Earlier decisions">
          <h2>Earlier decisions about <code><Plain text={tool} /></code></h2>
          {failed.earlier !== undefined ? <p class="wrong">{failed.earlier}</p> : earlier === null ? <p class="muted">Loading…</p> : earlier.length === 0 ? <p class="muted">None yet.</p> : <Earlier list={earlier} />}
        </section>
      )}
    </div>
  );
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
              <span class="summary"><Plain text={lineOf(summary(one) || title(one))} /></span>
              <span class="muted">{who !== null && <>{<Plain text={who} />} · </>}{age(one.resolved_at ?? one.created_at, now)}</span>
            </a>
          </li>
        );
      })}
    </ul>
  );
}

/** The messages before this turn, and, as long as it is open, the turn's own, which only its journal has yet. */
export async function conversation(session: string, isOpen: boolean): Promise<Message[]> {
  const [before, open] = await Promise.all([api.messages(session), isOpen && has(JOURNAL) ? openMessage(session) : null]);
  return open === null ? before : [...before, open];
}

async function openMessage(session: string): Promise<Message | null> {
  try {
    const [start] = (await api.journal(session, { limit: "1" })).items;
    return isObject(start?.["message"]) ? (start["message"] as unknown as Message) : null;
  } catch (error) {
    if (error instanceof Problem) return null;
    throw error;
  }
}
