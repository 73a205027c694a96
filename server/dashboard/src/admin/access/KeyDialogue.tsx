import { useState } from "react";
import { Button } from "react-aria-components";
import { change } from "../../api/client";
import { CreateApiKeyDocument } from "../../generated/graphql";
import { Choice } from "../../parts/Choice";
import { Dialogue } from "../../parts/Dialogue";
import { Text } from "../../parts/Text";
import { carryOut } from "../../session/actions";

const SCOPES = [
  { id: "read", text: "read" },
  { id: "submit", text: "submit" },
  { id: "operate", text: "operate" },
  { id: "admin", text: "everything that its user may" },
] as const;
const DAY_S = 86_400;

/** A new key; its secret is shown here, and nowhere else ever. */
export function KeyDialogue({ onClose }: { readonly onClose: () => void }) {
  const [user, setUser] = useState("");
  const [name, setName] = useState("");
  const [scope, setScope] = useState<(typeof SCOPES)[number]["id"]>("submit");
  const [days, setDays] = useState("90");
  const [secret, setSecret] = useState<string | null>(null);
  const isNumber = days.trim() === "" || Number(days) > 0;
  const make = () =>
    carryOut("The key holds from now on.", async () => {
      const expires_in = days.trim() === "" ? null : Number(days) * DAY_S;
      const input = { user: user.trim(), name: name.trim(), scope, expires_in };
      const made = (await change(CreateApiKeyDocument, { input })).create_api_key;
      if ("secret" in made) setSecret(made.secret);
      return made;
    });
  if (secret !== null)
    return (
      <Dialogue title="The new key" isOpen onClose={onClose}>
        <p>It is shown once. Give it to {user}, who keeps it where nobody else can read it.</p>
        <pre className="command">{secret}</pre>
      </Dialogue>
    );
  return (
    <Dialogue
      title="New key"
      isOpen
      onClose={onClose}
      actions={
        <Button
          className="button main"
          isDisabled={user.trim() === "" || name.trim() === "" || !isNumber}
          onPress={() => void make()}
        >
          Make it
        </Button>
      }
    >
      <div className="pair">
        <Text label="For" value={user} hint="A user." onChange={setUser} isRequired />
        <Text label="Used by" value={name} hint="Like laptop, or nightly jobs." onChange={setName} isRequired />
      </div>
      <div className="pair">
        <Choice label="Allows at most" value={scope} options={SCOPES} onChange={setScope} />
        <Text
          label="Ends after days"
          value={days}
          hint="Empty is never."
          wrong={isNumber ? undefined : "Give a number of days."}
          onChange={setDays}
        />
      </div>
    </Dialogue>
  );
}
