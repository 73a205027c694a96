import { useState } from "react";
import { Button } from "react-aria-components";
import { ask, change } from "../../api/client";
import { useLive } from "../../api/live";
import { ApiKeysDocument, RevokeApiKeyDocument, type ApiKeysQuery } from "../../generated/graphql";
import { Faults } from "../../parts/Faults";
import { ACTIONS, TablePanel } from "../../parts/Table";
import { carryOut } from "../../session/actions";
import { KeyDialogue } from "./KeyDialogue";

type Key = ApiKeysQuery["api_keys"][number];

/** The viewer's own keys; for an admin, all keys. */
export function KeysPanel({ isAdmin }: { readonly isAdmin: boolean }) {
  const live = useLive(async () => (await ask(ApiKeysDocument, {})).api_keys, "api_keys", { everyMs: 10_000 });
  const [isMaking, setMaking] = useState(false);
  const revoke = async ({ id }: Key) => {
    await carryOut("The key is revoked.", async () => {
      return (await change(RevokeApiKeyDocument, { id })).revoke_api_key;
    });
    live.refresh();
  };
  const close = () => {
    setMaking(false);
    live.refresh();
  };
  return (
    <div className="stack">
      <Faults of={live} />
      {isAdmin ? (
        <div className="row">
          <Button className="button main" onPress={() => setMaking(true)}>
            New key …
          </Button>
        </div>
      ) : null}
      {live.data?.length ? (
        <TablePanel label="Keys" columns={["User", "Purpose", "Scope", "Created", "Expires", "Budget", ACTIONS]}>
          {live.data.map((key) => (
            <tr key={key.id} title={key.id}>
              <td>
                <b>{key.user}</b>
              </td>
              <td>{key.name}</td>
              <td>{key.scope}</td>
              <td className="nowrap">{key.created_at.slice(0, 10)}</td>
              <td>{endOf(key)}</td>
              <td>{budgetOf(key)}</td>
              <td className="nowrap">
                {key.is_valid ? (
                  <Button
                    className="button plain"
                    aria-label={`Revoke ${key.name} of ${key.user}`}
                    onPress={() => void revoke(key)}
                  >
                    Revoke
                  </Button>
                ) : null}
              </td>
            </tr>
          ))}
        </TablePanel>
      ) : null}
      {isMaking ? <KeyDialogue onClose={close} /> : null}
    </div>
  );
}

function budgetOf(key: Key): string {
  const parts = [
    key.gpu_hours_max === null ? "" : `${key.gpu_hours.toFixed(1)} of ${key.gpu_hours_max} GPU-hours`,
    key.sessions_max === null ? "" : `${key.submitted} of ${key.sessions_max} sessions`,
    key.dry_run_first ? "dry run first" : "",
  ];
  return parts.filter(Boolean).join(", ");
}

function endOf(key: Key): string {
  if (key.revoked_at !== null) return `revoked ${key.revoked_at.slice(0, 10)}`;
  if (!key.is_valid) return "expired";
  return key.expires_at?.slice(0, 10) ?? "never";
}
