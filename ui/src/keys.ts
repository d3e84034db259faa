// Keys of the page. They do nothing while somebody types, except Escape.

import { useEffect, useRef } from "preact/hooks";

export type Bindings = Record<string, () => unknown>;

// The newest component comes first: a form's Escape before the page's.
const layers: { current: Bindings }[] = [];

export function useKeys(bindings: Bindings): void {
  const layer = useRef(bindings);
  layer.current = bindings;
  useEffect(() => {
    layers.unshift(layer);
    return () => void layers.splice(layers.indexOf(layer), 1);
  }, []);
}

function typing(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target instanceof HTMLInputElement) return !["checkbox", "radio", "button"].includes(target.type);
  return target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement || target.isContentEditable;
}

export function listenToKeys(): void {
  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (document.querySelector("dialog[open]") !== null) return;
    if (typing(event.target)) {
      if (event.key !== "Escape") return;
      if (!layers.some((layer) => layer.current["Escape"])) return;
    }
    for (const layer of layers) {
      const run = layer.current[event.key];
      if (run !== undefined) {
        event.preventDefault();
        // A key that is held down moves, but decides once: the next request was not looked at yet.
        if (event.repeat && !["j", "k"].includes(event.key)) return;
        run();
        return;
      }
    }
  });
}
