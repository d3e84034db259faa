// What was decided and can still be taken back, and short messages.

import { useEffect, useState } from "preact/hooks";
import { groups, sendNow, stop, undo } from "../inbox/deciding";
import { go } from "../router";
import { Plain } from "../shown";
import { useStore, type Held } from "../store";
import { dismiss } from "./notices";

export function Toasts() {
  const held = useStore((state) => state.held);
  const notices = useStore((state) => state.notices);
  return (
    <div class="toasts" role="region" aria-label="Messages">
      {notices.map((notice) => (
        <div class={`toast ${notice.tone}`} key={notice.key}>
          <span><Plain text={notice.text} /></span>
          {notice.link !== undefined && <a href={notice.link.href} onClick={() => dismiss(notice.key)}>{notice.link.text}</a>}
          <button type="button" class="quiet" aria-label="Dismiss" onClick={() => dismiss(notice.key)}>✕</button>
        </div>
      ))}
      {groups(held).map(([key, group]) => <Undo key={key} name={key} group={group} />)}
    </div>
  );
}

function Undo({ name, group }: { name: string; group: Held }) {
  const [left, setLeft] = useState(() => secondsLeft(group));
  useEffect(() => {
    const timer = setInterval(() => setLeft(secondsLeft(group)), 250);
    return () => clearInterval(timer);
  }, [group]);
  const takeBack = (): void => {
    const id = undo(name);
    if (id !== null) go({ page: "inbox", box: "needs", id });
  };
  return (
    <div class="toast undo">
      <span><Plain text={group.label} />{group.detail !== null && <small><Plain text={group.detail} /></small>}</span>
      {group.sending ? (
        <>
          <span class="muted">{group.isTrying ? "The server does not take it up; trying again…" : "Sending…"}</span>
          {(group.ids.length > 1 || group.isTrying) && <button type="button" class="strong" onClick={() => stop(name)}>Stop</button>}
        </>
      ) : (
        <>
          <button type="button" class="strong" onClick={takeBack} aria-keyshortcuts="u">Undo <kbd>u</kbd></button>
          {group.until === Infinity ? <span class="muted">Waits until it is known whether you are still signed in.</span> : <button type="button" class="quiet" onClick={() => void sendNow(name)}>Send now ({left})</button>}
        </>
      )}
    </div>
  );
}

function secondsLeft(group: Held): number {
  return Math.max(0, Math.ceil((group.until - Date.now()) / 1000));
}
