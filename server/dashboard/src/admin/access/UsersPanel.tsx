import { Button } from "react-aria-components";
import { change } from "../../api/client";
import type { Live } from "../../api/live";
import { UpdateUserDocument } from "../../generated/graphql";
import { ConfirmButton } from "../../parts/ConfirmButton";
import { Empty } from "../../parts/Empty";
import { Faults } from "../../parts/Faults";
import { useFormState } from "../../parts/formState";
import { ACTIONS, TablePanel } from "../../parts/Table";
import { carryOut } from "../../session/actions";
import { draftOf, NEW, type Draft, type User } from "./draft";
import { UserDialogue } from "./UserDialogue";

interface Props {
  readonly live: Live<readonly User[]>;
  readonly isAdmin: boolean;
}

/** The users; admins can change them. */
export function UsersPanel({ live, isAdmin }: Props) {
  const [editing, setEditing] = useFormState<Draft | null>("user", null);
  const done = () => {
    setEditing(null);
    live.refresh();
  };
  const turn = async ({ name, disabled, version }: User) => {
    const input = { name, disabled: !disabled, expected_version: version };
    await carryOut(
      disabled ? "The user is enabled." : "The user is disabled.",
      async () => (await change(UpdateUserDocument, { input })).update_user,
    );
    live.refresh();
  };
  return (
    <div className="stack">
      <Faults of={live} />
      {isAdmin ? (
        <div className="row">
          <Button className="button main" onPress={() => setEditing(NEW)}>
            New user …
          </Button>
        </div>
      ) : null}
      {live.data?.length ? (
        <TablePanel label="Users" columns={["User", "Role", "Unix account", "Projects", ...(isAdmin ? [ACTIONS] : [])]}>
          {live.data.map((user) => (
            <tr key={user.name}>
              <td>
                <b>{user.name}</b> {user.disabled ? <span className="quiet">disabled</span> : null}
              </td>
              <td>{user.role}</td>
              <td>{user.unix_name ?? "—"}</td>
              <td>{user.projects.join(", ") || "—"}</td>
              {isAdmin ? (
                <td className="nowrap">
                  <Button
                    className="button plain"
                    aria-label={`Change ${user.name}`}
                    onPress={() => setEditing(draftOf(user))}
                  >
                    Change
                  </Button>
                  {user.disabled ? (
                    <Button className="button plain" aria-label={`Enable ${user.name}`} onPress={() => void turn(user)}>
                      Enable
                    </Button>
                  ) : (
                    <ConfirmButton
                      text="Disable …"
                      label={`Disable ${user.name}`}
                      isPlain
                      question={`Disable ${user.name}?`}
                      yes="Disable the user"
                      act={() => turn(user)}
                    >
                      Their keys are rejected until the user is enabled again. Their sessions are not canceled.
                    </ConfirmButton>
                  )}
                </td>
              ) : null}
            </tr>
          ))}
        </TablePanel>
      ) : null}
      {live.data?.length === 0 ? (
        <Empty title="There are no users yet">
          <p>
            Until then everyone who signs in uses the server's token and is an admin. Create a user and a key for each
            person, here or in the shell:
          </p>
          <pre>{"aliquot user add vera --role user\naliquot key new vera --name laptop > vera.key"}</pre>
        </Empty>
      ) : null}
      {editing ? <UserDialogue start={editing} onClose={() => setEditing(null)} onDone={done} /> : null}
    </div>
  );
}
