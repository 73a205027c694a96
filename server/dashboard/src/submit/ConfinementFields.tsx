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

/** What it may use at most, what it sees of its node, and the secrets that it is given. */
export function ConfinementFields({ form, wrongs, change }: Props) {
  const secrets = useLive(async () => (await ask(SecretNamesDocument, {})).secrets, "secrets", { everyMs: 30_000 });
  const names = secrets.data?.map(({ name }) => name);
  return (
    <section className="panel stack" aria-label="What it may use and see">
      <div className="pair">
        <Text
          label="Processes"
          value={form.processes}
          wrong={wrongs.processes}
          placeholder="as the agent says"
          hint="At one time, at most."
          onChange={(processes) => change({ processes })}
        />
        <Text
          label="Open files"
          value={form.openFiles}
          wrong={wrongs.openFiles}
          placeholder="as the agent says"
          hint="Of each process, at most."
          onChange={(openFiles) => change({ openFiles })}
        />
      </div>
      <Text
        label="Secrets"
        rows={2}
        value={form.secrets}
        wrong={wrongs.secrets}
        placeholder={"NAME=VARIABLE\nNAME=file:FILE"}
        hint={names && (names.length ? `Yours: ${names.join(", ")}.` : "You have none yet: aliquot secret set NAME.")}
        onChange={(text) => change({ secrets: text })}
      />
      <Check
        text="Only where it can be put into a sandbox"
        isOn={form.isSandboxed}
        onChange={(isSandboxed) => change({ isSandboxed })}
      />
    </section>
  );
}
