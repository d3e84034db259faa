// A rule that could not tell: whoever decides in its place has to know.

import { Exact } from "./shown";
import type { Interrupt } from "./types";

export function RuleFailed({ record }: { record: Interrupt }) {
  if (record.rule_failed == null) return null;
  return (
    <p class="note bad" role="note">
      <strong>A rule could not tell about this call, so you are asked:</strong> <Exact text={record.rule_failed} />
    </p>
  );
}
