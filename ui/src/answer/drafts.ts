// What a person has begun to answer, kept while they look at something else.

import type { Json } from "../json";

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
}

const drafts = new Map<string, Draft>();

export function draftOf(id: string): Draft {
  return drafts.get(id) ?? {};
}

export function keepDraft(id: string, draft: Draft): void {
  drafts.set(id, draft);
}

/** It is settled, and stays so. */
export function forgetDraft(id: string): void {
  drafts.delete(id);
}

/** What one person has begun is no other's. */
export function forgetDrafts(): void {
  drafts.clear();
}
