import { Button } from "react-aria-components";
import { ask, change } from "../../api/client";
import { useLive } from "../../api/live";
import { moment } from "../../format/times";
import { DeleteSecretDocument, SecretsDocument } from "../../generated/graphql";
import type { Me } from "../../identity/me";
import { maySubmit, readsOnly } from "../../identity/rights";
import { ConfirmButton } from "../../parts/ConfirmButton";
import { Faults } from "../../parts/Faults";
import { useFormState } from "../../parts/formState";
import { ACTIONS, Table } from "../../parts/Table";
import { carryOut } from "../../session/actions";
import { SecretDialogue } from "./SecretDialogue";

/** The names of the viewer's own secrets, to store, replace and delete. Their values are never shown. */
export function SecretsPanel({ me }: { readonly me: Me }) {
  const live = useLive(async () => (await ask(SecretsDocument, {})).secrets, `secrets/${me.name}`, { everyMs: 10_000 });
  /** The name of the secret that is replaced; empty for a new one. */
  const [editing, setEditing] = useFormState<string | null>("secret", null);
  const isMine = maySubmit(me);
  const secrets = live.data ?? [];
  const drop = async (name: string) => {
    await carryOut(`The secret ${name} is deleted.`, async () => {
      return (await change(DeleteSecretDocument, { name })).delete_secret;
    });
    live.refresh();
  };
  const close = () => {
    setEditing(null);
    live.refresh();
  };
  return (
    <section className="panel stack" aria-labelledby="secrets">
      <h2 id="secrets">Your secrets</h2>
      <p className="prose">
        Tokens and passwords for your sessions. A session receives those that its request names: in the form to submit,
        under Advanced. Their values are stored encrypted and never shown again.{" "}
        <a href="/docs/using/jobs.html#secrets">Docs</a>
      </p>
      <Faults of={live} />
      {isMine && live.data ? (
        <div className="row">
          <Button className="button main" onPress={() => setEditing("")}>
            New secret …
          </Button>
        </div>
      ) : null}
      {isMine ? null : <p>{readsOnly(me)}</p>}
      {secrets.length ? (
        <div className="scroll" tabIndex={0} role="region" aria-label="Secrets">
          <Table columns={["Name", "Changed", "Created", ...(isMine ? [ACTIONS] : [])]}>
            {secrets.map(({ name, changed_at, created_at }) => (
              <tr key={name}>
                <td className="mono">{name}</td>
                <td className="nowrap">{moment(changed_at)}</td>
                <td className="nowrap">{moment(created_at)}</td>
                {isMine ? (
                  <td className="nowrap">
                    <Button className="button plain" aria-label={`Replace ${name}`} onPress={() => setEditing(name)}>
                      Replace …
                    </Button>
                    <ConfirmButton
                      text="Delete …"
                      label={`Delete ${name}`}
                      isPlain
                      question={`Delete the secret ${name}?`}
                      yes="Delete the secret"
                      no="Keep it"
                      act={() => drop(name)}
                    >
                      Sessions that need it can no longer start; running ones keep its value. This cannot be undone.
                    </ConfirmButton>
                  </td>
                ) : null}
              </tr>
            ))}
          </Table>
        </div>
      ) : null}
      {editing === null ? null : (
        <SecretDialogue replaced={editing} stored={secrets.map(({ name }) => name)} onClose={close} />
      )}
    </section>
  );
}
