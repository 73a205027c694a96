import { useState } from "react";
import { Button } from "react-aria-components";
import { ask, change } from "../api/client";
import { useLive } from "../api/live";
import { BookingEffectDocument, ReserveDocument } from "../generated/graphql";
import { changeText, localText, momentOfLocal } from "../format/local";
import { inLabels } from "../format/words";
import { Dialogue } from "../parts/Dialogue";
import { useSettled } from "../parts/settled";
import { Text } from "../parts/Text";
import { WithLinks } from "../queue/WithLinks";
import { carryOut } from "../session/actions";
import { effectText, LABELS } from "./entries";

interface Props {
  readonly fromMs: number;
  readonly toMs: number;
  readonly onClose: () => void;
}

/** Books GPUs for a window. The server previews it while it is chosen; the next pass decides. */
export function BookDialogue({ fromMs, toMs, onClose }: Props) {
  const [name, setName] = useState("");
  const [from, setFrom] = useState(localText(fromMs));
  const [to, setTo] = useState(localText(toMs));
  const [gpus, setGpus] = useState("1");
  const [models, setModels] = useState("");
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
  const said = effect.data ? effectText(effect.data) : inLabels(effect.fault?.message ?? "…", LABELS);
  const book = async () => {
    const input = inputOf(name.trim());
    if (await carryOut("Booked.", async () => (await change(ReserveDocument, { input })).reserve, LABELS)) onClose();
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
          onChange={setName}
          isRequired
        />
        <Text
          label="GPUs"
          value={gpus}
          wrong={isCount ? undefined : "Enter a whole number above 0."}
          onChange={setGpus}
        />
      </div>
      <div className="pair">
        <Text label="From" type="datetime-local" value={from} {...changes.from} onChange={setFrom} />
        <Text
          label="To"
          type="datetime-local"
          value={to}
          {...changes.to}
          {...(isOrdered || changes.from.wrong || changes.to.wrong ? {} : { wrong: "It ends after it starts." })}
          onChange={setTo}
        />
      </div>
      <Text label="Models" value={models} hint="Patterns like *H100*, with commas. Empty = any." onChange={setModels} />
      <p role="status" className={effect.data?.refusal || effect.fault ? "bad" : "quiet"}>
        <WithLinks text={said} />
      </p>
    </Dialogue>
  );
}
