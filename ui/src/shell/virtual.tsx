// A list of which only what can be seen is there: thousands of rows of one height.

import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

interface VirtualProps {
  ids: string[];
  height: number;
  current: string | null;
  label: string;
  row: (id: string, index: number) => ComponentChildren;
  /** Where more is; null where there is none, or none to be asked for now. */
  more: string | null;
  onEnd: () => void;
  empty: ComponentChildren;
  foot?: ComponentChildren;
}

const BEYOND = 6;

export function Virtual({ ids, height, current, label, row, more, onEnd, empty, foot }: VirtualProps) {
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 800 });
  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const look = (): void => setView({ top: element.scrollTop, height: element.clientHeight });
    const observer = new ResizeObserver(look);
    observer.observe(element);
    element.addEventListener("scroll", look, { passive: true });
    return () => {
      observer.disconnect();
      element.removeEventListener("scroll", look);
    };
  }, []);
  // What comes or goes above must not move what stands under the pointer.
  const before = useRef<string[]>(ids);
  useLayoutEffect(() => {
    const element = box.current;
    const old = before.current;
    before.current = ids;
    if (element === null || old === ids || element.scrollTop === 0) return;
    const now = new Map(ids.map((id, at) => [id, at]));
    const top = Math.floor(element.scrollTop / height);
    // The first in sight that is still there.
    for (let at = top; at < old.length && at < top + view.height / height; at++) {
      const moved = now.get(old[at] ?? "");
      if (moved === undefined) continue;
      if (moved !== at) element.scrollTop += (moved - at) * height;
      return;
    }
  }, [ids]);
  const index = current === null ? -1 : ids.indexOf(current);
  useLayoutEffect(() => {
    const element = box.current;
    if (element === null || index < 0) return;
    const top = index * height;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + height > element.scrollTop + element.clientHeight) element.scrollTop = top + height - element.clientHeight;
  }, [current, index < 0]);
  const first = Math.max(0, Math.floor(view.top / height) - BEYOND);
  const last = Math.min(ids.length, Math.ceil((view.top + view.height) / height) + BEYOND);
  useEffect(() => {
    // Once for each page: one may add nothing to this list.
    if (more !== null && last >= ids.length - 2 * BEYOND) onEnd();
  }, [last, ids.length, more]);
  return (
    <div class="rows" ref={box} tabIndex={-1}>
      {ids.length === 0 && empty}
      <ul aria-label={label} style={{ height: `${ids.length * height}px` }}>
        {ids.slice(first, last).map((id, offset) => (
          <li key={id} aria-setsize={ids.length} aria-posinset={first + offset + 1} style={{ height: `${height}px`, transform: `translateY(${(first + offset) * height}px)` }}>
            {row(id, first + offset)}
          </li>
        ))}
      </ul>
      {foot}
    </div>
  );
}
