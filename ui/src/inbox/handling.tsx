// To work on a request alone, or later: neither is an answer.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { api, Problem } from "../api";
import { useNow } from "../clock";
import { clock, left, title } from "../format";
import { useKeys } from "../keys";
import { failed, notify } from "../shell/notices";
import { Plain } from "../shown";
import { useStore } from "../store";
import type { Interrupt } from "../types";
import { claimedByOther, ownName, refresh, setOwnName, snoozedUntil, whyNot } from "./lists";
import * as store from "../store";

const spans: [string, number][] = [
  ["15 minutes", 900],
  ["1 hour", 3_600],
  ["4 hours", 14_400],
  ["1 day", 86_400],
  ["1 week", 604_800],
];

/** Milliseconds before its end in which a claim is made anew, and since the last key or click that ask for it. */
const SOON = 90_000;
const IN_USE = 180_000;

/** Whoever still works on what they have claimed goes on to have it; whoever has stopped is told that it ended. */
function useClaim(record: Interrupt, isMine: boolean, now: number, claim: () => void): void {
  const used = useRef(-Infinity);
  const anew = useRef<string | null>(null);
  const had = useRef(false);
  // Not after the paint: whoever sees the request may press a key right then.
  useLayoutEffect(() => {
    const use = (): void => void (used.current = Date.now());
    const kinds = ["keydown", "pointerdown"] as const;
    for (const kind of kinds) addEventListener(kind, use, true);
    return () => {
      for (const kind of kinds) removeEventListener(kind, use, true);
    };
  }, []);
  const until = record.claimed_until ?? null;
  useEffect(() => {
    if (isMine && until !== null) {
      if (Date.parse(until) - now > SOON || now - used.current > IN_USE || anew.current === until) return;
      anew.current = until;
      claim();
    } else if (had.current && record.status === "pending" && until !== null && Date.parse(until) <= now) {
      notify(`Your claim of ${title(record)} has ended: others can answer it.`);
    }
  }, [now, isMine, until]);
  useEffect(() => {
    had.current = isMine;
  }, [isMine]);
}

export function Handling({ record }: { record: Interrupt }) {
  const me = useStore((state) => state.me);
  const canClaim = useStore((state) => state.routes.has(store.CLAIM));
  const now = useNow();
  const [seconds, setSeconds] = useState(3_600);
  const [naming, setNaming] = useState(false);
  const [name, setName] = useState(ownName() ?? "");
  const id = record.interrupt_id;
  const isClaimed = record.claimed_by != null && record.claimed_until != null && Date.parse(record.claimed_until) > now;
  const other = claimedByOther(record, store.get(), now);
  const snoozed = snoozedUntil(record, now);
  const run = (work: Promise<unknown>): void => {
    work.then(() => refresh(id)).catch((error: unknown) => {
      failed(error);
      if (error instanceof Problem && error.status === 409) void refresh(id).catch(failed);
    });
  };
  const claim = (): void => {
    if (me?.authentication) run(api.claim(id, null));
    else if (ownName() === null) setNaming(true);
    else run(api.claim(id, ownName()));
  };
  useClaim(record, isClaimed && !other, now, claim);
  // Whoever cannot answer it keeps nobody who can from it.
  const mayHold = whyNot(record, me) === null;
  const toggle = (): void => (isClaimed && !other ? run(api.release(id, me?.authentication ? null : ownName())) : claim());
  useKeys(canClaim && mayHold ? { c: toggle } : {});
  const named = (event: Event): void => {
    event.preventDefault();
    if (name.trim() === "") return;
    setOwnName(name.trim());
    setNaming(false);
    run(api.claim(id, name.trim()));
  };
  if (!canClaim || (!mayHold && !isClaimed && snoozed === null)) return null;
  return (
    <div class="handling">
      {isClaimed && (
        <p class={other ? "note bad" : "note"}>
          {other ? <><strong><Plain text={record.claimed_by ?? ""} /></strong> works on this until {clock(record.claimed_until ?? "")}. An answer of yours is refused until then.</> : <>You work on this until {clock(record.claimed_until ?? "")}; answers of others are refused until then.</>}
        </p>
      )}
      <div class="buttons small">
        {mayHold && (!isClaimed || !other) && <button type="button" class="quiet" onClick={toggle} aria-keyshortcuts="c">{isClaimed ? "Release" : "Claim"} <kbd>c</kbd></button>}
        {snoozed === null ? mayHold && (
          <>
            {/* Two steps: with a keyboard, a choice changes at every key. */}
            <select class="quiet" aria-label="Snooze for" value={String(seconds)} onChange={(event) => setSeconds(Number(event.currentTarget.value))}>
              {spans.map(([label, span]) => <option value={String(span)}>{label}</option>)}
            </select>
            <button type="button" class="quiet" onClick={() => run(api.snooze(id, seconds))}>Snooze</button>
          </>
        ) : (
          <>
            <span class="muted">Snoozed{record.snoozed_by ? <> by <Plain text={record.snoozed_by} /></> : null}, {left(snoozed, now).text}.</span>
            <button type="button" class="quiet" onClick={() => run(api.wake(id))}>Show again</button>
          </>
        )}
      </div>
      {naming && (
        <form class="inline" onSubmit={named}>
          <label for="own-name">Your name, for the others to see</label>
          <input id="own-name" maxLength={64} value={name} onInput={(event) => setName(event.currentTarget.value)} />
          <button type="submit">Claim</button>
        </form>
      )}
    </div>
  );
}
