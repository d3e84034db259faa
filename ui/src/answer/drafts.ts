// What a person has begun to answer, kept while they look at something else.

import { useLayoutEffect, useState } from "preact/hooks";
import type { Json } from "../json";

/** What a field shows that its value does not say: a text that is no JSON yet, or rows with the same name twice. */
export interface Typed {
  shown: Json;
  /** The value beside which it was typed; beside another one it is out of date. */
  value: Json | undefined;
}

export interface Draft {
  mode?: "edit" | "reject" | "respond" | undefined;
  args?: Json | undefined;
  reason?: string | undefined;
  response?: Json | undefined;
  always?: boolean | undefined;
  chosen?: ReadonlyMap<string, string[]> | undefined;
  other?: ReadonlyMap<string, string> | undefined;
  value?: Json | undefined;
  as?: "form" | "json" | "text" | undefined;
  outcome?: string | undefined;
  typed?: ReadonlyMap<string, Typed> | undefined;
}

const nothing: Draft = {};
const drafts = new Map<string, Draft>();
const listeners = new Set<() => void>();
/** How often all of them were forgotten. */
let rounds = 0;

/** The reason why many are rejected is no request's. */
export const TOGETHER = "together";

export function draftOf(id: string): Draft {
  return drafts.get(id) ?? nothing;
}

export function keepDraft(id: string, change: Partial<Draft>): void {
  drafts.set(id, { ...draftOf(id), ...change });
  tell();
}

/** Whether there is something in it that would have to be written or chosen anew. */
export function isBegun({ mode, args, reason, response, chosen, other, value, outcome, typed }: Draft): boolean {
  const written = mode === "reject" ? reason : mode === "respond" ? response : undefined;
  return [args, chosen, other, value, outcome, written].some((one) => one !== undefined && one !== "") || (typed?.size ?? 0) > 0;
}

/** The draft; the component renders again when it is another one. */
export function useDraft(id: string): Draft {
  const draft = draftOf(id);
  const [, again] = useState({});
  useLayoutEffect(() => {
    const look = (): void => void (draftOf(id) !== draft && again({}));
    // It may have changed between the render and now.
    look();
    listeners.add(look);
    return () => void listeners.delete(look);
  });
  return draft;
}

/** Another number once all drafts were forgotten: what stands in the fields of a form is then forgotten with them. */
export function useRounds(): number {
  const now = rounds;
  const [, again] = useState({});
  useLayoutEffect(() => {
    const look = (): void => void (rounds !== now && again({}));
    look();
    listeners.add(look);
    return () => void listeners.delete(look);
  });
  return now;
}

/** It was sent, or the person has left it. */
export function forgetDraft(id: string): void {
  if (drafts.delete(id)) tell();
}

/** It is settled by somebody else: what was begun can still be read, and copied. */
export function settleDraft(id: string): void {
  if (!isBegun(draftOf(id))) forgetDraft(id);
}

/** What one person has begun is no other's. */
export function forgetDrafts(): void {
  drafts.clear();
  rounds++;
  tell();
}

function tell(): void {
  for (const listener of [...listeners]) listener();
}
