// Where we are is in the fragment: /#/inbox/done/ID, /#/sessions/ID/journal. The server serves one page.

import { useLayoutEffect, useState } from "preact/hooks";

export type Box = "needs" | "waiting" | "done";
export type SessionTab = "chat" | "journal" | "grants";

export type Route =
  | { page: "inbox"; box: Box; id: string | null }
  | { page: "sessions"; id: string | null; tab: SessionTab };

const boxes: readonly string[] = ["needs", "waiting", "done"];
const tabs: readonly string[] = ["chat", "journal", "grants"];

export function read(hash: string): Route {
  const parts = hash.replace(/^#\/?/, "").split("/").map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  });
  if (parts[0] === "sessions") {
    return { page: "sessions", id: parts[1] || null, tab: tabs.includes(parts[2] ?? "") ? (parts[2] as SessionTab) : "chat" };
  }
  return { page: "inbox", box: boxes.includes(parts[1] ?? "") ? (parts[1] as Box) : "needs", id: parts[2] || null };
}

export function write(route: Route): string {
  const id = route.id === null ? "" : `/${encodeURIComponent(route.id)}`;
  if (route.page === "inbox") return `#/inbox/${route.box}${id}`;
  return `#/sessions${id}${route.id !== null && route.tab !== "chat" ? `/${route.tab}` : ""}`;
}

export const toInterrupt = (id: string, box: Box = "needs"): string => write({ page: "inbox", box, id });
export const toSession = (id: string, tab: SessionTab = "chat"): string => write({ page: "sessions", id, tab });

export function current(): Route {
  return read(location.hash);
}

/** `replace` where going back should skip it, such as moving along a list. */
export function go(route: Route, replace = false): void {
  const hash = write(route);
  if (hash === location.hash) return;
  if (replace) history.replaceState(null, "", hash);
  else history.pushState(null, "", hash);
  // At once, and not when the browser comes to it: the next key has to mean what is shown next.
  dispatchEvent(new HashChangeEvent("hashchange"));
}

export function useRoute(): Route {
  const [route, setRoute] = useState(current);
  useLayoutEffect(() => {
    const listen = (): void => setRoute(current());
    addEventListener("hashchange", listen);
    listen();
    return () => removeEventListener("hashchange", listen);
  }, []);
  return route;
}
