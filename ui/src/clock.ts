// The time, for ages and what is left.

import { useEffect, useState } from "preact/hooks";

const listeners = new Set<(now: number) => void>();
let timer = 0;

function tick(): void {
  const now = Date.now();
  for (const listener of listeners) listener(now);
}

/** The time in milliseconds, as of the last few seconds. */
export function useNow(): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    if (listeners.size === 0) timer = window.setInterval(tick, 5_000);
    listeners.add(setNow);
    return () => {
      listeners.delete(setNow);
      if (listeners.size === 0) clearInterval(timer);
    };
  }, []);
  return now;
}
