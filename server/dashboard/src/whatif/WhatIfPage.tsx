import { useMemo } from "react";
import { Button } from "react-aria-components";
import { Link, useSearchParams } from "wouter";
import { ask } from "../api/client";
import { useLive } from "../api/live";
import { againOf, sentencesOf, whenText, type Effect } from "../admin/effect";
import { loadCluster } from "../cluster/loading";
import type { Agent } from "../cluster/nodes";
import { useNow } from "../format/clock";
import { WhatIfDocument, type WhatIfInput } from "../generated/graphql";
import { useIdentity } from "../identity/me";
import { maySubmit } from "../identity/rights";
import { Check } from "../parts/Check";
import { Choice } from "../parts/Choice";
import { Faults } from "../parts/Faults";
import { useSettled } from "../parts/settled";
import { Table } from "../parts/Table";
import { Text } from "../parts/Text";
import { standingOf } from "../session/remedies";
import { learnNames } from "../session/names";
import { nameOf } from "../session/standing";
import { inForm } from "../submit/objections";
import { Preview } from "../submit/Preview";
import { idsInAnswer } from "../submit/previewing";
import { useProjects } from "../submit/ProjectChoice";
import { StartLine } from "../submit/Starts";
import { inputOf, NOTHING, questionOf, searchOf, wrongsOf, type Question, type Wrongs } from "./question";

const NONE = "none";
const NO_AGENTS: readonly Agent[] = [];

/** Asks what a session, a drained agent, another policy or more agents would mean; the question is in the address. */
export default function WhatIfPage() {
  const me = useIdentity();
  const [search, setSearch] = useSearchParams();
  const question = questionOf(search);
  const wrongs = wrongsOf(question);
  const input = inputOf(question);
  const cluster = useLive(loadCluster, "cluster", { everyMs: 10_000, isShared: true });
  const agents = cluster.data ?? NO_AGENTS;
  const change = (part: Partial<Question>) =>
    setSearch((old) => new URLSearchParams(searchOf({ ...questionOf(old), ...part })), { replace: true });
  return (
    <div className="stack submit">
      <div className="row">
        <h1>What if …</h1>
        <a className="help" href="/docs/concepts/scheduling.html#what-a-change-would-mean">
          Docs<span className="hidden"> about what-if questions</span>
        </a>
        {search.size ? (
          <Button className="button end" onPress={() => change(NOTHING)}>
            Clear
          </Button>
        ) : null}
      </div>
      <p className="quiet">
        Each question is tried in the scheduler on the present state; nothing is changed. Questions can be combined, and
        the address leads a colleague to the same ones.
      </p>
      <div className="submit-parts">
        {me === null || maySubmit(me) || question.gpus ? (
          <SessionFields question={question} wrongs={wrongs} agents={agents} change={change} />
        ) : null}
        <NodeFields question={question} wrongs={wrongs} agents={agents} change={change} />
        <section className="panel stack" aria-labelledby="ask-policy">
          <h2 id="ask-policy">another policy were in force</h2>
          <Text
            label="Changes of the policy"
            rows={5}
            value={question.policy}
            wrong={wrongs.policy}
            placeholder={"order=sjf\nweights.age=8"}
            hint="NAME=VALUE on each line, or a document as printed by aliquot policy show --json."
            onChange={(policy) => change({ policy })}
          />
        </section>
      </div>
      {input ? (
        <Answer input={input} agents={agents} />
      ) : (
        <p className="quiet">
          {Object.keys(wrongs).length ? "Correct the marked fields." : "Fill in at least one of the parts."}
        </p>
      )}
    </div>
  );
}

/** The answer, after the names of the sessions that it mentions are known. */
async function load(key: string) {
  const found = (await ask(WhatIfDocument, { input: JSON.parse(key) })).what_if;
  if (found.__typename === "WhatIf" && found.session) await learnNames(idsInAnswer(found.session));
  return found;
}

interface PartProps {
  readonly question: Question;
  readonly wrongs: Wrongs;
  readonly agents: readonly Agent[];
  readonly change: (part: Partial<Question>) => void;
}

function SessionFields({ question, wrongs, agents, change }: PartProps) {
  const projects = useProjects();
  return (
    <section className="panel stack" aria-labelledby="ask-session">
      <h2 id="ask-session">one more session were submitted</h2>
      <div className="pair">
        <Text
          label="GPUs"
          value={question.gpus}
          wrong={wrongs.gpus}
          hint="Of each kernel, like 2 or 0.5."
          onChange={(gpus) => change({ gpus })}
        />
        <Text
          label="Kernels"
          value={question.kernels}
          wrong={wrongs.kernels}
          placeholder="1"
          onChange={(kernels) => change({ kernels })}
        />
      </div>
      <div className="pair">
        <Text
          label="Time limit"
          value={question.limit}
          wrong={wrongs.limit}
          placeholder="none"
          hint="Like 2h30m."
          onChange={(limit) => change({ limit })}
        />
        <Named
          label="Pool"
          value={question.pool}
          names={poolsOf(agents)}
          empty="default pool"
          onChange={(pool) => change({ pool })}
        />
      </div>
      <Named
        label="Project"
        value={question.project}
        names={projects}
        empty="default project"
        onChange={(project) => change({ project })}
      />
    </section>
  );
}

function NodeFields({ question, wrongs, agents, change }: PartProps) {
  const names = useMemo(() => agents.map(({ id }) => id).sort(), [agents]);
  return (
    <div className="stack">
      <section className="panel stack" aria-labelledby="ask-drain">
        <h2 id="ask-drain">a node were drained</h2>
        <Named label="Agent" value={question.drain} names={names} onChange={(drain) => change({ drain })} />
        <Check
          text="Preempt its sessions, which are queued again"
          isOn={question.evict === "1"}
          onChange={(isOn) => change({ evict: isOn ? "1" : "" })}
        />
      </section>
      <section className="panel stack" aria-labelledby="ask-more">
        <h2 id="ask-more">there were more nodes</h2>
        <div className="pair">
          <Named label="Like this one" value={question.like} names={names} onChange={(like) => change({ like })} />
          <Text
            label="How many"
            value={question.count}
            wrong={wrongs.count}
            placeholder="1"
            onChange={(count) => change({ count })}
          />
        </div>
      </section>
    </div>
  );
}

interface NamedProps {
  readonly label: string;
  readonly value: string;
  readonly names: readonly string[];
  /** What the empty value means. */
  readonly empty?: string;
  readonly onChange: (value: string) => void;
}

function Named({ label, value, names, empty = NONE, onChange }: NamedProps) {
  const ids = [...new Set([NONE, ...names, value].filter(Boolean))];
  return (
    <Choice
      label={label}
      value={value || NONE}
      options={ids.map((id) => ({ id, text: id === NONE ? empty : id }))}
      onChange={(id) => onChange(id === NONE ? "" : id)}
    />
  );
}

function Answer({ input, agents }: { readonly input: WhatIfInput; readonly agents: readonly Agent[] }) {
  const key = useSettled(JSON.stringify(input));
  const live = useLive(() => load(key), key, { everyMs: 30_000 });
  const found = live.data;
  if (!found) return <Faults of={live} />;
  if (found.__typename !== "WhatIf")
    return (
      <p className="note bad" role="alert">
        {"message" in found ? inForm(found.message) : "It cannot be answered."}
      </p>
    );
  return (
    <div className="stack" role="status">
      {found.session ? <Session input={input} effect={found} agents={agents} /> : null}
      <Summary effect={found} />
      <Delays title="Would start later" delays={found.later} count={found.later_count} />
      <Delays title="Would start sooner" delays={found.sooner} count={found.sooner_count} />
      <Others effect={found} />
    </div>
  );
}

function Session({
  input,
  effect,
  agents,
}: {
  readonly input: WhatIfInput;
  readonly effect: Effect;
  readonly agents: readonly Agent[];
}) {
  const now = useNow();
  if (!effect.session) return null;
  const hasStart = effect.session.__typename === "SessionPreview" && effect.session.starts_now;
  // A forecast is of the present cluster and policy.
  const isAlone = !input.drain && !input.like && !input.policy;
  return (
    <section className="panel stack" aria-label="The session">
      <h2>The session</h2>
      <Preview answer={effect.session} agents={agents} size={input.session?.cluster_size ?? 1} />
      {isAlone && input.session ? <StartLine request={input.session} /> : null}
      {hasStart ? null : (
        <p>
          {effect.session_start
            ? `If all sessions run for as long as planned, it starts ${whenText(effect.session_start, now)}.`
            : "Its start is unknown."}
        </p>
      )}
    </section>
  );
}

function Summary({ effect }: { readonly effect: Effect }) {
  const now = useNow();
  return (
    <section className="panel stack" aria-label="Effect">
      <h2>Effect on others</h2>
      {sentencesOf(effect).map((sentence) => (
        <p key={sentence}>{sentence}</p>
      ))}
      <ul>
        {effect.restarts.map((restart) => (
          <li key={restart.session.session_id}>
            <Link href={`/sessions/${restart.session.session_id}`}>
              {nameOf({ id: restart.session.session_id, name: restart.session.name })}
            </Link>{" "}
            of {restart.session.owner}{" "}
            <span className="quiet small">
              {standingOf(restart.session, now)}; {againOf(restart, now)}
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Delays({
  title,
  delays,
  count,
}: {
  readonly title: string;
  readonly delays: Effect["later"];
  readonly count: number;
}) {
  const now = useNow();
  if (!count) return null;
  return (
    <section className="panel stack scroll" aria-label={title} tabIndex={0}>
      <h2>
        {title}: {count}
      </h2>
      <Table columns={["Session", "Owner", "GPUs", "Starts now", "Would start"]}>
        {delays.map(({ session, before, after }) => (
          <tr key={session.session_id}>
            <td>
              <Link href={`/sessions/${session.session_id}`}>
                {nameOf({ id: session.session_id, name: session.name })}
              </Link>
            </td>
            <td>{session.owner}</td>
            <td>{session.gpus}</td>
            <td>{before ? whenText(before, now) : "unknown"}</td>
            <td>{after ? whenText(after, now) : "unknown"}</td>
          </tr>
        ))}
      </Table>
      {count > delays.length ? <p className="quiet small">and {count - delays.length} more</p> : null}
    </section>
  );
}

function Others({ effect }: { readonly effect: Effect }) {
  if (!effect.starts.length) return null;
  return (
    <section className="panel stack" aria-label="Would start now">
      <h2>Would start now: {effect.starts.length}</h2>
      <ul>
        {effect.starts.map((other) => (
          <li key={other.session_id}>
            <Link href={`/sessions/${other.session_id}`}>{nameOf({ id: other.session_id, name: other.name })}</Link> of{" "}
            {other.owner}
          </li>
        ))}
      </ul>
    </section>
  );
}

function poolsOf(agents: readonly Agent[]): string[] {
  return [...new Set(agents.map((agent) => agent.pool))].sort();
}
