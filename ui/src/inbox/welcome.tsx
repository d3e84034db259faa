// What this page is, for whoever sees it with nothing in it: a first visit, or a quiet day.

import { useStore } from "../store";

export function Welcome({ canSend, onStart }: { canSend: boolean; onStart: () => void }) {
  const hasKeys = useStore((state) => state.me?.authentication === true);
  const command = `hitl chat ${location.origin}${hasKeys ? " --api-key KEY" : ""}`;
  return (
    <div class="welcome">
      <p>Agents stop here and ask a person: whether a tool may run with exactly these arguments, or what to do next. What they ask appears in the list by itself. Once you answer, the agent goes on where it stopped, even if it waited for days.</p>
      {canSend && (
        <>
          <p class="muted">To see it happen, say something to the agent that needs a yes:</p>
          <div class="buttons"><button type="button" class="primary" onClick={onStart}>Start a session</button></div>
          <p class="muted">or in a terminal:</p>
          <pre class="source" tabIndex={0} aria-label="Command"><code>{command}</code></pre>
        </>
      )}
      <p class="muted"><a href="/docs">The HTTP API of this server</a></p>
    </div>
  );
}
