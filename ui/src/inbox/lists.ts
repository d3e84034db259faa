// The lists of the inbox: what is loaded, and where each record belongs.

import { settleDraft } from "../answer/drafts";
import { api, Problem, type Page, type Query } from "../api";
import { write } from "../json";
import { current, type Box } from "../router";
import * as store from "../store";
import type { Filters, Loaded, State } from "../store";
import type { Interrupt, Me } from "../types";
import { toolName } from "../format";

const PAGE = "200";

/** Whether somebody else works on it. */
export function claimedByOther(record: Interrupt, state: Pick<State, "me">, now: number): boolean {
  if (!record.claimed_by || !record.claimed_until || Date.parse(record.claimed_until) <= now) return false;
  return record.claimed_by !== (state.me?.name ?? ownName());
}

/** Until when it is put off; null where it is not. */
export function snoozedUntil(record: Interrupt, now: number): string | null {
  return record.snoozed_until && Date.parse(record.snoozed_until) > now ? record.snoozed_until : null;
}

/** Why the person at this page cannot answer, and who can; null where they can. */
export function whyNot(record: Interrupt, me: State["me"]): string | null {
  // Until the server has said who this is, it is the one to refuse.
  if (me === null) return null;
  const named = record.approvers ?? [];
  const only = `Only ${listed(named)} can answer this`;
  if (!me.authentication) return named.length > 0 ? `${only}, and this server has no keys to tell who asks.` : null;
  if (!can(me, "answer")) return "Your key may read, not answer.";
  const among = named.some((one) => one === me.name || (one.startsWith(GROUP) && me.groups.includes(one.slice(GROUP.length))));
  if (named.length > 0 && !among) return `${only}.`;
  const letsRun = record.lets_run === true || record.type === "tool_approval" || record.type === "unknown_outcome";
  if (!me.prevent_self_approval || !letsRun) return null;
  if (record.sent_by == null) return can(me, "admin") ? null : "Only an admin can answer this: the message is from nobody that this server knows.";
  if (record.sent_by !== me.name) return null;
  const others = named.filter((one) => one !== me.name);
  return `The message was yours, so ${others.length > 0 ? listed(others) : "somebody else"} has to answer this.`;
}

const GROUP = "group:";

function can(me: Me, scope: string): boolean {
  return me.scopes.includes(scope) || me.scopes.includes("admin");
}

/** Approvers in words: `ada, bob or somebody in finance`. */
export function listed(approvers: string[]): string {
  const words = approvers.map((one) => (one.startsWith(GROUP) ? `somebody in ${one.slice(GROUP.length)}` : one));
  return words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} or ${words.at(-1)}`;
}

export function boxOf(record: Interrupt, state: State, now: number): Box {
  if (record.status !== "pending" || state.held.has(record.interrupt_id)) return "done";
  const waits = snoozedUntil(record, now) !== null || claimedByOther(record, state, now) || whyNot(record, state.me) !== null;
  return waits ? "waiting" : "needs";
}

/** The ids of a box, in order, without what was answered a moment ago and is not sent yet. */
export function idsOf(box: Box, state: State, now: number): string[] {
  if (box === "done") {
    return state.done.ids.filter((id) => state.records.get(id)?.status === state.outcome);
  }
  const searched = state.filters.q === "" || state.routes.has(store.SEARCH);
  return state.pending.ids.filter((id) => {
    const record = state.records.get(id);
    return record !== undefined && boxOf(record, state, now) === box && (searched || says(record, state.filters.q));
  });
}

/** Who claims, on a server without keys. */
export function ownName(): string | null {
  try {
    return localStorage.getItem("hitl-name");
  } catch {
    return null;
  }
}

export function setOwnName(name: string): void {
  localStorage.setItem("hitl-name", name.slice(0, 64));
}

function queryOf(filters: Filters): Query {
  const { q, type, tool, agent, session } = filters;
  // A server that cannot search leaves it to the page, over what is loaded.
  return { q: store.has(store.SEARCH) ? q : undefined, type, tool, agent, session_id: session, limit: PAGE };
}

function says(record: Interrupt, words: string): boolean {
  return write([record.payload, record.message, record.agent]).toLowerCase().includes(words.toLowerCase());
}

function matches(record: Interrupt, filters: Filters): boolean {
  return (
    (filters.type === "" || record.type === filters.type) &&
    (filters.tool === "" || toolName(record) === filters.tool) &&
    (filters.agent === "" || record.agent === filters.agent) &&
    (filters.session === "" || record.session_id === filters.session) &&
    (filters.q === "" || says(record, filters.q))
  );
}

type Which = "pending" | "done";
// A later load of the same list makes an earlier one moot.
const rounds: Record<Which, number> = { pending: 0, done: 0 };
// What was heard while a page was on its way is newer than that page, which must not undo it.
const heard: Record<Which, Set<string>> = { pending: new Set(), done: new Set() };

async function load(which: Which, fetchPage: () => Promise<Page<Interrupt>>, more: boolean): Promise<void> {
  const round = ++rounds[which];
  const since = (heard[which] = new Set<string>());
  store.set((state) => ({ [which]: { ...state[which], loading: true, failed: null } }));
  try {
    const page = await fetchPage();
    if (round !== rounds[which]) return;
    store.set((state) => {
      const ids = page.items.map((record) => record.interrupt_id);
      const before = more ? state[which].ids : [];
      const kept = state[which].ids.filter((id) => since.has(id));
      // Ids are in the order of time; the newest comes first.
      const all = [...new Set([...before, ...ids, ...kept])].sort().reverse();
      const news = page.items.filter((one) => !since.has(one.interrupt_id) && !isOutdated(one, state));
      const records = store.changed(state.records, news.map((one) => [one.interrupt_id, one]));
      const listed = which === "done" ? all : all.filter((id) => records.get(id)?.status === "pending");
      const loaded: Loaded = { ids: listed, next: page.next, loading: false, loaded: true, failed: null };
      return { records, [which]: loaded };
    });
  } catch (error) {
    if (round !== rounds[which]) return;
    const failed = error instanceof Problem ? error.message : String(error);
    store.set((state) => ({ [which]: { ...state[which], loading: false, failed } }));
  }
}

export function loadPending(): Promise<void> {
  return load("pending", () => api.interrupts({ ...queryOf(store.get().filters), status: "pending" }), false);
}

export function loadDone(): Promise<void> {
  const { filters, outcome } = store.get();
  return load("done", () => api.interrupts({ ...queryOf(filters), status: outcome }), false);
}

export async function loadMore(which: Which): Promise<void> {
  const { next, loading, failed } = store.get()[which];
  if (next !== null && !loading && failed === null) await load(which, () => api.nextInterrupts(next), true);
}

export function setFilters(change: Partial<Filters>): void {
  store.set((state) => ({ filters: { ...state.filters, ...change } }));
  void loadPending();
  const { loaded, loading, failed } = store.get().done;
  if (loaded || loading || failed !== null) void loadDone();
  // What was there when somebody left it fits the filters no more.
  else store.set({ done: store.nothing });
}

/** Nobody looks at what is done: it does not grow meanwhile, and is loaded anew for who comes back. */
export function leaveDone(): void {
  rounds.done++;
  store.set((state) => ({ done: { ...state.done, loading: false, loaded: false, failed: null } }));
}

export function setOutcome(outcome: State["outcome"]): void {
  store.set({ outcome, done: { ...store.nothing, loading: true } });
  void loadDone();
}

/** What is settled never waits again: events are told in order, but a reply may be slower than the next event. */
function isOutdated(record: Interrupt, state: State): boolean {
  const known = state.records.get(record.interrupt_id);
  return known !== undefined && known.status !== "pending" && record.status === "pending";
}

/** Takes in a record, from an event or an answer. */
export function takeIn(record: Interrupt): void {
  if (isOutdated(record, store.get())) return;
  const id = record.interrupt_id;
  const isSettled = record.status !== "pending";
  if (isSettled) settleDraft(id);
  store.set((state) => {
    const records = new Map(state.records);
    // At the end, so that those settled last are kept longest.
    if (isSettled) records.delete(id);
    records.set(id, record);
    const change: Partial<State> = { records };
    for (const which of ["pending", "done"] as const) if (state[which].loading) heard[which].add(id);
    if (matches(record, state.filters) && (!isSettled || state.done.loaded || state.done.loading)) {
      const which: Which = isSettled ? "done" : "pending";
      change[which] = { ...state[which], ids: inserted(state[which].ids, id) };
    }
    if (isSettled) {
      if (state.pending.ids.includes(id)) change.pending = { ...state.pending, ids: state.pending.ids.filter((one) => one !== id) };
      if (state.problems.has(id)) change.problems = store.changed(state.problems, [[id, undefined]]);
      dropSpare(records, { ...state, ...change });
    }
    if (isSettled && state.selected.has(id)) change.selected = new Set([...state.selected].filter((one) => one !== id));
    return change;
  });
}

/** Of the settled ones that nothing shows so many are known, so that a reply that was slow does not make them wait again. */
const MOST_SPARE = 500;

/** A page stays open for weeks, and hears of all that is settled meanwhile. */
function dropSpare(records: Map<string, Interrupt>, state: State): void {
  if (records.size <= MOST_SPARE) return;
  const route = current();
  const shown = new Set([...state.done.ids, ...state.held.keys(), ...(route.page === "inbox" ? [route.id] : [])]);
  const spare = [...records.values()].filter((one) => one.status !== "pending" && !shown.has(one.interrupt_id));
  for (const one of spare.slice(0, Math.max(0, spare.length - MOST_SPARE))) records.delete(one.interrupt_id);
}

/** Its session was deleted, and it with that. */
export function takeAway(id: string): void {
  const known = store.get().records.get(id);
  if (known?.status === "pending") takeIn({ ...known, status: "cancelled" });
}

function inserted(ids: string[], id: string): string[] {
  let low = 0;
  let high = ids.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((ids[middle] ?? "") > id) low = middle + 1;
    else high = middle;
  }
  return ids[low] === id ? ids : [...ids.slice(0, low), id, ...ids.slice(low)];
}

/** A record as it is now. */
export async function refresh(id: string): Promise<Interrupt> {
  try {
    for (;;) {
      const before = store.get().records.get(id);
      const record = await api.interrupt(id);
      // Whether what was heard meanwhile is older than the reply or newer, only another reply can tell.
      if (store.get().records.get(id) !== before) continue;
      takeIn(record);
      return record;
    }
  } catch (error) {
    if (error instanceof Problem && error.status === 404) takeAway(id);
    throw error;
  }
}
