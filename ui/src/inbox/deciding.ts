// Answers: held for a few seconds so that they can be taken back, then sent, then told.

import { api, Problem, wouldBeLost } from "../api";
import { decider, outcome, title } from "../format";
import type { Json } from "../json";
import { toInterrupt } from "../router";
import { announce, notify } from "../shell/notices";
import * as store from "../store";
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
  /** What is still to be sent, once the sending has begun. */
  queue: Answer[];
  /** Of each whose sending has begun, whether the server has taken it. */
  begun: Promise<boolean>[];
  /** The sending, and whether all of it was taken; what was begun cannot be taken back. */
  sending: Promise<boolean> | null;
}

const waiting = new Map<string, Waiting>();
let count = 0;

/** Holds answers, all under one label, and sends them when nobody took them back. */
export function hold(answers: Answer[], label: string, detail: string | null = null): void {
  const ids = answers.map((answer) => answer.id);
  if (ids.some((id) => store.get().held.has(id))) return;
  const key = `held-${++count}`;
  const timer = window.setTimeout(() => void sendNow(key), UNDO_SECONDS * 1000);
  waiting.set(key, { answers, label, timer, queue: [], begun: [], sending: null });
  show(key, ids, { ids, label, detail, until: Date.now() + UNDO_SECONDS * 1000, sending: false });
  store.set((state) => ({
    problems: store.changed(state.problems, ids.map((id) => [id, undefined] as const)),
    selected: new Set([...state.selected].filter((id) => !ids.includes(id))),
  }));
  announce(`${label}. Press u to undo.`);
}

/** What is held, each group once, by its key. */
export function groups(held: store.State["held"]): [string, store.Held][] {
  return [...held].filter(([key]) => key.startsWith("held-"));
}

function show(key: string, ids: string[], held: store.Held | undefined): void {
  store.set((state) => ({ held: store.changed(state.held, [key, ...ids].map((one) => [one, held] as const)) }));
}

function letGo(key: string, group: Waiting): void {
  clearTimeout(group.timer);
  waiting.delete(key);
  show(key, group.answers.map((answer) => answer.id), undefined);
}

/** Takes back the newest answers that are not being sent, or those under `key`. Says which request to show again. */
export function undo(key?: string): string | null {
  const newest = key ?? [...waiting].filter(([, group]) => group.sending === null).at(-1)?.[0];
  const group = newest === undefined ? undefined : waiting.get(newest);
  if (newest === undefined || group === undefined || group.sending !== null) return null;
  letGo(newest, group);
  announce("Taken back. Nothing was sent.");
  return group.answers[0]?.id ?? null;
}

/** Sends no more of what is being sent; what is on its way already cannot be stopped. */
export function stop(key: string): void {
  waiting.get(key)?.queue.splice(0);
}

/** `leaving`: the page may be gone before there is a reply, so that all has to be on its way at once. Says whether all of it was taken. */
export function sendNow(key: string, leaving = false): Promise<boolean> {
  const group = waiting.get(key);
  if (group === undefined) return Promise.resolve(true);
  group.sending ??= deliver(key, group);
  // Also of what is being sent a few at a time already.
  if (leaving) group.begun.push(...group.queue.splice(0).map(send));
  return group.sending;
}

/** Few at a time: a bulk decision must not take all connections of the page. */
const AT_ONCE = 4;

async function deliver(key: string, group: Waiting): Promise<boolean> {
  clearTimeout(group.timer);
  const held = store.get().held.get(key);
  if (held !== undefined) show(key, held.ids, { ...held, sending: true });
  const { answers, label, begun } = group;
  group.queue = [...answers];
  const work = async (): Promise<void> => {
    for (let answer = group.queue.shift(); answer !== undefined; answer = group.queue.shift()) {
      const one = send(answer);
      begun.push(one);
      await one;
    }
  };
  let sent = 0;
  try {
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    // The queue is empty, so that no more begin.
    sent = (await Promise.all(begun)).filter((taken) => taken).length;
  } finally {
    letGo(key, group);
  }
  if (begun.length < answers.length) notify(`${label}: stopped. ${sent} of ${answers.length} were sent.`);
  else if (sent > 0) announce(`${label}: ${answers.length === 1 ? "sent" : `${sent} of ${answers.length} sent`}.`);
  return sent === answers.length;
}

/** Whether the server has taken it. */
async function send(answer: Answer): Promise<boolean> {
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
      const what = error.isUnsure ? "may not have been answered" : "was not answered";
      notify(`${name} ${what}: ${error.message}`, "bad", link);
      await refresh(answer.id).catch(() => null);
    }
    return false;
  }
  // The event says it too; whoever comes first. The answer is stored either way.
  await refresh(answer.id).catch(() => null);
  return true;
}

/** Sends all that is held, now. Says whether all of it was taken. */
export async function flush(leaving = false): Promise<boolean> {
  return (await Promise.all([...waiting.keys()].map((key) => sendNow(key, leaving)))).every((taken) => taken);
}

/** A page that goes takes what is held with it: phones end a page in the background without another word. */
export function sendBeforeLeaving(): void {
  const leave = (): void => void flush(true);
  addEventListener("pagehide", leave);
  // More than browsers take with them: the person is asked to wait, and what there is goes out meanwhile.
  addEventListener("beforeunload", (event) => {
    const rest = [...waiting.values()].flatMap((group) => (group.sending === null ? group.answers : group.queue));
    if (!wouldBeLost(rest.map((answer) => answer.value))) return;
    event.preventDefault();
    leave();
    notify("What you answered is too large for the browser to send once the page is gone. It is being sent now.");
  });
  document.addEventListener("visibilitychange", () => document.visibilityState === "hidden" && leave());
}
