import { Choice } from "../parts/Choice";
import { Text } from "../parts/Text";
import type { Form, Wrongs } from "./form";

interface Props {
  readonly form: Form;
  readonly wrongs: Wrongs;
  /** The accelerator slots of the cluster. */
  readonly slots: readonly string[];
  readonly change: (part: Partial<Form>) => void;
}

const NONE = "none";
const WORDS: Record<string, string> = { device: "whole devices", shares: "shares of devices" };

/** The resources of each kernel, and the number of kernels. */
export function ResourceFields({ form, wrongs, slots, change }: Props) {
  const known = form.slot && !slots.includes(form.slot) ? [...slots, form.slot] : slots;
  const options = [...known.map((id) => ({ id, text: wordsOf(id) })), { id: NONE, text: "no accelerator" }];
  return (
    <section className="panel stack" aria-label="Resources per kernel">
      <div className="pair">
        <Choice
          label="Accelerator"
          value={form.slot || NONE}
          options={options}
          onChange={(slot) => change({ slot: slot === NONE ? "" : slot })}
        />
        {form.slot ? (
          <Text
            label="Amount"
            value={form.amount}
            wrong={wrongs.amount}
            hint={form.slot.endsWith(".shares") ? "1 is a whole device, 0.5 is half of one." : undefined}
            onChange={(amount) => change({ amount })}
          />
        ) : null}
      </div>
      <div className="pair">
        <Text
          label="Cores"
          value={form.cpu}
          wrong={wrongs.cpu}
          placeholder="none"
          onChange={(cpu) => change({ cpu })}
        />
        <Text
          label="Memory"
          value={form.mem}
          wrong={wrongs.mem}
          placeholder="none"
          hint="Like 32g."
          onChange={(mem) => change({ mem })}
        />
      </div>
      <div className="pair">
        <Text
          label="Kernels"
          value={form.kernels}
          wrong={wrongs.kernels}
          hint="All start together, or none."
          onChange={(kernels) => change({ kernels })}
        />
        <Text
          label="Memory per device, GB"
          value={form.gpuMemory}
          wrong={wrongs.gpuMemory}
          placeholder="any"
          hint="Minimum."
          onChange={(gpuMemory) => change({ gpuMemory })}
        />
      </div>
    </section>
  );
}

function wordsOf(slot: string): string {
  const [kind, unit = ""] = slot.split(".");
  return `${kind}, ${WORDS[unit] ?? unit}`;
}
