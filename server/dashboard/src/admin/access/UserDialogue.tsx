import { Button } from "react-aria-components";
import { change } from "../../api/client";
import { CreateUserDocument, UpdateUserDocument } from "../../generated/graphql";
import { Choice } from "../../parts/Choice";
import { Dialogue } from "../../parts/Dialogue";
import { useFormState } from "../../parts/formState";
import { Text } from "../../parts/Text";
import { carryOut } from "../../session/actions";
import { inputOf, ROLES, type Draft } from "./draft";
import { useIsShown } from "../../parts/shown";

interface Props {
  readonly start: Draft;
  readonly onClose: () => void;
  readonly onDone: () => void;
}

/** Creates or changes a user. */
export function UserDialogue({ start, onClose, onDone }: Props) {
  const [draft, setDraft] = useFormState(`user/${start.name}`, start);
  const edit = (part: Partial<Draft>) => setDraft({ ...draft, ...part });
  const isKnown = start.version > 0;
  const isShown = useIsShown();
  const save = async () => {
    const input = inputOf(draft);
    const act = isKnown
      ? async () =>
          (await change(UpdateUserDocument, { input: { ...input, expected_version: start.version } })).update_user
      : async () => (await change(CreateUserDocument, { input })).create_user;
    const said = isKnown ? "The user is changed." : "The user is created; create a key for them next.";
    if ((await carryOut(said, act)) && isShown()) onDone();
  };
  return (
    <Dialogue
      title={isKnown ? `User ${start.name}` : "New user"}
      isOpen
      onClose={onClose}
      actions={
        <Button className="button main" type="submit" isDisabled={draft.name.trim() === ""} onPress={() => void save()}>
          Save
        </Button>
      }
    >
      {isKnown ? null : <Text label="Name" value={draft.name} onChange={(name) => edit({ name })} isRequired />}
      <Choice label="Role" value={draft.role} options={ROLES} onChange={(role) => edit({ role })} />
      <Text
        label="Unix account"
        value={draft.unix}
        hint="The account of their jobs, on every node."
        onChange={(unix) => edit({ unix })}
      />
      <Text
        label="Projects"
        value={draft.projects}
        hint="Projects whose sessions the user shares."
        onChange={(projects) => edit({ projects })}
      />
    </Dialogue>
  );
}
