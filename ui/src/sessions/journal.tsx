// The journal of the newest turn, as a timeline.

import { useEffect, useRef, useState } from "preact/hooks";
import { api, Problem } from "../api";
import { clock } from "../format";
import { isObject, write, type Json } from "../json";
import { failed } from "../shell/notices";
import { Name, Plain, Text } from "../shown";
import { Attached } from "./attached";
import type { JournalEntry, Session } from "../types";

export function Journal({ session }: { session: Session }) {
  const [entries, setEntries] = useState<JournalEntry[] | null>(null);
  const [next, setNext] = useState<string | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  // A later look makes an earlier one moot, and the pages that were to follow it.
  const looks = useRef(0);
  const look = (): void => {
    const mine = ++looks.current;
    api.journal(session.session_id).then(
      (page) => {
        if (mine !== looks.current) return;
        setEntries(page.items);
        setNext(page.next);
        setProblem(null);
      },
      (error: unknown) => mine === looks.current && setProblem(error instanceof Problem ? error.message : String(error)),
    );
  };
  useEffect(() => {
    look();
    return () => void looks.current++;
  }, [session.session_id, session.status, session.updated_at]);
  const more = (path: string): void => {
    const mine = looks.current;
    api.nextJournal(path).then(
      (page) => {
        if (mine !== looks.current) return;
        setEntries((before) => [...(before ?? []), ...page.items]);
        setNext(page.next);
      },
      // The next turn has begun, and has a journal of its own.
      (error: unknown) => (error instanceof Problem && error.status === 422 ? look() : failed(error)),
    );
  };
  if (problem !== null) return <p class="note bad">{problem}</p>;
  if (entries === null) return <p class="muted">Loading…</p>;
  if (entries.length === 0) return <p class="empty">There is no turn yet, or its journal was removed.</p>;
  return (
    <div class="timeline" tabIndex={0} role="region" aria-label="Journal of the newest turn">
      <ol>{entries.map((entry) => <Entry key={entry.index} entry={entry} />)}</ol>
      {next !== null && <button type="button" onClick={() => more(next)}>Show more</button>}
    </div>
  );
}

/** What the less common words of a journal stand for. */
const MEANING = new Map([
  ["intent", "about to begin, once"],
  ["pause", "waits for people or timers"],
  ["taken", "goes on in another worker"],
]);

function Entry({ entry }: { entry: JournalEntry }) {
  const { index, at, entry: word, kind, name, location, result, error, attachments = [] } = entry;
  return (
    <li class={`entry-${word}`}>
      <span class="number">{index}</span>
      <div>
        <p class="facts">
          <strong>{word.replace(/_/g, " ")}</strong>
          {MEANING.has(word) && <span>{MEANING.get(word)}</span>}
          {kind != null && <span>{kind}</span>}
          {name != null && <code><Name text={name} /></code>}
          {at != null && <time dateTime={at}>{clock(at)}</time>}
          {location != null && <span class="where"><Plain text={location} /></span>}
        </p>
        {isObject(entry.message) && typeof entry.message["content"] === "string" && <p class="result"><Text text={entry.message["content"]} /></p>}
        {error != null && <p class="result bad"><Text text={textOf(error)} /></p>}
        {result != null && <details><summary>Result</summary><p class="result"><Text text={textOf(result)} /></p></details>}
        <Attached message={{ attachments }} />
      </div>
    </li>
  );
}

function textOf(value: Json): string {
  return typeof value === "string" ? value : write(value, 2);
}
