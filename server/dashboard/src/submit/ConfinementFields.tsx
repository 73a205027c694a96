import { ask } from "../api/client";
import { useLive } from "../api/live";
import { SecretNamesDocument } from "../generated/graphql";
import { Check } from "../parts/Check";
import { Text } from "../parts/Text";
import type { Form, Wrongs } from "./form";

interface Props {
  readonly form: Form;
  readonly wrongs: Wrongs;
  readonly change: (part: Partial<Form>) => void;
}

/** Limits, secrets and sandbox of a session. */
export function ConfinementFields({ form, wrongs, change }: Props) {
  const secrets = useLive(async () => (await ask(SecretNamesDocument, {})).secrets, "secrets", { everyMs: 30_000 });
  const names = secrets.data?.map(({ name }) => name);
  return (
    <section className="panel stack" aria-label="Limits and secrets">
      <div className="pair">
        <Text
          label="Processes"
          value={form.processes}
          wrong={wrongs.processes}
          placeholder="the agent's limit"
          hint="Maximum at one time."
          onChange={(processes) => change({ processes })}
        />
        <Text
          label="Open files"
          value={form.openFiles}
          wrong={wrongs.openFiles}
          placeholder="the agent's limit"
          hint="Maximum per process."
          onChange={(openFiles) => change({ openFiles })}
        />
      </div>
      <Text
        label="Secrets"
        rows={2}
        value={form.secrets}
        wrong={wrongs.secrets}
        placeholder={"NAME=VARIABLE\nNAME=file:FILE"}
        hint={
          names &&
          (names.length
            ? `Yours: ${names.join(", ")}.`
            : "You have no secrets yet; store one with aliquot secret set NAME.")
        }
        onChange={(text) => change({ secrets: text })}
      />
      <Check
        text="Run in a sandbox, on nodes that can"
        isOn={form.isSandboxed}
        onChange={(isSandboxed) => change({ isSandboxed })}
      />
    </section>
  );
}
