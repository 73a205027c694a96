import { Button } from "react-aria-components";
import { ask, change } from "../api/client";
import { useLive } from "../api/live";
import {
  NoticePreferencesDocument,
  SetNoticePreferencesDocument,
  type NoticeKind,
  type NoticePreferencesQuery,
} from "../generated/graphql";
import { Check } from "../parts/Check";
import { Dialogue } from "../parts/Dialogue";
import { Faults } from "../parts/Faults";
import { useFormState } from "../parts/formState";
import { Text } from "../parts/Text";
import { carryOut } from "../session/actions";
import { useIsShown } from "../parts/shown";

type Preferences = NoticePreferencesQuery["notice_preferences"];

/** The kinds that owners of sessions can receive. */
const KINDS: readonly { readonly id: NoticeKind; readonly text: string }[] = [
  { id: "long_wait", text: "waits long" },
  { id: "agent_lost", text: "loses its node" },
  { id: "session_failed", text: "fails" },
  { id: "retries_spent", text: "fails and is not retried" },
  { id: "session_preempted", text: "is preempted" },
  { id: "session_completed", text: "completes" },
];

/** The notices that the user receives about their own sessions. */
export default function NoticeSettings({ onClose }: { readonly onClose: () => void }) {
  const live = useLive(async () => (await ask(NoticePreferencesDocument, {})).notice_preferences, "notice-preferences");
  const [draft, setDraft] = useFormState<Preferences | null>("notices", null);
  const shown = draft ?? live.data;
  const isShown = useIsShown();
  const save = async () => {
    if (shown === null) return;
    const input = { email: shown.email ?? "", notify: shown.notify };
    const isDone = await carryOut("Your notice settings are saved.", async () => {
      return (await change(SetNoticePreferencesDocument, { input })).set_notice_preferences;
    });
    if (isDone && isShown()) onClose();
  };
  const turn = (preferences: Preferences, kind: NoticeKind, isOn: boolean) => {
    const others = preferences.notify.filter((one) => one !== kind);
    setDraft({ ...preferences, notify: isOn ? [...others, kind] : others });
  };
  return (
    <Dialogue
      title="Notice settings"
      isOpen
      onClose={onClose}
      closing="Cancel"
      actions={
        <Button className="button main" type="submit" isDisabled={draft === null} onPress={() => void save()}>
          Save
        </Button>
      }
    >
      <Faults of={live} />
      {shown ? (
        <>
          <Text
            label="Email"
            value={shown.email ?? ""}
            hint={shown.sends_mail ? undefined : "This server sends no mail. An admin can set it up."}
            onChange={(email) => setDraft({ ...shown, email })}
          />
          <fieldset className="stack tight">
            <legend>Notify me when one of my sessions</legend>
            {KINDS.map(({ id, text }) => (
              <Check key={id} text={text} isOn={shown.notify.includes(id)} onChange={(isOn) => turn(shown, id, isOn)} />
            ))}
          </fieldset>
          <Check
            text="Once a week, tell me where my sessions need less than they request"
            isOn={shown.notify.includes("right_size")}
            onChange={(isOn) => turn(shown, "right_size", isOn)}
          />
        </>
      ) : null}
    </Dialogue>
  );
}
