import { ask } from "../api/client";
import { useLive } from "../api/live";
import { ProjectsDocument } from "../generated/graphql";
import { useIdentity } from "../identity/me";
import { mayOperate } from "../identity/rights";
import { Choice } from "../parts/Choice";
import { LABELS } from "./labels";

interface Props {
  /** Empty is the project that the server chooses. */
  readonly value: string;
  readonly wrong?: string | undefined;
  readonly onChange: (project: string) => void;
}

const DEFAULT = "default";

/** The project that a session is charged to. */
export function ProjectChoice({ value, wrong, onChange }: Props) {
  const [usual, ...others] = useProjects();
  const known = [...new Set([usual, ...others, value || usual])];
  return (
    <Choice
      label={LABELS.project}
      value={value || usual}
      wrong={wrong}
      options={known.map((id) => ({ id, text: id }))}
      onChange={onChange}
    />
  );
}

/** The projects that the user may charge: their own, for operators all. First the one that the server chooses. */
export function useProjects(): readonly [string, ...string[]] {
  const me = useIdentity();
  const all = useLive(async () => (await ask(ProjectsDocument, {})).projects, "projects");
  const theirs = mayOperate(me) ? (all.data?.map(({ name }) => name) ?? []) : (me?.projects ?? []);
  // As the server chooses where none is given: the only project of the user.
  const usual = (me?.projects.length === 1 ? me.projects[0] : undefined) ?? DEFAULT;
  return [usual, ...[DEFAULT, ...theirs].filter((name) => name !== usual)];
}
