// What happens on the server, as it happens. One stream for the page: browsers allow few.

import { forgetDrafts as forgetAnswers } from "./answer/drafts";
import { Problem, api } from "./api";
import { title } from "./format";
import { parse, isObject, type Json } from "./json";
import { goOn, pause } from "./inbox/deciding";
import { loadDone, loadPending, takeAway, takeIn } from "./inbox/lists";
import { forgetDrafts as forgetMessages } from "./sessions/drafts";
import { announce, failed } from "./shell/notices";
import * as store from "./store";
import type { Attachment, Interrupt, Message, SessionStatus } from "./types";

export interface Delta {
  session_id: string;
  step_id: string;
  attempt: number;
  delta: { content?: string };
}

/** A step of a turn: what a model has said, a tool that begins, a tool that is done. */
export interface Step {
  session_id: string;
  step_id: string;
  tool_call_id?: string | null;
  name?: string;
  message?: Message;
  result?: Json;
  attachments?: Attachment[];
  error?: string;
}
export type StepKind = "message.completed" | "tool.started" | "tool.finished";

type OnDelta = (delta: Delta) => void;
type OnStep = (kind: StepKind, step: Step) => void;
type OnSession = (session: string, isGone?: boolean) => void;
const deltaListeners = new Set<OnDelta>();
const stepListeners = new Set<OnStep>();
const sessionListeners = new Set<OnSession>();

export function onDelta(listener: OnDelta): () => void {
  deltaListeners.add(listener);
  return () => void deltaListeners.delete(listener);
}

export function onStep(listener: OnStep): () => void {
  stepListeners.add(listener);
  return () => void stepListeners.delete(listener);
}

/** Told of every change of a session or of its interrupts, also that it is gone; with an empty id after the stream was broken. */
export function onSession(listener: OnSession): () => void {
  sessionListeners.add(listener);
  return () => void sessionListeners.delete(listener);
}

const interruptEvents = ["created", "resolved", "expired", "cancelled", "claimed", "released", "snoozed", "unsnoozed"];
const stepEvents: StepKind[] = ["message.completed", "tool.started", "tool.finished"];
const sessionEvents: SessionStatus[] = ["running", "interrupted", "idle", "error"];
let source: EventSource | null = null;
let retry = 0;
/** How often in a row the browser gave up. */
let refusals = 0;

/** The name of who was signed in last on this page. */
let lastHere: string | null | undefined;

/** What the server can do, and who this is. */
async function learn(): Promise<void> {
  store.set({ routes: await api.routes() });
  await recognize();
  store.set({ needsKey: false });
}

/** Who this is: all pages of a browser have one cookie, and another may have signed in on one of them. */
async function recognize(): Promise<void> {
  if (!store.get().routes.has(store.ME)) return goOn(true);
  const me = await api.me();
  // Who signs in again goes on with what they had begun; it is nobody else's.
  const isSame = lastHere === undefined || lastHere === me.name;
  if (!isSame) {
    forgetAnswers();
    forgetMessages();
  }
  lastHere = me.name;
  isKnown = true;
  store.set({ me });
  goOn(isSame);
}

/** Whether nobody else can have signed in since it was asked who this is. */
let isKnown = false;

/** Another may sign in before this page hears something again: what it holds waits until it knows. */
function forgetWho(): void {
  isKnown = false;
  if (store.get().me?.authentication !== false) pause();
}

let isAsking = false;
let askAgain = 0;

/** Also without a stream: some proxies let none through, and until it is known nothing is sent. */
async function knowAgain(): Promise<void> {
  if (isAsking || isKnown) return;
  isAsking = true;
  try {
    if (store.get().routes.size === 0) await learn();
    else await recognize();
  } catch (error) {
    if (error instanceof Problem && error.status === 401) return;
    if (source?.readyState === EventSource.OPEN) failed(error);
    clearTimeout(askAgain);
    askAgain = window.setTimeout(() => void (source !== null && knowAgain()), AGAIN);
  } finally {
    isAsking = false;
  }
}

/** Milliseconds until a server that refuses is asked again. */
const AGAIN = 3_000;

/** Asks for everything that the page shows, and then hears what changes. */
export async function begin(): Promise<void> {
  try {
    await learn();
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    if (error.status === 401) return;
    // The lists say what is wrong, and it is tried again with the stream.
    store.set({ needsKey: false });
  }
  void loadPending();
  listen();
}

let isLooking = false;

/** Who signs in on one page of a browser is signed in on all of them: the form goes once somebody comes back to it. */
export function beginWhenSignedInElsewhere(): void {
  const look = async (): Promise<void> => {
    if (isLooking || !store.get().needsKey || document.visibilityState === "hidden") return;
    isLooking = true;
    try {
      // Or here, meanwhile.
      if ((await api.isSignedIn()) && store.get().needsKey) await begin();
    } finally {
      isLooking = false;
    }
  };
  addEventListener("focus", () => void look());
  document.addEventListener("visibilitychange", () => void look());
}

function listen(): void {
  source?.close();
  clearTimeout(retry);
  const stream = new EventSource("/events");
  source = stream;
  stream.onopen = () => {
    refusals = 0;
    store.set({ connection: "live" });
    // What happened before the stream was open is in the lists.
    void loadPending();
    if (store.get().done.loaded) void loadDone();
    void knowAgain();
    for (const listener of sessionListeners) listener("");
  };
  stream.onerror = () => {
    store.set({ connection: "broken" });
    forgetWho();
    // The browser gives up for good after a refusal: a key that was revoked shows at once, and a server that starts again
    // refuses for a while.
    if (stream.readyState === EventSource.CLOSED) {
      retry = window.setTimeout(() => void comeBack(), refusals++ === 0 ? 0 : AGAIN);
    }
  };
  for (const word of interruptEvents) {
    stream.addEventListener(`interrupt.${word}`, (event) => interruptEvent(word, event));
  }
  for (const status of sessionEvents) {
    stream.addEventListener(`session.${status}`, (event) => sessionEvent(status, event));
  }
  for (const kind of stepEvents) {
    stream.addEventListener(kind, (event) => {
      const step = parse((event as MessageEvent<string>).data) as unknown as Step;
      for (const listener of stepListeners) listener(kind, step);
    });
  }
  stream.addEventListener("message.delta", (event) => {
    const delta = parse((event as MessageEvent<string>).data) as unknown as Delta;
    for (const listener of deltaListeners) listener(delta);
  });
}

export function hangUp(): void {
  source?.close();
  source = null;
  clearTimeout(retry);
  clearInterval(asleep);
  asleep = 0;
  forgetWho();
}

/** Milliseconds after which a page that nobody sees hears no more: over HTTP/1.1 a browser has six connections to a server for all its pages. */
const UNSEEN = 30_000;
/** How often such a page asks what waits, which its title says. */
const ASKING = 60_000;
let unseen: { since: number; timer: number } | null = null;
let asleep = 0;

/** Hears nothing while nobody looks, and anew after a while without: a stream may have fallen silent without a word. */
export function listenWhileSeen(): void {
  const wake = (): void => {
    if (source === null && asleep === 0) return;
    clearInterval(asleep);
    asleep = 0;
    forgetWho();
    store.set({ connection: "connecting" });
    listen();
  };
  const sleep = (): void => {
    if (source === null) return;
    hangUp();
    asleep = window.setInterval(() => void loadPending(), ASKING);
  };
  const look = (): void => {
    if (document.visibilityState === "hidden") {
      unseen ??= { since: Date.now(), timer: window.setTimeout(sleep, UNSEEN) };
      return;
    }
    const { since, timer } = unseen ?? { since: Date.now(), timer: 0 };
    unseen = null;
    clearTimeout(timer);
    // A machine that slept has no timers meanwhile.
    if (asleep !== 0 || Date.now() - since >= UNSEEN) wake();
  };
  document.addEventListener("visibilitychange", look);
  // One may be opened out of sight.
  look();
  addEventListener("online", wake);
  addEventListener("pageshow", (event) => event.persisted && wake());
}

async function comeBack(): Promise<void> {
  if (store.get().routes.size === 0) return begin();
  try {
    await api.interrupts({ limit: "1" });
  } catch (error) {
    if (error instanceof Problem && error.status === 401) return;
  }
  void knowAgain();
  listen();
}

function interruptEvent(word: string, event: Event): void {
  const data = parse((event as MessageEvent<string>).data);
  if (!isObject(data)) return;
  const record = data as unknown as Interrupt;
  // With its session the record is gone too, and the event names it only.
  if (isObject(data["payload"])) takeIn(record);
  else takeAway(record.interrupt_id);
  if (word === "created" && record.status === "pending") announce(`New request: ${title(record)}`);
  for (const listener of sessionListeners) listener(record.session_id, !isObject(data["payload"]));
}

function sessionEvent(status: SessionStatus, event: Event): void {
  const data = parse((event as MessageEvent<string>).data);
  if (!isObject(data)) return;
  const id = String(data["session_id"]);
  const known = store.get().sessions.get(id);
  if (known !== undefined) {
    // How many messages it has is known again once it is read: an old number would be a wrong one.
    const total_messages = status === "idle" || status === "error" ? 0 : known.total_messages;
    const updated = { ...known, status, total_messages, updated_at: new Date().toISOString() };
    store.set((state) => ({ sessions: store.changed(state.sessions, [[id, updated]]) }));
  }
  for (const listener of sessionListeners) listener(id);
}
