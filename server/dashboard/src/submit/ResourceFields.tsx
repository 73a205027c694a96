import { Button } from "react-aria-components";
import { Choice } from "../parts/Choice";
import { Text } from "../parts/Text";
import { slotFor, type FieldsProps } from "./form";
import { LABELS } from "./labels";

interface Props extends FieldsProps {
  /** The accelerator kinds of the cluster, like `cuda`. */
  readonly kinds: readonly string[];
  /** The accelerator models of the cluster. */
  readonly models: readonly string[];
  readonly pools: readonly string[];
}

const NONE = "none";
const ANY = "any model";
const DEFAULT = "default pool";
const AMOUNTS = ["0.25", "0.5", "1", "2", "4", "8"] as const;

/** The resources of each kernel, and the number of kernels. */
export function ResourceFields({ form, wrongs, kinds, models, pools, change }: Props) {
  const kind = form.slot.split(".")[0] ?? "";
  const known = [...new Set([...kinds, kind].filter(Boolean))];
  const unit = known.length > 1 && kind !== "cuda" ? `${kind} devices` : "GPUs";
  return (
    <section className="panel stack" aria-labelledby="group-resources">
      <h2 id="group-resources">Resources</h2>
      <div className="chips" role="group" aria-label={`Number of ${unit}`}>
        {AMOUNTS.map((amount) => (
          <Button
            key={amount}
            className="button chip"
            aria-pressed={form.amount === amount && kind !== ""}
            onPress={() => change({ amount, slot: slotFor(kind || known[0] || "cuda", amount) })}
          >
            {amount}
          </Button>
        ))}
        <Button className="button chip" aria-pressed={kind === ""} onPress={() => change({ slot: "" })}>
          no GPU
        </Button>
      </div>
      <div className="pair">
        {kind ? (
          <Text
            label={LABELS.amount}
            value={form.amount}
            wrong={wrongs.amount}
            hint="Whole ones, or a part of one like 0.3."
            onChange={(amount) => change({ amount, slot: slotFor(form.slot, amount) })}
          />
        ) : null}
        {known.length > 1 ? (
          <Choice
            label="Kind of device"
            value={kind || NONE}
            options={[...known.map((id) => ({ id, text: id })), { id: NONE, text: "none" }]}
            onChange={(next) => change({ slot: next === NONE ? "" : slotFor(next, form.amount) })}
          />
        ) : null}
        {kind ? (
          <Choice
            label={LABELS.models}
            value={form.models || ANY}
            wrong={wrongs.models}
            options={[...new Set([ANY, ...models, form.models].filter(Boolean))].map((id) => ({ id, text: id }))}
            onChange={(model) => change({ models: model === ANY ? "" : model })}
          />
        ) : null}
      </div>
      <div className="pair">
        <Text
          label={LABELS.cpu}
          value={form.cpu}
          wrong={wrongs.cpu}
          placeholder="none"
          onChange={(cpu) => change({ cpu })}
        />
        <Text
          label={LABELS.mem}
          value={form.mem}
          wrong={wrongs.mem}
          placeholder="none"
          hint="Like 32g."
          onChange={(mem) => change({ mem })}
        />
      </div>
      <div className="pair">
        <Text
          label={LABELS.kernels}
          value={form.kernels}
          wrong={wrongs.kernels}
          hint="All start together, or none."
          onChange={(kernels) => change({ kernels })}
        />
        <Text
          label={LABELS.gpuMemory}
          value={form.gpuMemory}
          wrong={wrongs.gpuMemory}
          placeholder="any"
          hint="Minimum."
          onChange={(gpuMemory) => change({ gpuMemory })}
        />
      </div>
      <Choice
        label={LABELS.pool}
        value={form.pool || DEFAULT}
        wrong={wrongs.pool}
        options={[...new Set([DEFAULT, ...pools, form.pool].filter(Boolean))].map((id) => ({ id, text: id }))}
        onChange={(pool) => change({ pool: pool === DEFAULT ? "" : pool })}
      />
    </section>
  );
}
