import { useEffect, useRef, useState } from "react";
import { flushSync } from "react-dom";
import { Button, Form as AriaForm } from "react-aria-components";
import { useLocation, useSearch, useSearchParams } from "wouter";
import { ask, change as send, Refusal } from "../api/client";
import { useLive } from "../api/live";
import { user } from "../api/presence";
import { loadCluster } from "../cluster/loading";
import { isAccelerator, type Agent } from "../cluster/nodes";
import { OpenBookingsDocument, SubmitDocument } from "../generated/graphql";
import { useIdentity } from "../identity/me";
import { maySubmit, readsOnly } from "../identity/rights";
import { storeDraft, storedDraft, useStoredDraft } from "../parts/drafts";
import { Empty } from "../parts/Empty";
import { showNotice } from "../parts/notices";
import { useIsShown } from "../parts/shown";
import { loadSession } from "../session/loading";
import { formOf, leftOutOf } from "./again";
import { AdvancedFields } from "./AdvancedFields";
import { CodeButtons } from "./CodeDialogue";
import { EMPTY, requestOf, slotFor, wrongsOf, type Field, type Form } from "./form";
import { correctText } from "./labels";
import { inForm, objectionOf, shownWrongs, type Objection } from "./objections";
import { Preview } from "./Preview";
import { usePreview } from "./previewing";
import { ResourceFields } from "./ResourceFields";
import { StartFrom } from "./StartFrom";
import { Starts } from "./Starts";
import { changedIn, filled, formIn } from "./templates";
import { WhatFields } from "./WhatFields";
import { WhenFields } from "./WhenFields";

const NO_AGENTS: readonly Agent[] = [];

/** The form, or for viewers why there is none. */
export default function SubmitPage() {
  const me = useIdentity();
  const search = useSearch();
  if (me === null || maySubmit(me)) return <SubmitForm key={search} />;
  return (
    <Empty title="You cannot submit sessions">
      <p>{readsOnly(me)}</p>
    </Empty>
  );
}

/** The form to submit a session; validated while typing. */
function SubmitForm() {
  const { form, setForm, first, source, isRestored, fill, forget } = useForm();
  const [touched, setTouched] = useState<ReadonlySet<Field>>(new Set());
  const [refusal, setRefusal] = useState<Objection | null>(null);
  const [isBusy, setBusy] = useState(false);
  const isShown = useIsShown();
  const page = useRef<HTMLFormElement>(null);
  const [, go] = useLocation();
  const cluster = useLive(loadCluster, "cluster", { everyMs: 10_000, isShared: true });
  const agents = cluster.data ?? NO_AGENTS;
  const wrongs = wrongsOf(form);
  const isWhole = Object.keys(wrongs).length === 0;
  const preview = usePreview(isWhole ? requestOf(form) : null);
  const foreseen = preview.data && "message" in preview.data ? objectionOf(preview.data) : null;
  const shown = shownWrongs(wrongs, touched, refusal ?? foreseen, form);
  const change = (part: Partial<Form>) => {
    setForm((old) => ({ ...old, ...part }));
    setTouched((old) => new Set([...old, ...(Object.keys(part) as Field[])]));
    setRefusal(null);
  };
  const startAnew = () => {
    fill(first);
    setTouched(new Set());
    setRefusal(null);
  };
  const submit = async () => {
    focusWrong(page.current, () => setTouched(new Set(Object.keys(form) as Field[])));
    if (!isWhole || isBusy) return;
    setBusy(true);
    const outcome = await asked(form);
    setBusy(false);
    if ("id" in outcome) {
      forget();
      if (isShown()) go(`/sessions/${outcome.id}`);
      else showNotice({ tone: "good", text: `Submitted: ${outcome.id}` });
    } else if (isShown()) focusWrong(page.current, () => setRefusal(outcome));
    else showNotice({ tone: "bad", text: inForm(outcome.message) });
  };

  return (
    <AriaForm
      ref={page}
      className="submit stack"
      validationBehavior="aria"
      onSubmit={(event) => {
        event.preventDefault();
        void submit();
      }}
    >
      <div className="row">
        <h1>Submit a session</h1>
        <StartFrom form={form} setForm={fill} copy={(id) => go(`/submit?from=${id}`)} />
        <span className="end row">
          <CodeButtons request={isWhole ? requestOf(form) : null} />
        </span>
      </div>
      {source ? <p className={`note ${source.tone}`}>{source.text}</p> : null}
      {isRestored ? (
        <p className="quiet">
          Restored what you had typed.{" "}
          <Button className="button plain" onPress={startAnew}>
            Start anew
          </Button>
        </p>
      ) : null}
      <div className="submit-parts">
        <WhatFields form={form} wrongs={shown} change={change} />
        <ResourceFields
          form={form}
          wrongs={shown}
          kinds={kindsOf(agents)}
          models={modelsOf(agents)}
          pools={poolsOf(agents)}
          change={change}
        />
        <div className="stack">
          <WhenFields form={form} wrongs={shown} change={change} />
          <AdvancedFields form={form} wrongs={shown} change={change} />
        </div>
      </div>
      {isWhole && form.slot ? (
        <Starts
          request={requestOf(form)}
          amount={form.amount}
          onChoose={(amount) => change({ amount, slot: slotFor(form.slot, amount) })}
        />
      ) : null}
      <div className="submit-end panel row">
        <div role="status" className="submit-preview">
          {refusal ? <p className="note bad">{inForm(refusal.message)}</p> : null}
          {isWhole && !refusal && preview.data ? (
            <Preview answer={preview.data} agents={agents} size={Number(form.kernels)} />
          ) : null}
          {!isWhole && touched.size > 0 ? <p className="note">{correctText(wrongs)}</p> : null}
        </div>
        <Button className="button main end" type="submit" isDisabled={isBusy}>
          Submit
        </Button>
      </div>
    </AriaForm>
  );
}

const WRONG = "[aria-invalid='true'], .choice[data-invalid] > button";

/** Shows errors, and moves the focus to the first field that has one. */
function focusWrong(page: HTMLFormElement | null, show: () => void): void {
  flushSync(show);
  page?.querySelector<HTMLElement>(WRONG)?.focus();
}

/** The form: as it was left at this address, else of the session or the fields in the address. */
function useForm() {
  const [search] = useSearchParams();
  const from = search.get("from");
  const given = search.get("form");
  const name = ["submit", user.get(), from ?? given ?? ""].join("/");
  const [left] = useState(() => filled(storedDraft(name)));
  const [first, setFirst] = useState<Form>(() => formIn(given ?? "") ?? EMPTY);
  const [form, setForm] = useState<Form>(left ?? first);
  const [isRestored, setRestored] = useState(left !== null);
  const [source, setSource] = useState<Source | null>(() =>
    given !== null && formIn(given) === null ? { tone: "bad", text: NO_FORM } : null,
  );
  useEffect(() => {
    if (!from) return;
    loadAgain(from).then(
      (again) => {
        if (again) setFirst(again.form);
        if (again && left === null) setForm(again.form);
        setSource(again ? { tone: "", text: again.text } : { tone: "bad", text: NO_SESSION });
      },
      (error: unknown) => {
        if (!(error instanceof Refusal)) throw error;
        setSource({ tone: "bad", text: `Nothing is filled in from the session: ${error.message}` });
      },
    );
  }, [from, left, setForm]);
  const isEdited = JSON.stringify(form) !== JSON.stringify(first);
  useStoredDraft(name, isEdited ? changedIn(form) : null);
  const fill = (next: Form) => {
    setForm(next);
    setRestored(false);
  };
  const forget = () => storeDraft(name, null);
  return { form, setForm, first, source, isRestored, fill, forget };
}

/** What the form was filled in from, or why it is empty. */
interface Source {
  readonly tone: "" | "bad";
  readonly text: string;
}

const NO_SESSION =
  "Nothing is filled in: the session was not found. Ended sessions are deleted after a while, and you may not have " +
  "access to others.";
const NO_FORM = "Nothing is filled in: the address has no complete form. Ask your colleague to copy the link again.";

/** A form with the request of a session, and what it lacks; null if there is no such session. */
async function loadAgain(id: string): Promise<{ form: Form; text: string } | null> {
  const { session } = await loadSession(id);
  if (session === null) return null;
  const { booking } = session;
  const form = formOf(session, new Set(booking === null ? [] : await openBookings(booking)));
  const isOver = session.booking !== null && form.booking === "";
  return { form, text: againWords(leftOutOf(session), isOver) };
}

/** Ids of the open bookings; the one that is asked for counts as open if they cannot be read. */
async function openBookings(asked: string): Promise<readonly string[]> {
  try {
    return (await ask(OpenBookingsDocument, {})).reservations.map((one) => one.id);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return [asked];
  }
}

/** The API does not return some parts of a request, so it is unknown whether it had any. */
function againWords(leftOut: readonly string[], isBookingOver: boolean): string {
  const hidden = leftOut.length ? ` You may not see its ${leftOut.join(", ")}.` : "";
  const over = isBookingOver ? " Its booking is over." : "";
  return `Filled in from another session.${hidden}${over} ${NOT_RETURNED} are not copied: give them again if it had any.`;
}

const CHECK_FIRST = "Check the queue before you submit it again: it may have been accepted.";
const NOT_RETURNED = "Secrets, limits of processes and files, and patterns of metrics";

async function asked(form: Form): Promise<{ id: string } | Objection> {
  try {
    const { create_session: answer } = await send(SubmitDocument, { input: requestOf(form) });
    if ("session" in answer) return { id: answer.session.id };
    return objectionOf(answer);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    const rest = error.fault.mayHaveBegun ? ` ${CHECK_FIRST}` : "";
    return { message: `${error.message}${rest}`, field: null };
  }
}

/** The kinds of accelerators. */
function kindsOf(agents: readonly Agent[]): string[] {
  const kinds = new Set(agents.flatMap((agent) => agent.devices.map((device) => device.kind)));
  const found = [...kinds].filter((kind) => kind !== "cpu" && kind !== "mem").sort();
  return found.length ? found : ["cuda"];
}

function modelsOf(agents: readonly Agent[]): string[] {
  return [
    ...new Set(agents.flatMap((agent) => agent.devices.filter(isAccelerator).flatMap(({ model }) => model ?? []))),
  ].sort();
}

function poolsOf(agents: readonly Agent[]): string[] {
  return [...new Set(agents.map((agent) => agent.pool))].sort();
}
