// Requests to the server. A refusal is a `Problem`, with the server's code and words.

import { parse, write, type Json, type JsonObject } from "./json";
import type { FieldError, Grant, Interrupt, JournalEntry, Me, Message, Session, TitledSession } from "./types";

export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly body: JsonObject,
    /** Seconds after which to ask again, where the server says so. */
    readonly retryAfter: number | null = null,
  ) {
    super(message);
  }

  get errors(): FieldError[] {
    return (this.body["errors"] as unknown as FieldError[] | undefined) ?? [];
  }

  /** Whether what was asked for may have been done: no reply came, or none that tells. */
  get isUnsure(): boolean {
    return this.code === UNREACHABLE || (!(this.status >= 400 && this.status < 500) && !refusals.has(this.code));
  }

  /** Whether the same request may fare better in a moment. */
  get isPassing(): boolean {
    return this.code === UNREACHABLE || this.status === 429 || (this.status >= 502 && this.status <= 504) || refusals.has(this.code);
  }
}

/** The code of a `Problem` where no reply came, or not all of it. */
const UNREACHABLE = "unreachable";
/** What a server says that did not even begin. */
const refusals = new Set(["queue_full", "no_worker", "too_many_connections", "too_much_at_once", "too_many_sessions", "shutting_down", "standing_by"]);

/** Bytes that browsers take with them when a page goes, of all its requests: 64 KiB, less what surrounds them. */
const MOST_KEPT = 60_000;
/** How many they take: Chromium refuses more than 256 that outlive their page, also while it is there. */
const MOST_KEPT_ANSWERS = 200;
/** Bytes of what is on its way and outlives the page, how many answers that are, and how many do not. */
let kept = 0;
let keptAnswers = 0;
let unkept = 0;

/** Whether some of these answers, or of those on their way, would be lost if the page went now. */
export function wouldBeLost(answers: Json[]): boolean {
  const sizes = answers.map((value) => size(write({ value })));
  return unkept > 0 || keptAnswers + answers.length > MOST_KEPT_ANSWERS || sizes.reduce((sum, one) => sum + one, kept) > MOST_KEPT;
}

/** Of a text as it is sent, in bytes. */
export const size = (text: string): number => new TextEncoder().encode(text).length;

export interface Page<T> {
  items: T[];
  next: string | null;
}

type Unauthorized = () => void;
let onUnauthorized: Unauthorized = () => undefined;

/** What to do when the server asks who we are. */
export function whenUnauthorized(listener: Unauthorized): void {
  onUnauthorized = listener;
}

interface Sending {
  /** Whether it outlives the page. */
  keepalive?: boolean;
  /** Under the same one the same is done once. */
  key?: string;
  /** Whether it is no news that the server asks who we are. */
  quiet?: boolean;
}

/** Milliseconds for a request and its reply, and bytes of it that get through in each on the slowest of lines. */
const LONGEST = 60_000;
const SLOWEST = 10;

async function request(method: string, path: string, body?: Json, { keepalive = false, key, quiet = false }: Sending = {}): Promise<{ value: Json; headers: Headers }> {
  let response: Response;
  let text: string;
  const sent = body === undefined ? undefined : write(body);
  const signal = AbortSignal.timeout(LONGEST + (sent?.length ?? 0) / SLOWEST);
  try {
    response = await fetch(path, {
      method,
      credentials: "same-origin",
      signal,
      ...(sent === undefined ? {} : { headers: { "content-type": "application/json", ...(key === undefined ? {} : { "idempotency-key": key }) }, body: sent, keepalive }),
    });
    text = await response.text();
  } catch {
    throw new Problem(0, UNREACHABLE, signal.aborted ? "The server does not reply" : "The server cannot be reached", {});
  }
  const retryAfter = Number.parseInt(response.headers.get("retry-after") ?? "", 10);
  const wait = Number.isNaN(retryAfter) ? null : retryAfter;
  let value: Json = null;
  try {
    value = text === "" ? null : parse(text);
  } catch {
    throw new Problem(response.status, "no_json", `The server answered ${response.status} with something that is no JSON`, {}, wait);
  }
  if (response.ok) return { value, headers: response.headers };
  const problem = (value ?? {}) as JsonObject;
  if (response.status === 401 && path !== "/sign-in" && !quiet) onUnauthorized();
  throw new Problem(response.status, String(problem["code"] ?? "error"), String(problem["detail"] ?? response.statusText), problem, wait);
}

async function get<T>(path: string): Promise<T> {
  return (await request("GET", path)).value as unknown as T;
}

async function page<T>(path: string): Promise<Page<T>> {
  const { value, headers } = await request("GET", path);
  const next = /<([^>]+)>;\s*rel="next"/.exec(headers.get("link") ?? "");
  // Only the path counts: a proxy may know the server by another name.
  const target = next?.[1] === undefined ? null : new URL(next[1], location.href);
  return { items: value as unknown as T[], next: target && target.pathname + target.search };
}

export type Query = Record<string, string | undefined>;

function withQuery(path: string, query: Query): string {
  const given = Object.entries(query).filter((pair): pair is [string, string] => pair[1] !== undefined && pair[1] !== "");
  return given.length === 0 ? path : `${path}?${new URLSearchParams(given)}`;
}

const id = encodeURIComponent;

export const api = {
  /** What this server has: `/path` for each route, `/path?name` for each parameter. */
  routes: async () => {
    const { paths } = await get<{ paths: Record<string, { get?: { parameters?: { name: string }[] } }> }>("/openapi.json");
    const named = Object.entries(paths).map(([path, item]) => [path, ...(item.get?.parameters ?? []).map((one) => `${path}?${one.name}`)]);
    return new Set(named.flat());
  },
  me: () => get<Me>("/me"),
  /** Whether anybody is, as far as the server can say; who asks so goes on as before where nobody is. */
  isSignedIn: () => request("GET", "/me", undefined, { quiet: true }).then(() => true, (error: unknown) => {
    if (error instanceof Problem) return false;
    throw error;
  }),
  signIn: (key: string) => request("POST", "/sign-in", { key }),
  signOut: () => request("POST", "/sign-out"),
  interrupts: (query: Query) => page<Interrupt>(withQuery("/interrupts", query)),
  nextInterrupts: (path: string) => page<Interrupt>(path),
  interrupt: (interrupt: string) => get<Interrupt>(`/interrupts/${id(interrupt)}`),
  /** `as` says who answers what they have claimed, on a server without keys. It outlives the page if it can. */
  resume: async (interrupt: string, value: Json, as: string | null) => {
    const body = as === null ? { value } : { value, as };
    const bytes = size(write(body));
    const outlives = kept + bytes <= MOST_KEPT && keptAnswers < MOST_KEPT_ANSWERS;
    const count = (by: number): void => {
      if (!outlives) unkept += by;
      else {
        kept += by * bytes;
        keptAnswers += by;
      }
    };
    count(1);
    try {
      return await request("POST", `/interrupts/${id(interrupt)}/resume`, body, { keepalive: outlives });
    } finally {
      count(-1);
    }
  },
  claim: (interrupt: string, as: string | null) => request("POST", `/interrupts/${id(interrupt)}/claim`, as === null ? {} : { as }),
  release: (interrupt: string, as: string | null) =>
    request("DELETE", withQuery(`/interrupts/${id(interrupt)}/claim`, { as: as ?? undefined })),
  snooze: (interrupt: string, seconds: number) => request("POST", `/interrupts/${id(interrupt)}/snooze`, { seconds }),
  wake: (interrupt: string) => request("DELETE", `/interrupts/${id(interrupt)}/snooze`),
  sessions: (query: Query) => page<TitledSession>(withQuery("/sessions", query)),
  nextSessions: (path: string) => page<TitledSession>(path),
  session: (session: string) => get<Session>(`/sessions/${id(session)}`),
  createSession: async () => (await request("POST", "/sessions", {})).value as unknown as Session,
  /** Without the first so many. */
  messages: (session: string, after = 0) => get<Message[]>(withQuery(`/sessions/${id(session)}/messages`, after === 0 ? {} : { after: String(after) })),
  send: (session: string, message: JsonObject, key: string) => request("POST", `/sessions/${id(session)}/messages`, message, { key }),
  cancel: (session: string) => request("POST", `/sessions/${id(session)}/cancel`),
  retry: (session: string) => request("POST", `/sessions/${id(session)}/retry`),
  journal: (session: string, query: Query = {}) => page<JournalEntry>(withQuery(`/sessions/${id(session)}/journal`, query)),
  nextJournal: (path: string) => page<JournalEntry>(path),
  grants: (session: string) => get<Grant[]>(`/sessions/${id(session)}/grants`),
  revokeGrant: (session: string, grant: string) => request("DELETE", `/sessions/${id(session)}/grants/${id(grant)}`),
};
