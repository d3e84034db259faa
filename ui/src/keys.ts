// Keys of the page. They do nothing while somebody types, except Escape.

import { useLayoutEffect, useRef } from "preact/hooks";

export type Bindings = Record<string, () => unknown>;

interface Layer {
  bindings: Bindings;
  order: number;
}

// The newest component comes first, and one before what it stands in: a form's Escape before the page's.
const layers: Layer[] = [];
let rendered = 0;

/** Bound from the moment that what they belong to is on the page: an effect would come after the paint, and a key before it. */
export function useKeys(bindings: Bindings): void {
  const ref = useRef<Layer | null>(null);
  const layer = (ref.current ??= { bindings, order: ++rendered });
  useLayoutEffect(() => {
    layer.bindings = bindings;
  });
  useLayoutEffect(() => {
    layers.push(layer);
    layers.sort((one, other) => other.order - one.order);
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
      if (!layers.some((layer) => layer.bindings["Escape"])) return;
    }
    for (const layer of layers) {
      const run = layer.bindings[event.key];
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
