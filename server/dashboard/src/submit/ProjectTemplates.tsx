import { Button } from "react-aria-components";
import { ask, change } from "../api/client";
import { useLive, type Live } from "../api/live";
import {
  DeleteSessionTemplateDocument,
  SaveSessionTemplateDocument,
  SessionTemplatesDocument,
  type SessionTemplatesQuery,
} from "../generated/graphql";
import { useIdentity } from "../identity/me";
import { mayOperate } from "../identity/rights";
import { Faults } from "../parts/Faults";
import { carryOut } from "../session/actions";
import type { Form } from "./form";
import { changedIn, formIn } from "./templates";

type Shared = SessionTemplatesQuery["session_templates"][number];

/** The templates of the user's projects. */
export function useProjectTemplates(): Live<readonly Shared[]> {
  return useLive(async () => (await ask(SessionTemplatesDocument, {})).session_templates, "session_templates");
}

/** Saves a form for the members of a project. Returns whether that was done. */
export function saveForProject(project: string, name: string, form: Form): Promise<boolean> {
  const fields = JSON.stringify(changedIn(form));
  return carryOut(
    project ? `The template is saved for project ${project}.` : "The template is saved for you.",
    async () => (await change(SaveSessionTemplateDocument, { project, name, fields })).save_session_template,
  );
}

interface Props {
  readonly templates: Live<readonly Shared[]>;
  readonly onChoose: (form: Form) => void;
}

/** Templates that colleagues see too, by project. */
export function ProjectTemplates({ templates, onChoose }: Props) {
  const me = useIdentity();
  const drop = async ({ project, name }: Shared) => {
    await carryOut(
      "The template is deleted.",
      async () => (await change(DeleteSessionTemplateDocument, { project, name })).delete_session_template,
    );
    templates.refresh();
  };
  if (!templates.data) return <Faults of={templates} />;
  if (templates.data.length === 0) return <p className="quiet small">None yet.</p>;
  return (
    <ul>
      {templates.data.map((one) => {
        const form = formIn(one.fields);
        return (
          <li key={`${one.project}/${one.name}`} className="row">
            <Button className="button plain" isDisabled={form === null} onPress={() => form && onChoose(form)}>
              {one.name}
            </Button>
            <span className="quiet small end">{one.project ? `${one.project}, by ${one.author}` : "yours"}</span>
            {one.author === me?.name || mayOperate(me) ? (
              <Button
                className="button plain"
                aria-label={`Delete the template ${one.name} of ${one.project ? `project ${one.project}` : "yours"}`}
                onPress={() => void drop(one)}
              >
                <span aria-hidden="true">✕</span>
              </Button>
            ) : null}
          </li>
        );
      })}
    </ul>
  );
}
