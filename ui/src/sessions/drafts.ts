// Messages that a person has begun to write, kept while they look at something else, and while one is on its way.

import { useLayoutEffect, useState } from "preact/hooks";
import type { Message } from "../types";
import type { Chosen } from "./files";

export interface Draft {
  text: string;
  chosen: readonly Chosen[];
  problems: readonly string[];
  sending: boolean;
  attempt: Attempt | null;
}

/** What was sent and may or may not have arrived. Under the same key the server takes it once. */
export interface Attempt {
  content: string;
  chosen: readonly Chosen[];
  key: string;
  /** How many messages people had sent before it; null where that was not known yet. */
  after: number | null;
}

const nothing: Draft = { text: "", chosen: [], problems: [], sending: false, attempt: null };
const drafts = new Map<string, Draft>();
const listeners = new Set<() => void>();

export function draftOf(session: string): Draft {
  return drafts.get(session) ?? nothing;
}

export function keepDraft(session: string, change: Partial<Draft>): void {
  const draft = { ...draftOf(session), ...change };
  const isNothing = draft.text === "" && draft.chosen.length === 0 && draft.problems.length === 0 && !draft.sending && draft.attempt === null;
  if (isNothing) drafts.delete(session);
  else drafts.set(session, draft);
  for (const listener of [...listeners]) listener();
}

/** The draft; the component renders again when it is another one. */
export function useDraft(session: string): Draft {
  const draft = draftOf(session);
  const [, again] = useState({});
  useLayoutEffect(() => {
    const look = (): void => void (draftOf(session) !== draft && again({}));
    // It may have changed between the render and now.
    look();
    listeners.add(look);
    return () => void listeners.delete(look);
  });
  return draft;
}

/** The attempt that this would be: the last one again, or one under a key of its own. */
export function attemptOf(last: Attempt | null, content: string, chosen: readonly Chosen[], after: number | null): Attempt {
  const isSame = last !== null && last.content === content && last.chosen.length === chosen.length && chosen.every((one, index) => one === last.chosen[index]);
  return isSame ? last : { content, chosen, key: newKey(), after };
}

/** Of what people have said in a session, in order: what may not have arrived is there, and so is no draft any more. Said again, it is another message. */
export function seeArrived(session: string, said: readonly Message[]): void {
  const { attempt, sending, text, chosen } = draftOf(session);
  if (attempt === null || attempt.after === null || sending) return;
  const isThere = said.slice(attempt.after).some((message) => (message.content ?? "") === attempt.content && (message.attachments ?? []).length === attempt.chosen.length);
  if (!isThere) return;
  keepDraft(session, { attempt: null, text: text.trim() === attempt.content ? "" : text, chosen: chosen.filter((one) => !attempt.chosen.includes(one)) });
}

/** What one person has begun is no other's. */
export function forgetDrafts(): void {
  drafts.clear();
  for (const listener of [...listeners]) listener();
}

/** Not `randomUUID`: browsers have that for pages over TLS and of this machine alone. */
function newKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
