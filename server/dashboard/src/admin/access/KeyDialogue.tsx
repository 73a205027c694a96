import { Button } from "react-aria-components";
import { change } from "../../api/client";
import { user as signedInUser } from "../../api/presence";
import { CreateApiKeyDocument } from "../../generated/graphql";
import { isWhole, positiveWrong, wholeWrong } from "../../format/whole";
import { Check } from "../../parts/Check";
import { Choice } from "../../parts/Choice";
import { CopyButton } from "../../parts/CopyButton";
import { Dialogue } from "../../parts/Dialogue";
import { useFormState } from "../../parts/formState";
import { ShownOnce, useShownOnce } from "../../parts/shownOnce";
import { Text } from "../../parts/Text";
import { carryOut } from "../../session/actions";
import { lifetimeOf } from "./draft";

const SCOPES = [
  { id: "read", text: "read" },
  { id: "submit", text: "submit" },
  { id: "operate", text: "operate" },
  { id: "admin", text: "admin: all permissions of its user" },
] as const;

interface Form {
  readonly user: string;
  readonly name: string;
  readonly scope: (typeof SCOPES)[number]["id"];
  readonly days: string;
  readonly hours: string;
  readonly sessions: string;
  readonly isDryRunFirst: boolean;
}

const FIRST: Form = { user: "", name: "", scope: "submit", days: "90", hours: "", sessions: "", isDryRunFirst: false };

/** A key that was just created. */
interface MadeKey {
  readonly user: string;
  readonly secret: string;
}

export const madeKey = new ShownOnce<MadeKey>();

interface Props {
  readonly onClose: () => void;
  readonly onMade: () => void;
}

/** Creates a key. */
export function KeyDialogue({ onClose, onMade }: Props) {
  const [form, setForm] = useFormState<Form>("key", FIRST);
  const { user, name, scope, days, hours, sessions, isDryRunFirst } = form;
  const edit = (part: Partial<Form>) => setForm({ ...form, ...part });
  const lifetime = lifetimeOf(days);
  const isDuration = lifetime === null || lifetime > 0;
  const make = () =>
    carryOut("The key is created.", async () => {
      const input = {
        user: user.trim(),
        name: name.trim(),
        scope,
        expires_in: lifetime,
        gpu_hours_max: hours.trim() === "" ? null : Number(hours),
        sessions_max: sessions.trim() === "" ? null : Number(sessions),
        dry_run_first: isDryRunFirst,
      };
      const owner = signedInUser.get();
      const made = (await change(CreateApiKeyDocument, { input })).create_api_key;
      if ("secret" in made) {
        madeKey.show(owner, { user: input.user, secret: made.secret });
        onMade();
      }
      return made;
    });
  return (
    <Dialogue
      title="New key"
      isOpen
      onClose={onClose}
      actions={
        <Button
          className="button main"
          type="submit"
          isDisabled={user.trim() === "" || name.trim() === "" || !isDuration || !isAmount(hours) || !isCount(sessions)}
          onPress={() => void make()}
        >
          Create
        </Button>
      }
    >
      <div className="pair">
        <Text
          label="User"
          value={user}
          hint="The owner of the key."
          onChange={(next) => edit({ user: next })}
          isRequired
        />
        <Text
          label="Purpose"
          value={name}
          hint="Like laptop, or nightly jobs."
          onChange={(next) => edit({ name: next })}
          isRequired
        />
      </div>
      <div className="pair">
        <Choice label="Allows at most" value={scope} options={SCOPES} onChange={(next) => edit({ scope: next })} />
        <Text
          label="Lifetime in days"
          value={days}
          hint="Or a duration like 36h or 12w. Empty means no end."
          wrong={isDuration ? undefined : "Enter a number of days, or a duration like 36h or 12w."}
          onChange={(next) => edit({ days: next })}
        />
      </div>
      <div className="pair">
        <Text
          label="Budget in GPU-hours"
          value={hours}
          hint="For programs. Empty means no limit."
          wrong={isAmount(hours) ? undefined : positiveWrong(hours)}
          onChange={(next) => edit({ hours: next })}
        />
        <Text
          label="Budget in sessions"
          value={sessions}
          hint="Each task of an array counts. Empty means no limit."
          wrong={isCount(sessions) ? undefined : wholeWrong(sessions, 1)}
          onChange={(next) => edit({ sessions: next })}
        />
      </div>
      <Check
        text="Each request must be previewed before it is submitted"
        isOn={isDryRunFirst}
        onChange={(isOn) => edit({ isDryRunFirst: isOn })}
      />
    </Dialogue>
  );
}

const isCount = (text: string) => text.trim() === "" || isWhole(text, 1);
const isAmount = (text: string) => text.trim() === "" || !positiveWrong(text);

/** Shows the secret of a new key, once. */
export function MadeKeyDialogue({ onClose }: { readonly onClose: () => void }) {
  const made = useShownOnce(madeKey);
  if (!made) return null;
  return (
    <Dialogue
      title="The new key"
      isOpen
      isKept
      onClose={() => {
        madeKey.close();
        onClose();
      }}
      actions={<CopyButton text={made.secret} what="The key" />}
    >
      <p>It is shown only once. Give it to {made.user}, who should keep it where only they can read it.</p>
      <pre className="command">{made.secret}</pre>
    </Dialogue>
  );
}
