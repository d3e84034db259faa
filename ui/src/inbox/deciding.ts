// Answers: held for a few seconds so that they can be taken back, then sent, then told.

import { forgetDraft } from "../answer/drafts";
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

interface Holding {
  detail?: string | null | undefined;
  /** The draft that is done with once all of them are taken. */
  draft?: string | undefined;
}

interface Waiting extends Holding {
  answers: Answer[];
  label: string;
  timer: number;
  /** When it is sent by itself. */
  until: number;
  /** What is still to be sent, once the sending has begun. */
  queue: Answer[];
  /** Of each whose sending has begun, whether the server has taken it, or why it could not even refuse it. */
  begun: Promise<boolean | Problem>[];
  /** The sending, and whether all of it was taken; what was begun cannot be taken back. */
  sending: Promise<boolean> | null;
  /** How many of them the server did not take up, and are sent again until it says something to them. */
  trying: number;
  isStopped: boolean;
}

const waiting = new Map<string, Waiting>();
let count = 0;

/** Holds answers, all under one label, and sends them when nobody took them back. Says whether it does: not if one of them is held already, or settled. */
export function hold(answers: Answer[], label: string, { detail = null, draft }: Holding = {}): boolean {
  const ids = answers.map((answer) => answer.id);
  const { held, records } = store.get();
  const late = ids.filter((id) => held.has(id) || (records.get(id)?.status ?? "pending") !== "pending").length;
  if (late > 0) {
    notify(`Nothing was decided: ${ids.length === 1 ? "it is" : `${late} of them ${late === 1 ? "is" : "are"}`} answered already.`, "bad");
    return false;
  }
  const key = `held-${++count}`;
  const group: Waiting = { answers, label, draft, timer: 0, until: Date.now() + UNDO_SECONDS * 1000, queue: [], begun: [], sending: null, trying: 0, isStopped: false };
  waiting.set(key, group);
  show(key, ids, { ids, label, detail, until: 0, sending: false, isTrying: false });
  wait(key, group, UNDO_SECONDS * 1000);
  store.set((state) => ({
    problems: store.changed(state.problems, ids.map((id) => [id, undefined] as const)),
    selected: new Set([...state.selected].filter((id) => !ids.includes(id))),
  }));
  announce(`${label}. Press u to undo.`);
  return true;
}

/** Without an end as long as nobody knows whose answers would be sent. */
function wait(key: string, group: Waiting, milliseconds = Math.max(0, group.until - Date.now())): void {
  clearTimeout(group.timer);
  if (!isPaused) group.timer = window.setTimeout(() => void sendNow(key), milliseconds);
  change(key, { until: isPaused ? Infinity : group.until });
}

/** Whether another person may have signed in on this browser. */
let isPaused = false;

/** Sends nothing until it is known who is signed in: answers go out under the browser's cookie, whosever that is. */
export function pause(): void {
  if (isPaused) return;
  isPaused = true;
  for (const [key, group] of waiting) if (group.sending === null) wait(key, group);
}

/** It is who it was: what is held goes on; or another one, whose answers they are not. */
export function goOn(isSame: boolean): void {
  if (!isSame) for (const key of [...waiting.keys()]) if (undo(key) === null) stop(key);
  if (!isPaused) return;
  isPaused = false;
  for (const [key, group] of waiting) if (group.sending === null) wait(key, group);
  wake();
}

/** What is held, each group once, by its key. */
export function groups(held: store.State["held"]): [string, store.Held][] {
  return [...held].filter(([key]) => key.startsWith("held-"));
}

function show(key: string, ids: string[], held: store.Held | undefined): void {
  store.set((state) => ({ held: store.changed(state.held, [key, ...ids].map((one) => [one, held] as const)) }));
}

function change(key: string, part: Partial<store.Held>): void {
  const held = store.get().held.get(key);
  if (held !== undefined) show(key, held.ids, { ...held, ...part });
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

/** Sends no more of what is being sent, nor again; what is on its way already cannot be stopped. */
export function stop(key: string): void {
  const group = waiting.get(key);
  if (group === undefined) return;
  group.isStopped = true;
  group.queue.splice(0);
  wake();
}

/** `leaving`: the page may be gone before there is a reply, so that all has to be on its way at once. Says whether all of it was taken. */
export function sendNow(key: string, leaving = false): Promise<boolean> {
  const group = waiting.get(key);
  if (group === undefined) return Promise.resolve(true);
  if (isPaused) return Promise.resolve(false);
  group.sending ??= deliver(key, group);
  // Also of what is being sent a few at a time already.
  if (leaving) group.begun.push(...group.queue.splice(0).map((answer) => send(key, group, answer)));
  return group.sending;
}

/** Few at a time: a bulk decision must not take all connections of the page. */
const AT_ONCE = 4;

async function deliver(key: string, group: Waiting): Promise<boolean> {
  clearTimeout(group.timer);
  change(key, { sending: true });
  const { answers, label, begun } = group;
  group.queue = [...answers];
  const work = async (): Promise<void> => {
    for (let answer = group.queue.shift(); answer !== undefined; answer = group.queue.shift()) {
      const one = send(key, group, answer);
      begun.push(one);
      await one;
    }
  };
  let replies: (boolean | Problem)[] = [];
  try {
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    // The queue is empty, so that no more begin.
    replies = await Promise.all(begun);
  } finally {
    letGo(key, group);
  }
  const taken = replies.filter((one) => one === true).length;
  const isAll = taken === answers.length;
  const problem = replies.find((one) => one instanceof Problem);
  if (isAll && group.draft !== undefined) forgetDraft(group.draft);
  if (problem instanceof Problem) unsent(group, taken, problem);
  else if (answers.length > 1 && begun.length === answers.length && !isAll) unsent(group, taken);
  else if (begun.length < answers.length) notify(`${label}: stopped. ${taken} of ${answers.length} were sent.`);
  else if (taken > 0) announce(`${label}: ${answers.length === 1 ? "sent" : `${taken} of ${answers.length} sent`}.`);
  return isAll;
}

/** Of many that the server did not take one notice, and what is left of them is selected again. */
function unsent({ answers, label }: Waiting, taken: number, problem?: Problem): void {
  const [first] = answers;
  if (answers.length === 1 && first !== undefined && problem !== undefined) {
    const record = store.get().records.get(first.id);
    const what = problem.isUnsure ? "may not have been answered" : "was not answered";
    notify(`${record === undefined ? "The request" : title(record)} ${what}: ${problem.message}`, "bad", { href: toInterrupt(first.id), text: "Show" });
    return;
  }
  const left = answers.map((answer) => answer.id).filter((id) => store.get().records.get(id)?.status === "pending");
  store.set((state) => ({ selected: new Set([...state.selected, ...left]) }));
  const rest = answers.length - taken;
  notify(`${label}: ${taken} of ${answers.length} taken, ${rest} not${problem === undefined ? "" : `: ${problem.message}`}${left.length > 0 ? `. ${left.length === 1 ? "It is" : "They are"} selected again.` : ""}`, "bad");
}

/** Seconds for which an answer is sent again that the server did not take up: it may start anew, or have much to do. */
const PATIENCE = 30;

/** Sends it until the server says something to it: the same answer again is taken once. */
async function send(key: string, group: Waiting, answer: Answer): Promise<boolean | Problem> {
  let waited = 0;
  let isTrying = false;
  try {
    for (let pause = 1; ; ) {
      const reply = await sendOnce(answer);
      if (!(reply instanceof Problem)) return reply;
      if (reply.status === 401 && isPaused) {
        await whenKnown(group);
      } else if (reply.isPassing) {
        const seconds = Math.min(Math.max(1, reply.retryAfter ?? pause), PATIENCE - waited);
        if (seconds <= 0) {
          // Nor would the others fare better.
          group.isStopped = true;
          group.queue.splice(0);
          return reply;
        }
        // Until there is an answer to it: on its way once more it may be refused once more, which a page that is gone cannot hear.
        if (!isTrying) change(key, { isTrying: ++group.trying > 0 });
        isTrying = true;
        await sleep(seconds, group);
        await whenKnown(group);
        waited += seconds;
        pause *= 2;
      } else return reply;
      if (group.isStopped) return reply;
    }
  } finally {
    if (isTrying) change(key, { isTrying: --group.trying > 0 });
  }
}

/** Until it is known who is signed in, or nothing more is to be sent. */
async function whenKnown(group: Waiting): Promise<void> {
  while (isPaused && !group.isStopped) await new Promise<void>((resolve) => wakers.add(resolve));
}

async function sleep(seconds: number, group: Waiting): Promise<void> {
  let isOver = group.isStopped;
  setTimeout(() => {
    isOver = true;
    wake();
  }, seconds * 1000);
  while (!isOver && !group.isStopped) await new Promise<void>((resolve) => wakers.add(resolve));
}

const wakers = new Set<() => void>();

function wake(): void {
  const all = [...wakers];
  wakers.clear();
  for (const work of all) work();
}

/** Whether the server has taken it; the problem, where it neither took nor refused it. */
async function sendOnce(answer: Answer): Promise<boolean | Problem> {
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
      return false;
    }
    if (error.code === "already_resolved" || error.status === 410 || error.code === "interrupt_cancelled") {
      const record = await refresh(answer.id).catch(() => null);
      const who = record === null ? null : decider(record);
      const what = record === null ? "answered" : outcome(record);
      notify(`${name}: ${what}${who === null ? "" : ` by ${who}`} before your answer came. Yours was not taken.`, "bad", link);
      return false;
    }
    if (!error.isPassing) await refresh(answer.id).catch(() => null);
    return error;
  }
  forgetDraft(answer.id);
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
    const isTrying = [...waiting.values()].some((group) => group.trying > 0);
    // What is on its way may be refused too while nobody is signed in.
    if (isTrying || (isPaused && waiting.size > 0)) {
      event.preventDefault();
      notify(`What you answered is not taken yet: ${isTrying ? "the server is away, or has much to do" : "the page does not know whether you are still signed in"}.`, "bad");
      return;
    }
    if (!wouldBeLost(rest.map((answer) => answer.value))) return;
    event.preventDefault();
    leave();
    notify("What you answered is too large for the browser to send once the page is gone. It is being sent now.");
  });
  document.addEventListener("visibilitychange", () => document.visibilityState === "hidden" && leave());
}
