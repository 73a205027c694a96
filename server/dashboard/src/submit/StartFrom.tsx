import { useState } from "react";
import { Button, Dialog, DialogTrigger, Popover } from "react-aria-components";
import { ask } from "../api/client";
import { useLive } from "../api/live";
import { useObservable } from "../api/observable";
import { RecentCommandsDocument } from "../generated/graphql";
import { useIdentity } from "../identity/me";
import { copied } from "../parts/CopyButton";
import { Choice } from "../parts/Choice";
import { Text } from "../parts/Text";
import { commandOf } from "../session/command";
import type { Form } from "./form";
import { Parameters } from "./Parameters";
import { parametersOf } from "./parameters";
import { PRESETS } from "./presets";
import { ProjectTemplates, saveForProject, useProjectTemplates } from "./ProjectTemplates";
import { addressOf, dropTemplate, filled, saveTemplate, templates } from "./templates";

interface Props {
  readonly form: Form;
  readonly setForm: (form: Form) => void;
  /** Fills the form from a session. */
  readonly copy: (sessionId: string) => void;
}

const COMMANDS_MAX = 8;
/** Names of no project: templates of this browser, and personal ones on the server. */
const OWN = "this browser";
const PERSONAL = "";
const DEFAULT_PROJECT = "default";
const REPLACES = "It replaces the template of this name.";

/** Recent commands and templates to start from. */
export function StartFrom({ form, setForm, copy }: Props) {
  const me = useIdentity();
  const owner = me?.name ?? "";
  const recent = useLive(() => loadRecent(owner), `recent/${owner}`);
  const saved = useObservable(templates);
  const [isOpen, setOpen] = useState(false);
  const [name, setName] = useState("");
  const shared = useProjectTemplates();
  const [target, setTarget] = useState(PERSONAL);
  const targets = [...new Set([...(me?.projects ?? []), DEFAULT_PROJECT])];
  const [asked, setAsked] = useState<Form | null>(null);
  const turn = (isNext: boolean) => {
    setOpen(isNext);
    setAsked(null);
    if (!isNext) return;
    // Colleagues may have changed theirs since.
    shared.refresh();
    recent.refresh();
  };
  const close = () => turn(false);
  const isTaken =
    target === OWN
      ? saved.some((one) => one.name === name.trim())
      : shared.data?.some((one) => one.project === target && one.name === name.trim());
  const begin = (next: Form) => {
    if (parametersOf(next).length) {
      setAsked(next);
      return;
    }
    setForm(next);
    close();
  };
  const save = async () => {
    if (target === OWN) saveTemplate(name, form);
    else if (!(await saveForProject(target, name.trim(), form))) return;
    else shared.refresh();
    setName("");
  };
  return (
    <DialogTrigger isOpen={isOpen} onOpenChange={turn}>
      <Button className="button">
        Start from <span aria-hidden="true">▾</span>
      </Button>
      <Popover className="popover" placement="bottom start">
        <Dialog className="start-from stack" aria-label="Start from">
          {asked ? <Parameters form={asked} onFilled={begin} key={JSON.stringify(asked)} /> : null}
          <h2>Your templates and those of your projects</h2>
          <ProjectTemplates templates={shared} onChoose={begin} />
          <h2>Presets</h2>
          <ul>
            {PRESETS.map((preset) => (
              <li key={preset.title}>
                <Button className="button plain" onPress={() => begin(preset.form)}>
                  {preset.title}
                </Button>
              </li>
            ))}
          </ul>
          <h2>Templates in this browser</h2>
          {saved.length === 0 ? <p className="quiet small">None yet.</p> : null}
          <ul>
            {saved.map((template) => (
              <li key={template.name} className="row">
                <Button
                  className="button plain"
                  onPress={() => {
                    const next = filled(template.fields);
                    if (next) begin(next);
                  }}
                >
                  {template.name}
                </Button>
                <Button
                  className="button plain end"
                  aria-label={`Delete the template ${template.name}`}
                  onPress={() => dropTemplate(template.name)}
                >
                  <span aria-hidden="true">✕</span>
                </Button>
              </li>
            ))}
          </ul>
          <div className="pair">
            <Text label="Save the form as" value={name} hint={isTaken ? REPLACES : undefined} onChange={setName} />
            <Choice
              label="For"
              value={target}
              options={[
                { id: PERSONAL, text: "me, in every browser" },
                { id: OWN, text: "this browser" },
                ...targets.map((project) => ({ id: project, text: `project ${project}` })),
              ]}
              onChange={setTarget}
            />
          </div>
          <Button className="button" isDisabled={name.trim() === ""} onPress={() => void save()}>
            Save
          </Button>
          <Button className="button" onPress={() => void copied(window.location.origin + addressOf(form), "The link")}>
            Copy the form as a link for a colleague
          </Button>
          <h2>Recent commands</h2>
          {recent.data?.length === 0 ? <p className="quiet small">You have submitted nothing yet.</p> : null}
          <ul className="recent">
            {recent.data?.map(({ id, text }) => (
              <li key={id}>
                <Button
                  className="button plain mono"
                  onPress={() => {
                    copy(id);
                    close();
                  }}
                >
                  {text}
                </Button>
              </li>
            ))}
          </ul>
        </Dialog>
      </Popover>
    </DialogTrigger>
  );
}

async function loadRecent(owner: string): Promise<readonly { readonly id: string; readonly text: string }[]> {
  if (!owner) return [];
  const { sessions } = await ask(RecentCommandsDocument, { owner });
  const byText = new Map<string, string>();
  for (const { node } of sessions.edges) {
    const text = commandOf(node.command);
    if (text && !byText.has(text)) byText.set(text, node.id);
  }
  return [...byText].slice(0, COMMANDS_MAX).map(([text, id]) => ({ id, text }));
}
