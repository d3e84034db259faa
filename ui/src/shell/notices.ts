// Short messages: for the eye, and for screen readers.

import * as store from "../store";
import type { Notice } from "../store";

let count = 0;
const LASTING = 8_000;

export function notify(text: string, tone: Notice["tone"] = "plain", link?: Notice["link"]): void {
  const notice: Notice = { key: ++count, text, tone, ...(link === undefined ? {} : { link }) };
  store.set((state) => ({ notices: [...state.notices.slice(-3), notice] }));
  announce(text);
  // What went wrong stays until somebody has seen it.
  if (tone !== "bad") setTimeout(() => dismiss(notice.key), LASTING);
}

export function dismiss(key: number): void {
  store.set((state) => ({ notices: state.notices.filter((notice) => notice.key !== key) }));
}

/** Says it to screen readers, once they have finished. */
export function announce(text: string): void {
  // The same text twice would not be said again.
  store.set((state) => ({ announcement: state.announcement === text ? `${text}\u00a0` : text }));
}

export function failed(error: unknown): void {
  notify(error instanceof Error ? error.message : String(error), "bad");
}
