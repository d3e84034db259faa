// One session: the conversation, its journal, its grants.

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { api, Problem } from "../api";
import { sessionName } from "../format";
import { setFilters } from "../inbox/lists";
import { onSession } from "../live";
import { toSession, write, type SessionTab } from "../router";
import { Loading, Unavailable } from "../shell/loading";
import { failed, notify } from "../shell/notices";
import { Plain } from "../shown";
import * as store from "../store";
import { has, JOURNAL, noFilters, useStore } from "../store";
import type { Session } from "../types";
import { Chat } from "./chat";
import { Grants } from "./grants";
import { Journal } from "./journal";

/** Errors whose journal is kept, so that the turn can be taken up again (docs/http.md). */
const retried = new Set(["replay_mismatch", "replay_timeout", "python_unsupported", "code_pinned", "journal_unreadable", "worker_exited", "model_unavailable", "resource_unavailable", "max_steps_exceeded", "token_limit_exceeded", "invalid_output", "reply_cut_short"]);
const names: Record<SessionTab, string> = { chat: "Conversation", journal: "Journal", grants: "Grants" };

export function SessionView({ id, tab }: { id: string; tab: SessionTab }) {
  const [session, setSession] = useState<Session | null>(null);
  const [missing, setMissing] = useState<string | null>(null);
  const listed = useStore((state) => state.sessions.get(id));
  const looks = useRef(0);
  const look = useCallback(async () => {
    const mine = ++looks.current;
    try {
      const now = await api.session(id);
      // Replies may overtake each other; only the last request saw all that happened.
      if (mine !== looks.current) return;
      setSession(now);
      const { status, total_messages, updated_at } = now;
      store.set((state) => {
        const known = state.sessions.get(id);
        return known === undefined ? {} : { sessions: store.changed(state.sessions, [[id, { ...known, status, total_messages, updated_at }]]) };
      });
      setMissing(null);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      if (mine === looks.current) setMissing(error.message);
    }
  }, [id]);
  useEffect(() => {
    void look();
    return onSession((changed) => void ((changed === id || changed === "") && look()));
  }, [look]);
  const back = <a class="back" href={write({ page: "sessions", id: null, tab: "chat" })}>‹ Back</a>;
  if (session === null) return <div class="detail">{back}{missing === null ? <Loading what="The session" /> : <Unavailable text={missing} onRetry={() => void look()} />}</div>;
  const act = (work: Promise<unknown>, done: string): void => void work.then(() => notify(done)).catch(failed);
  const canRetry = session.status === "error" && retried.has(session.error_code ?? "");
  return (
    <article class="session">
      {back}
      <header class="head">
        <p class="facts"><span class={`status ${session.status}`} role="status">{session.status}</span><span title={session.agent}><Plain text={listed?.agent_name ?? session.agent} /></span><span class="id">{session.session_id}</span><a href={write({ page: "inbox", box: "needs", id: null })} onClick={() => setFilters({ ...noFilters, session: id })}>Requests of this session</a></p>
        <div class="bar">
          <h1 dir="auto"><Plain text={sessionName(id, listed)} /></h1>
          <div class="buttons small">
            {(session.status === "running" || session.status === "interrupted") && <button type="button" onClick={() => act(api.cancel(id), "The turn is stopped.")}>Stop the turn</button>}
            {canRetry && <button type="button" onClick={() => act(api.retry(id), "The turn goes on.")}>Retry</button>}
          </div>
        </div>
        <nav class="boxes" aria-label="Session">
          {(Object.keys(names) as SessionTab[]).filter((one) => one !== "journal" || has(JOURNAL)).map((one) => <a key={one} href={toSession(id, one)} aria-current={one === tab ? "page" : undefined}>{names[one]}</a>)}
        </nav>
      </header>
      {missing !== null && <p class="note bad">{missing}</p>}
      {tab === "chat" && <Chat session={session} />}
      {tab === "journal" && <Journal session={session} />}
      {tab === "grants" && <Grants id={id} />}
    </article>
  );
}
