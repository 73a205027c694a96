import { useEffect, useState } from "react";
import { Button, Form as AriaForm } from "react-aria-components";
import { useLocation, useSearchParams } from "wouter";
import { change as send, Refusal } from "../api/client";
import { useLive } from "../api/live";
import { loadCluster } from "../cluster/loading";
import type { Agent } from "../cluster/nodes";
import { SubmitDocument } from "../generated/graphql";
import { useIdentity } from "../identity/me";
import { maySubmit } from "../identity/rights";
import { Empty } from "../parts/Empty";
import { loadSession } from "../session/loading";
import { formOf, leftOutOf } from "./again";
import { ConfinementFields } from "./ConfinementFields";
import { EMPTY, requestOf, wrongsOf, type Field, type Form, type Wrongs } from "./form";
import { MoreFields } from "./MoreFields";
import { Preview } from "./Preview";
import { usePreview } from "./previewing";
import { ResourceFields } from "./ResourceFields";
import { Text } from "../parts/Text";

/** Fields of the form, by the server's names, where these differ. */
const FIELDS: Readonly<Record<string, Field>> = {
  gpu_memory_gb: "gpuMemory",
  estimated_duration: "estimate",
  time_limit: "limit",
  max_retries: "retries",
  cluster_size: "kernels",
  working_directory: "folder",
  slots: "amount",
  limits: "processes",
};

const NO_AGENTS: readonly Agent[] = [];

/** An error of the server about a request, and the field it is about. */
interface Objection {
  readonly message: string;
  readonly field: string | null;
}

/** The form, or for viewers why there is none. */
export default function SubmitPage() {
  const me = useIdentity();
  if (me === null || maySubmit(me)) return <SubmitForm />;
  return (
    <Empty title="You cannot submit sessions">
      <p>Your role is viewer, which may read only. Ask an admin of the cluster for the role user.</p>
    </Empty>
  );
}

/** The form to submit a session; validated while typing. */
function SubmitForm() {
  const { form, setForm, leftOut } = useForm();
  const [touched, setTouched] = useState<ReadonlySet<Field>>(new Set());
  const [refusal, setRefusal] = useState<Objection | null>(null);
  const [isBusy, setBusy] = useState(false);
  const [, go] = useLocation();
  const cluster = useLive(loadCluster, "cluster", { everyMs: 10_000, isShared: true });
  const agents = cluster.data ?? NO_AGENTS;
  const wrongs = wrongsOf(form);
  const isWhole = Object.keys(wrongs).length === 0;
  const preview = usePreview(isWhole ? requestOf(form) : null);
  const foreseen = preview.data && "message" in preview.data ? fieldOf(preview.data) : null;
  const shown = shownWrongs(wrongs, touched, refusal ?? foreseen);
  const change = (part: Partial<Form>) => {
    setForm((old) => ({ ...old, ...part }));
    setTouched((old) => new Set([...old, ...(Object.keys(part) as Field[])]));
    setRefusal(null);
  };
  const submit = async () => {
    setTouched(new Set(Object.keys(form) as Field[]));
    if (!isWhole || isBusy) return;
    setBusy(true);
    const outcome = await asked(form);
    setBusy(false);
    if ("id" in outcome) go(`/sessions/${outcome.id}`);
    else setRefusal(outcome);
  };

  return (
    <AriaForm
      className="submit stack"
      validationBehavior="aria"
      onSubmit={(event) => {
        event.preventDefault();
        void submit();
      }}
    >
      <h1>Submit a session</h1>
      {leftOut ? <p className="note">{againWords(leftOut)}</p> : null}
      <div className="submit-parts">
        <section className="panel stack" aria-label="Job">
          <Text
            label="Command"
            rows={7}
            isRequired
            value={form.command}
            wrong={shown.command}
            hint="Run by /bin/sh -c."
            placeholder="python train.py --epochs 3"
            onChange={(command) => change({ command })}
          />
          <Text label="Name" value={form.name} wrong={shown.name} onChange={(name) => change({ name })} />
        </section>
        <div className="stack">
          <ResourceFields form={form} wrongs={shown} slots={slotsOf(agents)} change={change} />
          <ConfinementFields form={form} wrongs={shown} change={change} />
        </div>
        <MoreFields form={form} wrongs={shown} pools={poolsOf(agents)} change={change} />
      </div>
      <div className="submit-end panel row">
        <div role="status" className="submit-preview">
          {refusal ? <p className="note bad">{refusal.message}</p> : null}
          {isWhole && !refusal && preview.data ? <Preview answer={preview.data} agents={agents} /> : null}
          {!isWhole && touched.size > 0 ? (
            <p className="note">{Object.keys(wrongs).length} to correct before it can be submitted.</p>
          ) : null}
        </div>
        <Button className="button main end" type="submit" isDisabled={isBusy}>
          Submit
        </Button>
      </div>
    </AriaForm>
  );
}

function fieldOf(error: { readonly message: string; readonly field?: string | null }): Objection {
  return { message: error.message, field: error.field ?? null };
}

/** The form, filled from the session in the address, if there is one. */
function useForm() {
  const [search] = useSearchParams();
  const from = search.get("from");
  const [form, setForm] = useState<Form>(EMPTY);
  const [leftOut, setLeftOut] = useState<readonly string[] | null>(null);
  useEffect(() => {
    if (!from) return;
    loadSession(from).then(
      ({ session }) => {
        if (!session) return;
        setForm(formOf(session));
        setLeftOut(leftOutOf(session));
      },
      () => undefined,
    );
  }, [from, setForm]);
  return { form, setForm, leftOut: from ? leftOut : null };
}

/** The API does not return secrets and limits of sessions, so it is unknown whether it had any. */
function againWords(leftOut: readonly string[]): string {
  const hidden = "Secrets and limits are not copied: enter them again if it had any.";
  const known = leftOut.length ? ` Not copied: ${leftOut.join("; ")}.` : "";
  return `Filled in from another session.${known} ${hidden}`;
}

async function asked(form: Form): Promise<{ id: string } | Objection> {
  try {
    const { create_session: answer } = await send(SubmitDocument, { input: requestOf(form) });
    if ("session" in answer) return { id: answer.session.id };
    return fieldOf(answer);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return {
      message: `${error.message} Check the queue before you submit it again: it may have been accepted.`,
      field: null,
    };
  }
}

function shownWrongs(wrongs: Wrongs, touched: ReadonlySet<Field>, refusal: Objection | null): Wrongs {
  const own = Object.fromEntries(Object.entries(wrongs).filter(([field]) => touched.has(field as Field)));
  const first = refusal?.field?.split(".")[0];
  return first && refusal ? { ...own, [FIELDS[first] ?? first]: refusal.message } : own;
}

function slotsOf(agents: readonly Agent[]): string[] {
  const kinds = new Set(agents.flatMap((agent) => agent.devices.map((device) => device.kind)));
  const slots = [...kinds]
    .filter((kind) => kind !== "cpu" && kind !== "mem")
    .flatMap((kind) => [`${kind}.device`, `${kind}.shares`]);
  return slots.length ? slots.sort() : ["cuda.device", "cuda.shares"];
}

function poolsOf(agents: readonly Agent[]): string[] {
  return [...new Set(agents.map((agent) => agent.pool))].sort();
}
