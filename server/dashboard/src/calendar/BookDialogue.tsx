import { Button } from "react-aria-components";
import { ask, change } from "../api/client";
import { useLive } from "../api/live";
import { BookingEffectDocument, ReserveDocument } from "../generated/graphql";
import { changeText, localText, momentOfLocal } from "../format/local";
import { inLabels } from "../format/words";
import { Dialogue } from "../parts/Dialogue";
import { storedFormState, useFormState } from "../parts/formState";
import { useSettled } from "../parts/settled";
import { useIsShown } from "../parts/shown";
import { Text } from "../parts/Text";
import { WithLinks } from "../queue/WithLinks";
import { carryOut } from "../session/actions";
import { effectText, LABELS } from "./entries";

/** The start and end of a booking. */
export interface Window {
  readonly fromMs: number;
  readonly toMs: number;
}

interface Props {
  readonly window: Window;
  readonly onClose: () => void;
}

interface Form {
  readonly name: string;
  readonly from: string;
  readonly to: string;
  readonly gpus: string;
  readonly models: string;
  /** The chosen window, which tells times apart that come twice. */
  readonly window: Window;
}

const FORM = "booking";

/** The window of the form that was open when the sign-in expired or the page was reloaded; null if none was. */
export function leftWindow(): Window | null {
  return (storedFormState(FORM) as Form | null)?.window ?? null;
}

/** Books GPUs for a window. The server previews it while it is chosen; the next pass decides. */
export function BookDialogue({ window, onClose }: Props) {
  const { fromMs, toMs } = window;
  const first = { name: "", from: localText(fromMs), to: localText(toMs), gpus: "1", models: "", window };
  const [form, setForm] = useFormState<Form>(FORM, first);
  const { name, from, to, gpus, models } = form;
  const isShown = useIsShown();
  const edit = (part: Partial<Form>) => setForm({ ...form, ...part });
  const times = { fromMs: momentOfLocal(from, fromMs), toMs: momentOfLocal(to, toMs), gpus: Number(gpus) };
  const changes = { from: changeText(from, times.fromMs), to: changeText(to, times.toMs) };
  const isOrdered = times.toMs > times.fromMs;
  const isWindow = isOrdered && !changes.from.wrong && !changes.to.wrong;
  const isCount = Number.isInteger(times.gpus) && times.gpus > 0;
  const inputOf = (called: string) => ({
    name: called,
    starts_at: new Date(times.fromMs).toISOString(),
    ends_at: new Date(times.toMs).toISOString(),
    gpus: times.gpus,
    models: models.trim() === "" ? null : models.split(",").map((one) => one.trim()),
  });
  const asked = useSettled(isWindow && isCount ? JSON.stringify(inputOf("asked")) : "");
  const effect = useLive(
    async () =>
      asked === "" ? null : (await ask(BookingEffectDocument, { input: JSON.parse(asked) })).reservation_effect,
    asked,
  );
  const waiting = asked === "" ? "" : "…";
  const said = effect.data ? effectText(effect.data) : inLabels(effect.fault?.message ?? waiting, LABELS);
  const book = async () => {
    const input = inputOf(name.trim());
    const isDone = await carryOut("Booked.", async () => (await change(ReserveDocument, { input })).reserve, LABELS);
    if (isDone && isShown()) onClose();
  };
  return (
    <Dialogue
      title="Book GPUs"
      isOpen
      onClose={onClose}
      actions={
        <Button
          className="button main"
          type="submit"
          isDisabled={name.trim() === "" || !isWindow || !isCount}
          onPress={() => void book()}
        >
          Book
        </Button>
      }
    >
      <div className="pair">
        <Text
          label="Name"
          value={name}
          hint="Choose it under Booking on the page Submit, or with --booking NAME."
          onChange={(next) => edit({ name: next })}
          isRequired
        />
        <Text
          label="GPUs"
          value={gpus}
          wrong={isCount ? undefined : "Enter a whole number above 0."}
          onChange={(next) => edit({ gpus: next })}
        />
      </div>
      <div className="pair">
        <Text
          label="From"
          type="datetime-local"
          value={from}
          {...changes.from}
          onChange={(next) => edit({ from: next })}
        />
        <Text
          label="To"
          type="datetime-local"
          value={to}
          {...changes.to}
          {...(isOrdered || changes.from.wrong || changes.to.wrong ? {} : { wrong: "It ends after it starts." })}
          onChange={(next) => edit({ to: next })}
        />
      </div>
      <Text
        label="Models"
        value={models}
        hint="Patterns like *H100*, with commas. Empty = any."
        onChange={(next) => edit({ models: next })}
      />
      <p role="status" className={effect.data?.refusal || effect.fault ? "bad" : "quiet"}>
        <WithLinks text={said} />
      </p>
    </Dialogue>
  );
}
