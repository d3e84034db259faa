// Answers: held for a few seconds so that they can be taken back, then sent, then told.

import { api, Problem } from "../api";
import { decider, outcome, title } from "../format";
import type { Json } from "../json";
import { toInterrupt } from "../router";
import { announce, notify } from "../shell/notices";
import * as store from "../store";
import type { Interrupt } from "../types";
import { ownName, refresh } from "./lists";

/** How long an answer can be taken back. */
export const UNDO_SECONDS = 5;

export interface Answer {
  id: string;
  value: Json;
}

interface Waiting {
  answers: Answer[];
  label: string;
  timer: number;
}

const waiting = new Map<string, Waiting>();
let count = 0;

/** Holds answers, all under one label, and sends them when nobody took them back. */
export function hold(answers: Answer[], label: string, detail: string | null = null): void {
  const ids = answers.map((answer) => answer.id);
  if (ids.some((id) => store.get().held.has(id))) return;
  const key = `held-${++count}`;
  const held = { ids, label, detail, until: Date.now() + UNDO_SECONDS * 1000 };
  waiting.set(key, { answers, label, timer: window.setTimeout(() => void sendNow(key), UNDO_SECONDS * 1000) });
  store.set((state) => ({
    held: store.changed(state.held, [[key, held], ...ids.map((id) => [id, held] as const)]),
    problems: store.changed(state.problems, ids.map((id) => [id, undefined] as const)),
    selected: new Set([...state.selected].filter((id) => !ids.includes(id))),
  }));
  announce(`${label}. Press u to undo.`);
}

/** What is held, each group once, by its key. */
export function groups(held: store.State["held"]): [string, store.Held][] {
  return [...held].filter(([key]) => key.startsWith("held-"));
}

function letGo(key: string): Waiting | undefined {
  const group = waiting.get(key);
  if (group !== undefined) {
    clearTimeout(group.timer);
    waiting.delete(key);
    const keys = [key, ...group.answers.map((answer) => answer.id)];
    store.set((state) => ({ held: store.changed(state.held, keys.map((one) => [one, undefined] as const)) }));
  }
  return group;
}

/** Takes back the newest answers, or those under `key`. Says which request to show again. */
export function undo(key?: string): string | null {
  const newest = key ?? [...waiting.keys()].at(-1);
  const group = newest === undefined ? undefined : letGo(newest);
  if (group === undefined) return null;
  announce("Taken back. Nothing was sent.");
  return group.answers[0]?.id ?? null;
}

export async function sendNow(key: string): Promise<void> {
  const group = waiting.get(key);
  if (group === undefined || group.timer === 0) return;
  clearTimeout(group.timer);
  group.timer = 0;
  // Few at a time: a bulk decision must not take all connections of the page.
  const queue = [...group.answers];
  const sent: Interrupt[] = [];
  const workers = Array.from({ length: 4 }, async () => {
    for (let answer = queue.shift(); answer !== undefined; answer = queue.shift()) {
      const record = await send(answer);
      if (record !== null) sent.push(record);
    }
  });
  await Promise.all(workers);
  letGo(key);
  if (sent.length > 0) announce(`${group.label}: sent.`);
}

async function send(answer: Answer): Promise<Interrupt | null> {
  const before = store.get().records.get(answer.id);
  const name = before === undefined ? "the request" : title(before);
  const link = { href: toInterrupt(answer.id), text: "Show" };
  try {
    const { me } = store.get();
    const isMine = before?.claimed_by != null && before.claimed_by === ownName();
    await api.resume(answer.id, answer.value, isMine && !me?.authentication ? ownName() : null);
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    if (error.status === 422 && error.errors.length > 0) {
      store.set((state) => ({ problems: store.changed(state.problems, [[answer.id, error.errors]]) }));
      notify(`${name}: the server does not take this answer.`, "bad", link);
    } else if (error.code === "already_resolved" || error.status === 410 || error.code === "interrupt_cancelled") {
      const record = await refresh(answer.id).catch(() => null);
      const who = record === null ? null : decider(record);
      const what = record === null ? "answered" : outcome(record);
      notify(`${name}: ${what}${who === null ? "" : ` by ${who}`} before your answer came. Yours was not taken.`, "bad", link);
    } else {
      notify(`${name} was not answered: ${error.message}`, "bad", link);
      await refresh(answer.id).catch(() => null);
    }
    return null;
  }
  // The event says it too; whoever comes first. The answer is stored either way.
  return await refresh(answer.id).catch(() => before ?? null);
}

/** A page that is closed sends nothing more: ask first. */
export function guardUnsent(): void {
  addEventListener("beforeunload", (event) => {
    if (waiting.size > 0) event.preventDefault();
  });
}
