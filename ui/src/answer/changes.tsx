// Before and after, side by side or one under the other.

import { changes, lines } from "../diff";
import { write, type Json } from "../json";
import { Exact, Value } from "../shown";

export function Changes({ before, after }: { before: Json; after: Json }) {
  const list = changes(before, after);
  if (list.length === 0) return <p class="muted">Nothing is changed.</p>;
  return (
    <table class="changes">
      <thead>
        <tr><th scope="col">Argument</th><th scope="col">Asked</th><th scope="col">Yours</th></tr>
      </thead>
      <tbody>
        {list.map((change) => (
          <tr key={change.path}>
            <th scope="row"><Exact text={change.path === "" ? "all" : change.path} /></th>
            {isLong(change.before) && isLong(change.after) ? (
              <td colSpan={2}><Lines before={textOf(change.before)} after={textOf(change.after)} /></td>
            ) : (
              <>
                <td>{change.before === undefined ? <span class="muted">absent</span> : <del><Value value={change.before} /></del>}</td>
                <td>{change.after === undefined ? <span class="muted">removed</span> : <ins><Value value={change.after} /></ins>}</td>
              </>
            )}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function isLong(value: Json | undefined): boolean {
  return typeof value === "string" && (value.includes("\n") || value.length > 80);
}

function textOf(value: Json | undefined): string {
  return typeof value === "string" ? value : write(value);
}

const marks = { same: " ", gone: "−", new: "+" };

function Lines({ before, after }: { before: string; after: string }) {
  return (
    <div class="lines">
      {lines(before, after).map((line) => (
        <div class={line.kind}>
          <span class="mark" aria-label={line.kind === "gone" ? "removed" : line.kind === "new" ? "added" : undefined}>{marks[line.kind]}</span>
          <span><Exact text={line.text} /></span>
        </div>
      ))}
    </div>
  );
}
