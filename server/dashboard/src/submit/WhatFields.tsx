import { Button } from "react-aria-components";
import { Text } from "../parts/Text";
import { aroundText, shellHint } from "../session/command";
import type { FieldsProps, Pair } from "./form";
import { LABELS } from "./labels";
import { ProjectChoice } from "./ProjectChoice";

/** The command, its name and the project it is charged to. */
export function WhatFields({ form, wrongs, change }: FieldsProps) {
  return (
    <section className="panel stack" aria-labelledby="group-what">
      <h2 id="group-what">What</h2>
      <Text
        label={LABELS.command}
        rows={7}
        isRequired
        value={form.command}
        wrong={wrongs.command}
        hint={form.around.length ? undefined : shellHint(form.command)}
        placeholder="python train.py --epochs 3"
        onChange={(command) => change({ command })}
      />
      {form.around.length ? (
        <div className="row">
          <span className="small">
            Run by <code>{aroundText(form.around)}</code>, as in the copied session.
          </span>
          <Button className="button" onPress={() => change({ around: [] })}>
            Run by /bin/sh -c
          </Button>
        </div>
      ) : null}
      <Text label={LABELS.name} value={form.name} wrong={wrongs.name} onChange={(name) => change({ name })} />
      <ProjectChoice value={form.project} wrong={wrongs.project} onChange={(project) => change({ project })} />
      <Text
        label={LABELS.folder}
        value={form.folder}
        wrong={wrongs.folder}
        placeholder="an empty folder"
        hint="A path on the node."
        onChange={(folder) => change({ folder })}
      />
      {form.workspace ? (
        <Text
          label={LABELS.workspace}
          value={form.workspace}
          wrong={wrongs.workspace}
          hint="Files of an earlier upload, as the working directory. Empty it to use none."
          onChange={(workspace) => change({ workspace })}
        />
      ) : null}
      <Text
        label={LABELS.image}
        value={form.image}
        wrong={wrongs.image}
        placeholder="no container"
        hint="A container image, on nodes with Podman, Docker or Apptainer."
        onChange={(image) => change({ image })}
      />
      <Text
        label={LABELS.activates}
        value={form.activates}
        wrong={wrongs.activates}
        placeholder="no environment"
        hint="uv, or the path of a venv or conda environment on the nodes."
        onChange={(activates) => change({ activates })}
      />
      <Text
        label={LABELS.environment}
        rows={2}
        value={form.environment}
        wrong={wrongs.environment}
        placeholder="NAME=value"
        onChange={(environment) => change({ environment })}
      />
      <Long pairs={form.environmentLong} onDrop={() => change({ environmentLong: [] })} />
      <Text
        label={LABELS.apps}
        value={form.apps}
        wrong={wrongs.apps}
        placeholder="lab=8888"
        hint="Names, with the ports that the command listens on; without one, it is in $ALIQUOT_APP_NAME."
        onChange={(apps) => change({ apps })}
      />
      <Text
        label={LABELS.tags}
        rows={2}
        value={form.tags}
        wrong={wrongs.tags}
        placeholder="experiment=baseline"
        hint="To find it by; one on each line."
        onChange={(tags) => change({ tags })}
      />
      <Long pairs={form.tagsLong} onDrop={() => change({ tagsLong: [] })} />
    </section>
  );
}

/** Copied values of several lines, which the field above them cannot have. */
function Long({ pairs, onDrop }: { readonly pairs: readonly Pair[]; readonly onDrop: () => void }) {
  if (pairs.length === 0) return null;
  const names = pairs.map(({ name }) => name).join(", ");
  return (
    <div className="row">
      <span className="small">Also copied, with values of several lines: {names}</span>
      <Button className="button" aria-label={`Remove ${names}`} onPress={onDrop}>
        Remove
      </Button>
    </div>
  );
}
