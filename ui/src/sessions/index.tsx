// Sessions: a list, and one of them.

import { useEffect, useMemo } from "preact/hooks";
import { api, Problem } from "../api";
import { useNow } from "../clock";
import { clock, counted, shortAge, shortId } from "../format";
import { useKeys } from "../keys";
import { onSession } from "../live";
import { go, toSession, type SessionTab } from "../router";
import { failed } from "../shell/notices";
import { Virtual } from "../shell/virtual";
import { Plain } from "../shown";
import * as store from "../store";
import { useStore } from "../store";
import { SessionView } from "./session";

const ROW = 56;
const PAGE = "200";

async function load(next: string | null = null): Promise<void> {
  if (store.get().sessionList.loading) return;
  store.set((state) => ({ sessionList: { ...state.sessionList, loading: true, failed: null } }));
  try {
    const page = next === null ? await api.sessions({ order: "newest", limit: PAGE }) : await api.nextSessions(next);
    store.set((state) => {
      const before = new Set(state.sessionList.ids);
      const ids = page.items.map((one) => one.session_id);
      return {
        sessions: store.changed(state.sessions, page.items.map((one) => [one.session_id, one])),
        sessionList: { ids: [...before, ...ids.filter((id) => !before.has(id))], next: page.next, loading: false, loaded: true, failed: null },
      };
    });
  } catch (error) {
    const text = error instanceof Problem ? error.message : String(error);
    store.set((state) => ({ sessionList: { ...state.sessionList, loading: false, failed: text } }));
  }
}

/** One session as it is now, in the list too. */
async function look(id: string): Promise<void> {
  try {
    const session = await api.session(id);
    store.set((state) => ({
      sessions: store.changed(state.sessions, [[id, session]]),
      sessionList: state.sessionList.ids.includes(id) ? state.sessionList : { ...state.sessionList, ids: [...state.sessionList.ids, id] },
    }));
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
  }
}

export async function startSession(): Promise<void> {
  try {
    const session = await api.createSession();
    await look(session.session_id);
    go({ page: "sessions", id: session.session_id, tab: "chat" });
  } catch (error) {
    failed(error);
  }
}

export function Sessions({ id, tab }: { id: string | null; tab: SessionTab }) {
  const list = useStore((state) => state.sessionList);
  const sessions = useStore((state) => state.sessions);
  const canSend = useStore((state) => state.me === null || state.me.scopes.some((scope) => scope === "send" || scope === "admin"));
  const now = useNow();
  useEffect(() => {
    void load();
    return onSession((session) => {
      if (session === "") void load();
      else if (!store.get().sessions.has(session)) void look(session);
    });
  }, []);
  // In the order of the server's pages: a row that moved at each change would move away from under a finger.
  const ids = useMemo(() => {
    const made = (id: string): string => `${sessions.get(id)?.created_at} ${id}`;
    return list.ids.filter((one) => sessions.has(one)).sort((one, other) => (made(one) < made(other) ? 1 : -1));
  }, [list.ids, sessions]);
  const move = (by: number): void => {
    const at = id === null ? -1 : ids.indexOf(id);
    const next = ids[at < 0 ? 0 : Math.min(ids.length - 1, Math.max(0, at + by))];
    if (next !== undefined) go({ page: "sessions", id: next, tab }, id !== null);
  };
  useKeys({ j: () => move(1), k: () => move(-1), n: () => canSend && void startSession(), Escape: () => id !== null && go({ page: "sessions", id: null, tab: "chat" }) });
  return (
    <div class={id === null ? "split" : "split opened"}>
      <section class="side" aria-label="Sessions">
        <div class="filters bar">
          <h2>{counted(ids.length, "session")}{list.next !== null && "+"}</h2>
          {canSend && <button type="button" class="primary" onClick={() => void startSession()} aria-keyshortcuts="n">New session <kbd>n</kbd></button>}
        </div>
        <Virtual
          ids={ids} height={ROW} current={id} label="Sessions"
          row={(one) => {
            const session = sessions.get(one);
            if (session === undefined) return null;
            return (
              <div class={`row ${one === id ? "current" : ""}`}>
                <a class="open" href={toSession(one)} aria-current={one === id ? "true" : undefined}>
                  <span class="line"><span class="name">{shortId(one)}</span><time dateTime={session.created_at} title={`Begun ${clock(session.created_at)}, changed ${clock(session.updated_at)}`}>{shortAge(session.created_at, now)}</time></span>
                  <span class="facts"><span class={`status ${session.status}`}>{session.status}</span><span>{counted(session.total_messages, "message")}</span><span><Plain text={session.agent} /></span></span>
                </a>
              </div>
            );
          }}
          more={list.loading || list.failed !== null ? null : list.next}
          onEnd={() => void load(list.next)}
          empty={list.failed !== null ? null : list.loading || !list.loaded || list.next !== null ? <p class="empty">Loading…</p> : <p class="empty"><strong>No session yet.</strong>Start one, and talk to the agent.</p>}
          foot={list.failed !== null ? <p class="wrong foot" role="alert">{list.failed}</p> : null}
        />
      </section>
      <section class="main" aria-label="Session">
        {id === null ? <div class="nothing"><p>No session is open.</p></div> : <SessionView key={id} id={id} tab={tab} />}
      </section>
    </div>
  );
}
