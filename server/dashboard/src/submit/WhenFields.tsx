import { useIdentity } from "../identity/me";
import { prioritiesOf } from "../identity/rights";
import { Check } from "../parts/Check";
import { Choice } from "../parts/Choice";
import { Text } from "../parts/Text";
import { BookingChoice } from "./BookingChoice";
import { secondsHint, type FieldsProps } from "./form";
import { LABELS } from "./labels";

/** When it runs: order, times, tasks and dependencies. */
export function WhenFields({ form, wrongs, change }: FieldsProps) {
  const me = useIdentity();
  return (
    <section className="panel stack" aria-labelledby="group-when">
      <h2 id="group-when">When</h2>
      <Choice
        label={LABELS.priority}
        value={form.priority}
        wrong={wrongs.priority}
        options={prioritiesOf(me, form.priority).map((id) => ({ id, text: id }))}
        onChange={(priority) => change({ priority })}
      />
      <div className="pair">
        <Text
          label={LABELS.estimate}
          value={form.estimate}
          wrong={wrongs.estimate}
          hint={secondsHint(form.estimate) ?? "Like 30m; shorter sessions may start earlier."}
          onChange={(estimate) => change({ estimate })}
        />
        <Text
          label={LABELS.limit}
          value={form.limit}
          wrong={wrongs.limit}
          hint={secondsHint(form.limit) ?? "Like 2h30m. The session is stopped after it."}
          onChange={(limit) => change({ limit })}
        />
      </div>
      <div className="pair">
        <Text
          label={LABELS.array}
          value={form.array}
          wrong={wrongs.array}
          placeholder="none"
          hint="Indices, like 0-99."
          onChange={(array) => change({ array })}
        />
        <Text
          label={LABELS.maxParallel}
          value={form.maxParallel}
          wrong={wrongs.maxParallel}
          placeholder="any number"
          onChange={(maxParallel) => change({ maxParallel })}
        />
      </div>
      <BookingChoice value={form.booking} wrong={wrongs.booking} onChange={(booking) => change({ booking })} />
      <Text
        label={LABELS.dependencies}
        rows={2}
        value={form.dependencies}
        wrong={wrongs.dependencies}
        placeholder="ses_..."
        hint="Sessions that must complete first, one on each line; add after_any or after_fail for another outcome."
        onChange={(dependencies) => change({ dependencies })}
      />
      <Check text="Hold until released" isOn={form.isHeld} onChange={(isHeld) => change({ isHeld })} />
    </section>
  );
}
