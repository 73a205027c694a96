import { useState } from "react";
import { Button } from "react-aria-components";
import { useLocation } from "wouter";
import { Dialogue } from "../parts/Dialogue";
import { useFormState } from "../parts/formState";
import { showNotice } from "../parts/notices";
import { useIsShown } from "../parts/shown";
import { Text } from "../parts/Text";
import { slotFor, wrongsOf, type Form } from "./form";
import { NOTEBOOK, submitNotebook } from "./presets";
import { ProjectChoice } from "./ProjectChoice";

/** Starts JupyterLab, and leads to the page of its session. */
export default function NotebookDialogue({ onClose }: { readonly onClose: () => void }) {
  const [form, setForm] = useFormState("notebook", NOTEBOOK);
  const [isBusy, setBusy] = useState(false);
  const [, go] = useLocation();
  const isShown = useIsShown();
  const wrongs = wrongsOf(form);
  const isWhole = Object.keys(wrongs).length === 0;
  const edit = (part: Partial<Form>) => setForm({ ...form, ...part });
  const start = async () => {
    setBusy(true);
    const address = await submitNotebook(form);
    setBusy(false);
    if (address && isShown()) go(address);
    else if (address) showNotice({ tone: "good", text: "The notebook is submitted." });
  };
  return (
    <Dialogue
      title="New notebook"
      isOpen
      onClose={onClose}
      actions={
        <Button className="button main" type="submit" isDisabled={isBusy || !isWhole} onPress={() => void start()}>
          Start
        </Button>
      }
    >
      <div className="pair">
        <Text
          label="GPUs"
          value={form.amount}
          wrong={wrongs.amount}
          hint="Whole ones, or a part of one like 0.3."
          onChange={(amount) => edit({ amount, slot: slotFor(form.slot, amount) })}
        />
        <Text
          label="Time limit"
          value={form.limit}
          wrong={wrongs.limit}
          hint="Like 2h30m. The notebook is stopped after it."
          onChange={(limit) => edit({ limit })}
        />
      </div>
      <ProjectChoice value={form.project} onChange={(project) => edit({ project })} />
    </Dialogue>
  );
}
