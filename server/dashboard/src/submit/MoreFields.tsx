import { useIdentity } from "../identity/me";
import { prioritiesOf } from "../identity/rights";
import { Check } from "../parts/Check";
import { Choice } from "../parts/Choice";
import { Text } from "../parts/Text";
import type { Form, Wrongs } from "./form";

interface Props {
  readonly form: Form;
  readonly wrongs: Wrongs;
  readonly pools: readonly string[];
  readonly change: (part: Partial<Form>) => void;
}

const DEFAULT = "default pool";

/** Scheduling options, and the environment of a session. */
export function MoreFields({ form, wrongs, pools, change }: Props) {
  const me = useIdentity();
  return (
    <section className="panel stack" aria-label="Scheduling">
      <div className="pair">
        <Choice
          label="Priority"
          value={form.priority}
          options={prioritiesOf(me, form.priority).map((id) => ({ id, text: id }))}
          onChange={(priority) => change({ priority })}
        />
        <Choice
          label="Pool"
          value={form.pool || DEFAULT}
          options={[DEFAULT, ...pools].map((id) => ({ id, text: id }))}
          onChange={(pool) => change({ pool: pool === DEFAULT ? "" : pool })}
        />
      </div>
      <div className="pair">
        <Text
          label="Estimate"
          value={form.estimate}
          wrong={wrongs.estimate}
          hint="Like 30m; shorter sessions may start earlier."
          onChange={(estimate) => change({ estimate })}
        />
        <Text
          label="Time limit"
          value={form.limit}
          wrong={wrongs.limit}
          hint="The session is stopped after it."
          onChange={(limit) => change({ limit })}
        />
      </div>
      <div className="pair">
        <Text label="Retries" value={form.retries} wrong={wrongs.retries} onChange={(retries) => change({ retries })} />
        <Text
          label="Array"
          value={form.array}
          wrong={wrongs.array}
          placeholder="none"
          hint="Indices, like 0-99."
          onChange={(array) => change({ array })}
        />
      </div>
      <div className="pair">
        <Text
          label="Project"
          value={form.project}
          wrong={wrongs.project}
          placeholder="default"
          onChange={(project) => change({ project })}
        />
        <Text
          label="Working directory"
          value={form.folder}
          wrong={wrongs.folder}
          placeholder="an empty folder"
          onChange={(folder) => change({ folder })}
        />
      </div>
      <Text
        label="Environment"
        rows={2}
        value={form.environment}
        wrong={wrongs.environment}
        placeholder="NAME=value"
        onChange={(environment) => change({ environment })}
      />
      <div className="row wide">
        <Check text="Preemptible" isOn={form.isPreemptible} onChange={(isPreemptible) => change({ isPreemptible })} />
        <Check text="Hold until released" isOn={form.isHeld} onChange={(isHeld) => change({ isHeld })} />
      </div>
    </section>
  );
}
