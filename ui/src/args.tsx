// What a call would run with, wherever it is shown.

import { argsOf } from "./format";
import { Members, Source } from "./shown";
import type { Interrupt } from "./types";

/** The arguments; where they are none that can be shown so, all that the request has. */
export function Arguments({ record, view = "table" }: { record: Interrupt; view?: "table" | "json" }) {
  const args = argsOf(record);
  if (args !== undefined) {
    if (Object.keys(args).length === 0) return <p class="muted">No arguments.</p>;
    return view === "table" ? <Members value={args} /> : <Source value={args} label="Arguments as JSON" />;
  }
  const isLeftOut = record.type === "unknown_outcome" && record.payload["tool_args"] === null;
  return (
    <>
      {isLeftOut && <p class="note">The arguments were too large, or no JSON, and are not shown.</p>}
      {view === "table" ? <Members value={record.payload} without={isLeftOut ? ["type", "tool_args"] : ["type"]} /> : <Source value={record.payload} label="The request as JSON" />}
    </>
  );
}
