// One state for the whole page, changed by replacing members; components take what they need of it.

import { useLayoutEffect, useState } from "preact/hooks";
import type { Interrupt, Me, TitledSession, FieldError } from "./types";

export interface Filters {
  q: string;
  type: string;
  tool: string;
  agent: string;
  session: string;
}

export type Outcome = "resolved" | "expired" | "cancelled";

/** One list of the inbox: ids, newest first, and where its next page is. */
export interface Loaded {
  ids: string[];
  next: string | null;
  loading: boolean;
  /** Whether a first page has come. */
  loaded: boolean;
  failed: string | null;
}

/** An answer that waits a little, so that it can be taken back. */
export interface Held {
  ids: string[];
  label: string;
  detail: string | null;
  until: number;
  /** Whether it is on its way; then it cannot be taken back. */
  sending: boolean;
  /** Whether it has to be sent again, because the server did not take it up. */
  isTrying: boolean;
}

export interface Notice {
  key: number;
  text: string;
  tone: "plain" | "good" | "bad";
  link?: { href: string; text: string };
}

export interface State {
  me: Me | null;
  needsKey: boolean;
  /** The server's routes, as its OpenAPI document names them: what it cannot do is not offered. */
  routes: ReadonlySet<string>;
  connection: "connecting" | "live" | "broken";
  filters: Filters;
  outcome: Outcome;
  pending: Loaded;
  done: Loaded;
  records: ReadonlyMap<string, Interrupt>;
  sessions: ReadonlyMap<string, TitledSession>;
  /** What the sessions are searched for; nothing where it is empty. */
  sessionSearch: string;
  sessionList: Loaded;
  held: ReadonlyMap<string, Held>;
  problems: ReadonlyMap<string, FieldError[]>;
  selected: ReadonlySet<string>;
  notices: Notice[];
  announcement: string;
  help: boolean;
}

export const nothing: Loaded = { ids: [], next: null, loading: false, loaded: false, failed: null };
export const noFilters: Filters = { q: "", type: "", tool: "", agent: "", session: "" };

let state: State = {
  me: null,
  needsKey: false,
  routes: new Set(),
  connection: "connecting",
  filters: noFilters,
  outcome: "resolved",
  pending: nothing,
  done: nothing,
  records: new Map(),
  sessions: new Map(),
  sessionSearch: "",
  sessionList: nothing,
  held: new Map(),
  problems: new Map(),
  selected: new Set(),
  notices: [],
  announcement: "",
  help: false,
};

const listeners = new Set<() => void>();

export function get(): State {
  return state;
}

export function set(change: Partial<State> | ((state: State) => Partial<State>)): void {
  state = { ...state, ...(typeof change === "function" ? change(state) : change) };
  for (const listener of [...listeners]) listener();
}

/** A part of the state; the component renders again when that part is another one. */
export function useStore<T>(select: (state: State) => T): T {
  const [, again] = useState({});
  const value = select(state);
  useLayoutEffect(() => {
    let seen = value;
    const look = (): void => {
      const now = select(state);
      if (!Object.is(now, seen)) {
        seen = now;
        again({});
      }
    };
    // It may have changed between the render and now.
    look();
    listeners.add(look);
    return () => void listeners.delete(look);
  });
  return value;
}

export const CLAIM = "/interrupts/{interrupt_id}/claim";
export const JOURNAL = "/sessions/{session_id}/journal";
export const SEARCH = "/interrupts?q";
export const ME = "/me";

export function has(route: string): boolean {
  return state.routes.has(route);
}

export function changed<K, V>(map: ReadonlyMap<K, V>, entries: Iterable<readonly [K, V | undefined]>): Map<K, V> {
  const copy = new Map(map);
  for (const [key, value] of entries) {
    if (value === undefined) copy.delete(key);
    else copy.set(key, value);
  }
  return copy;
}
