// Keys of the page. They do nothing while somebody types, except Escape, nor to whoever goes on typing in a field that is gone.

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

/** Whether letters are letters there. */
export function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target instanceof HTMLInputElement) return !["checkbox", "radio", "button"].includes(target.type);
  return target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement || target.isContentEditable;
}

/** Whether a key is an input method's, also where Safari says so late: the Enter that takes a composed word sends nothing. */
export function isComposing(event: KeyboardEvent): boolean {
  return event.isComposing || event.keyCode === 229;
}

/** Milliseconds without a key after which nobody goes on typing in a field that is gone. */
const PAUSE = 1_500;

/** Says of a key whether it was meant for a field that somebody types in, and that was taken away from under their hands. */
function listenToFields(): (event: KeyboardEvent) => boolean {
  let field: HTMLElement | null = null;
  let last: number | null = null;
  const remember = (target: EventTarget | null): void => {
    field = isTyping(target) ? (target as HTMLElement) : null;
    last = null;
  };
  for (const kind of ["pointerdown", "focusin"]) addEventListener(kind, (event) => remember(event.target), true);
  // It went by its own doing.
  addEventListener("submit", () => remember(null), true);
  return (event) => {
    if (isTyping(event.target)) {
      remember(event.key === "Escape" ? null : event.target);
      return false;
    }
    // They have left it, or have stopped.
    if (field === null || field.isConnected || (last !== null && event.timeStamp - last > PAUSE)) {
      field = null;
      return false;
    }
    last = event.timeStamp;
    return true;
  };
}

const OFF = "hitl-keys-off";

/** Whether single letters do something; for who speaks, or presses keys by mistake, they may be turned off. */
export function keysAreOn(): boolean {
  try {
    return localStorage.getItem(OFF) === null;
  } catch {
    return true;
  }
}

export function turnKeys(on: boolean): void {
  if (on) localStorage.removeItem(OFF);
  else localStorage.setItem(OFF, "1");
  showKeys();
}

/** Whether they are on says the page's root, for the keys that stand on buttons. */
function showKeys(): void {
  document.documentElement.classList.toggle("keys-off", !keysAreOn());
}

export function listenToKeys(): void {
  showKeys();
  const isMeantForAField = listenToFields();
  addEventListener("keydown", (event) => {
    if (isMeantForAField(event)) return;
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isComposing(event)) return;
    if (document.querySelector("dialog[open]") !== null) return;
    if (isTyping(event.target)) {
      if (event.key !== "Escape") return;
      if (!layers.some((layer) => layer.bindings["Escape"])) return;
    }
    if (event.key.length === 1 && !keysAreOn()) return;
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
