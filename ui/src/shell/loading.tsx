// What is on its way; where that takes long, that it does; and what did not come.

import { useEffect, useState } from "preact/hooks";

const LONG = 4_000;

export function Loading({ what }: { what: string }) {
  const [isLong, setLong] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLong(true), LONG);
    return () => clearTimeout(timer);
  }, []);
  return <p class="empty" role="status">Loading…{isLong && <><br />{what} takes long. The server may be busy, or the connection slow.</>}</p>;
}

/** What cannot be shown, and the way to ask again. */
export function Unavailable({ text, onRetry }: { text: string; onRetry: () => void }) {
  return (
    <div class="note bad bar" role="alert">
      <p>{text}</p>
      <button type="button" onClick={onRetry}>Try again</button>
    </div>
  );
}
