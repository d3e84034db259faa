// What is decided for the rest of a session, and the way to take it back.

import { useEffect, useState } from "preact/hooks";
import { api } from "../api";
import { clock } from "../format";
import { listed } from "../inbox/lists";
import { failed, notify } from "../shell/notices";
import { Name, Plain } from "../shown";
import type { Grant } from "../types";

export function Grants({ id }: { id: string }) {
  const [grants, setGrants] = useState<Grant[] | null>(null);
  const load = (): void => void api.grants(id).then(setGrants).catch(failed);
  useEffect(load, [id]);
  const revoke = (grant: Grant): void =>
    void api.revokeGrant(id, grant.grant_id).then(() => notify(`${grant.tool} asks again.`, "good")).catch(failed).finally(load);
  if (grants === null) return <p class="muted">Loading…</p>;
  if (grants.length === 0) return <p class="empty">Nothing is decided for the rest of this session.</p>;
  return (
    <ul class="grants">
      {grants.map((grant) => (
        <li key={grant.grant_id}>
          <div>
            <p>
              Calls of <code><Name text={grant.tool} /></code>{grant.agent !== null && <> by <Plain text={grant.agent} /></>} are{" "}
              <strong>{grant.decision === "approve" ? "approved" : "rejected"}</strong> without asking.
            </p>
            <p class="muted">{grant.created_by !== null && <><Plain text={grant.created_by} />, </>}{clock(grant.created_at)}{grant.reason !== null && <> · “<Plain text={grant.reason} />”</>}</p>
            {(grant.approvers ?? []).length > 0 && <p class="muted">Only for <Plain text={listed(grant.approvers ?? [])} /> to decide: a call that others have to approve still asks.</p>}
          </div>
          <button type="button" onClick={() => revoke(grant)}>Revoke</button>
        </li>
      ))}
    </ul>
  );
}
