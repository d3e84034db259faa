// The page.

import { render } from "preact";
import { useEffect } from "preact/hooks";
import { api, whenUnauthorized } from "./api";
import { useNow } from "./clock";
import { Inbox } from "./inbox";
import { flush, sendBeforeLeaving, undo } from "./inbox/deciding";
import { idsOf } from "./inbox/lists";
import { listenToKeys, useKeys } from "./keys";
import { begin, beginWhenSignedInElsewhere, hangUp, listenWhileSeen } from "./live";
import { go, useRoute } from "./router";
import { Sessions } from "./sessions";
import { Help } from "./shell/help";
import { failed, notify } from "./shell/notices";
import { SignIn } from "./shell/signin";
import { Toasts } from "./shell/toasts";
import { Plain } from "./shown";
import * as store from "./store";
import { useStore } from "./store";
import "./styles/base.css";
import "./styles/shell.css";
import "./styles/request.css";
import "./styles/session.css";

async function signOut(): Promise<void> {
  try {
    if (!(await flush())) {
      // Why stands in a notice, which would be gone with the page.
      notify("You are still signed in, for not all of your answers were taken.", "bad");
      return;
    }
    await api.signOut();
  } catch (error) {
    failed(error);
    return;
  }
  hangUp();
  location.reload();
}

const connections = { connecting: "Connecting", live: "Live", broken: "Not connected" };

function Page() {
  const route = useRoute();
  const me = useStore((state) => state.me);
  const needsKey = useStore((state) => state.needsKey);
  const connection = useStore((state) => state.connection);
  const announcement = useStore((state) => state.announcement);
  const help = useStore((state) => state.help);
  const state = useStore((all) => all);
  const now = useNow();
  const needs = idsOf("needs", state, now).length;
  useEffect(() => {
    document.title = `${needs > 0 ? `(${needs}) ` : ""}hitl inbox`;
  }, [needs]);
  useKeys({
    u: () => {
      const back = undo();
      if (back !== null) go({ page: "inbox", box: "needs", id: back });
    },
    "?": () => store.set({ help: true }),
    g: () => go(route.page === "inbox" ? { page: "sessions", id: null, tab: "chat" } : { page: "inbox", box: "needs", id: null }),
  });
  if (needsKey) return <SignIn onSignedIn={() => void begin()} />;
  return (
    <>
      <header class="top">
        <a class="brand" href="#/inbox/needs">hitl</a>
        <nav aria-label="Pages">
          <a href="#/inbox/needs" aria-current={route.page === "inbox" ? "page" : undefined}>Inbox</a>
          <a href="#/sessions" aria-current={route.page === "sessions" ? "page" : undefined}>Sessions</a>
        </nav>
        <span class={`connection ${connection}`} role="status"><span class="dot" aria-hidden="true" /><span class="word">{connections[connection]}{connection === "broken" && <span class="more-words">; trying again</span>}</span></span>
        {me?.authentication && <span class="who">{me.name !== null && <Plain text={me.name} />} <button type="button" class="link" onClick={() => void signOut()}>Sign out</button></span>}
        <button type="button" class="quiet" aria-label="Keys" onClick={() => store.set({ help: true })}>?</button>
      </header>
      <main>{route.page === "inbox" ? <Inbox box={route.box} id={route.id} /> : <Sessions id={route.id} tab={route.tab} />}</main>
      <Toasts />
      <div class="spoken" role="status" aria-live="polite">{announcement}</div>
      {help && <Help />}
    </>
  );
}

whenUnauthorized(() => {
  hangUp();
  store.set({ needsKey: true, me: null });
});
listenToKeys();
listenWhileSeen();
beginWhenSignedInElsewhere();
sendBeforeLeaving();
const root = document.getElementById("app");
if (root !== null) render(<Page />, root);
void begin();
