import { Button } from "react-aria-components";
import { change } from "../../api/client";
import type { Live } from "../../api/live";
import { useNow } from "../../format/clock";
import { RevokeApiKeyDocument } from "../../generated/graphql";
import { ConfirmButton } from "../../parts/ConfirmButton";
import { Faults } from "../../parts/Faults";
import { useFormState } from "../../parts/formState";
import { ACTIONS, TablePanel } from "../../parts/Table";
import { carryOut } from "../../session/actions";
import type { User } from "./draft";
import { KeyDialogue, MadeKeyDialogue } from "./KeyDialogue";
import { budgetOf, endOf, isSuspended, type Key } from "./keys";

interface Props {
  readonly live: Live<readonly Key[]>;
  /** The users that the viewer may see. */
  readonly users: readonly User[];
  readonly isAdmin: boolean;
}

/** The viewer's own keys; for an admin, all keys. */
export function KeysPanel({ live, users, isAdmin }: Props) {
  const now = useNow();
  const [isMaking, setMaking] = useFormState("key-making", false);
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
              <td>{endOf(key, users, now)}</td>
              <td>{budgetOf(key)}</td>
              <td className="nowrap">
                {key.is_valid || isSuspended(key, users, now) ? (
                  <ConfirmButton
                    text="Revoke …"
                    label={`Revoke ${key.name} of ${key.user}`}
                    isPlain
                    question={`Revoke ${key.name} of ${key.user}?`}
                    yes="Revoke the key"
                    no="Keep it"
                    act={() => revoke(key)}
                  >
                    Requests with it are rejected from now on. This cannot be undone.
                  </ConfirmButton>
                ) : null}
              </td>
            </tr>
          ))}
        </TablePanel>
      ) : null}
      {isMaking ? <KeyDialogue onClose={close} onMade={() => setMaking(false)} /> : null}
      <MadeKeyDialogue onClose={close} />
    </div>
  );
}
