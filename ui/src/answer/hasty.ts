// What comes right after an answer was meant for the request before: another one stands there now, and nobody has seen it.

/** Milliseconds in which nobody has read what is asked next. */
const TOO_SOON = 400;

/** When another request came in the place of one that was answered. */
let movedAt = -Infinity;
/** Whether the last click has answered something. */
let isGiven = false;

/** An answer was given, and what stood under the pointer makes room for something else: for the next request, or for what is below. */
export function moveOn(isToNext: boolean): void {
  isGiven = true;
  if (isToNext) movedAt = performance.now();
}

/** Whether nobody can have seen yet what would be answered. */
export function isHasty(): boolean {
  return performance.now() - movedAt < TOO_SOON;
}

/** Takes away clicks that are the rest of a double-click on an answer. */
export function dropHasty(event: MouseEvent): void {
  // On a slow machine, or with a slow hand, the second of them may come late; another first one is a click of its own.
  if (event.detail < 2) isGiven = false;
  if (!isGiven) return;
  event.preventDefault();
  event.stopPropagation();
}
