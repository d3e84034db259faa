// Sessions: a list, and one of them.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { api, Problem } from "../api";
import { useNow } from "../clock";
import { clock, counted, sessionName, shortAge } from "../format";
import { useKeys } from "../keys";
import { onSession } from "../live";
import { go, toSession, type SessionTab } from "../router";
import { Loading } from "../shell/loading";
import { failed } from "../shell/notices";
import { Virtual } from "../shell/virtual";
import { Plain } from "../shown";
import * as store from "../store";
import { useStore } from "../store";
import { SessionView } from "./session";

const ROW = 56;
const PAGE = "200";
/** How many sessions the server looks at for one page of a search. */
const SEARCHED = 5_000;
const PAUSE = 250;

/** How many pages of a search are looked through one after the other: a page may have nothing of what is looked for. */
const MOST_PAGES = 20;
/** A later search makes an earlier one moot. */
let round = 0;
let pages = 0;

async function load(next: string | null = null): Promise<void> {
  if (store.get().sessionList.loading) return;
  const mine = round;
  const q = store.get().sessionSearch;
  pages = next === null ? 1 : pages + 1;
  store.set((state) => ({ sessionList: { ...state.sessionList, loading: true, failed: null } }));
  try {
    const page = next === null ? await api.sessions({ q, order: "newest", limit: PAGE }) : await api.nextSessions(next);
    if (mine !== round) return;
    store.set((state) => {
      const before = new Set(state.sessionList.ids);
      const ids = page.items.map((one) => one.session_id);
      return {
        sessions: store.changed(state.sessions, page.items.map((one) => [one.session_id, one])),
        sessionList: { ids: [...before, ...ids.filter((id) => !before.has(id))], next: page.next, loading: false, loaded: true, failed: null },
      };
    });
  } catch (error) {
    if (mine !== round) return;
    const text = error instanceof Problem ? error.message : String(error);
    store.set((state) => ({ sessionList: { ...state.sessionList, loading: false, failed: text } }));
  }
}

function search(sessionSearch: string): void {
  if (sessionSearch === store.get().sessionSearch) return;
  round++;
  store.set({ sessionSearch, sessionList: store.nothing });
  void load();
}

/** One session as it is now, in the list too, unless that is of a search. */
async function look(id: string): Promise<void> {
  try {
    const [session] = (await api.sessions({ q: id })).items;
    if (session === undefined) return;
    store.set((state) => {
      const { ids } = state.sessionList;
      const isListed = state.sessionSearch !== "" || ids.includes(id);
      return {
        sessions: store.changed(state.sessions, [[id, session]]),
        sessionList: isListed ? state.sessionList : { ...state.sessionList, ids: [...ids, id] },
      };
    });
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
      // It has a title with its first message.
      else if (!store.get().sessions.get(session)?.title) void look(session);
    });
  }, []);
  // Whoever comes by a link has it before its page is loaded, and one that no search finds.
  useEffect(() => {
    if (id !== null && !store.get().sessions.has(id)) void look(id);
  }, [id]);
  const q = useStore((state) => state.sessionSearch);
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
  useKeys({
    j: () => move(1),
    k: () => move(-1),
    n: () => canSend && void startSession(),
    "/": () => document.getElementById("search-sessions")?.focus(),
    Escape: () => {
      const active = document.activeElement;
      if (active instanceof HTMLElement && active.matches("input, textarea, select")) active.blur();
      else if (id !== null) go({ page: "sessions", id: null, tab: "chat" });
    },
  });
  const isPaused = q !== "" && pages >= MOST_PAGES && list.next !== null && !list.loading;
  return (
    <div class={id === null ? "split" : "split opened"}>
      <section class="side" aria-label="Sessions">
        <div class="filters bar">
          <h2>{!list.loaded ? "Sessions" : <>{counted(ids.length, q === "" ? "session" : "match", q === "" ? "sessions" : "matches")}{list.next !== null && ", so far"}</>}</h2>
          {canSend && <button type="button" class="primary" onClick={() => void startSession()} aria-keyshortcuts="n">New session <kbd>n</kbd></button>}
        </div>
        <SearchBar />
        <Virtual
          ids={ids} height={ROW} current={id} label="Sessions"
          row={(one) => {
            const session = sessions.get(one);
            if (session === undefined) return null;
            return (
              <div class={`row ${one === id ? "current" : ""}`}>
                <a class="open" href={toSession(one)} aria-current={one === id ? "true" : undefined}>
                  <span class="line"><span class={session.title === null ? "name muted" : "name"} dir="auto" title={one}><Plain text={sessionName(one, session)} /></span><time dateTime={session.created_at} title={`Begun ${clock(session.created_at)}, changed ${clock(session.updated_at)}`}>{shortAge(session.created_at, now)}</time></span>
                  <span class="facts"><span class={`status ${session.status}`}>{session.status}</span>{session.total_messages > 0 && <span>{counted(session.total_messages, "message")}</span>}<span title={session.agent}><Plain text={session.agent_name} /></span></span>
                </a>
              </div>
            );
          }}
          more={list.loading || list.failed !== null || isPaused ? null : list.next}
          onEnd={() => void load(list.next)}
          empty={list.failed !== null || isPaused ? null : list.loading || !list.loaded || list.next !== null ? <Loading what={q === "" ? "The list" : "The search"} /> : <NoSession q={q} canSend={canSend} />}
          foot={
            <div class="foot">
              {list.failed !== null ? (
                <div role="alert">
                  <p class="wrong">{list.failed}</p>
                  <button type="button" onClick={() => void load(list.next)}>Try again</button>
                </div>
              ) : isPaused ? (
                <>
                  <p class="muted">Looked through the newest {(pages * SEARCHED).toLocaleString()} sessions.</p>
                  <button type="button" onClick={() => { pages = 0; void load(list.next); }}>Look further</button>
                </>
              ) : list.loading && ids.length > 0 ? <p class="muted">Loading…</p> : null}
            </div>
          }
        />
      </section>
      <section class="main" aria-label="Session">
        {id === null ? <div class="nothing"><p>No session is open.</p><p class="muted">{canSend ? <>Choose one, or start one with <kbd>n</kbd>.</> : "Choose one from the list."}</p></div> : <SessionView key={id} id={id} tab={tab} />}
      </section>
    </div>
  );
}

function NoSession({ q, canSend }: { q: string; canSend: boolean }) {
  if (q !== "") return <p class="empty"><strong>No session is called that.</strong>A search looks at the first message of each session, and at its id.</p>;
  return <p class="empty"><strong>No session yet.</strong>{canSend ? "Start one, and talk to the agent." : "Those that others start appear here by themselves."}</p>;
}

function SearchBar() {
  const q = useStore((state) => state.sessionSearch);
  const [text, setText] = useState(q);
  const timer = useRef(0);
  const change = (value: string): void => {
    setText(value);
    clearTimeout(timer.current);
    timer.current = window.setTimeout(() => search(value.trim()), PAUSE);
  };
  return (
    <div class="filters" role="search">
      <input id="search-sessions" type="search" maxLength={200} placeholder="Search titles and ids" aria-label="Search sessions" value={text} onInput={(event) => change(event.currentTarget.value)} />
    </div>
  );
}
