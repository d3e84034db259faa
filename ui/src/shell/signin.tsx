// A key for a cookie. The key itself is kept nowhere in the browser.

import { useState } from "preact/hooks";
import { api, Problem } from "../api";

export function SignIn({ onSignedIn }: { onSignedIn: () => void }) {
  const [key, setKey] = useState("");
  const [problem, setProblem] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const submit = (event: Event): void => {
    event.preventDefault();
    setBusy(true);
    setProblem(null);
    api.signIn(key.trim()).then(
      () => {
        setKey("");
        onSignedIn();
      },
      (error: unknown) => setProblem(error instanceof Problem && error.status === 401 ? "This key is not known here, or was revoked." : error instanceof Error ? error.message : String(error)),
    ).finally(() => setBusy(false));
  };
  return (
    <main class="sign-in">
      <form onSubmit={submit}>
        <h1>Sign in</h1>
        <p class="muted">With a key of this server: <code>hitl keys create NAME --scope read --scope send --scope answer</code> makes one.</p>
        <div class="field">
          <label for="key">Key</label>
          <input id="key" type="password" autoComplete="current-password" value={key} onInput={(event) => setKey(event.currentTarget.value)} required autoFocus />
        </div>
        {problem !== null && <p class="wrong" role="alert">{problem}</p>}
        <button type="submit" class="primary" disabled={busy || key.trim() === ""}>Sign in</button>
      </form>
    </main>
  );
}
