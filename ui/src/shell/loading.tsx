// What is on its way; where that takes long, that it does.

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
