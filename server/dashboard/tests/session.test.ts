import { expect, test } from "vitest";
import { isGone, newerOf } from "../src/session/found";
import { aroundText, commandOf, shellHint, writtenOf } from "../src/session/command";
import { Readings } from "../src/session/samples";
import { arrayOf, asked, caveat, nameOf, shortOf, stateOf, tailOf } from "../src/session/standing";
import {
  attemptsOf,
  isLater,
  noteOf,
  ownSteps,
  receiptsOf,
  stepsOf,
  type Receipt,
  type Step,
} from "../src/session/steps";

const at = (second: number) => new Date(second * 1000).toISOString();
const step = (second: number, state: Step["state"], attempt: number, more: Partial<Step> = {}): Step => ({
  number: second,
  at: at(second),
  kind: `session.${state}`,
  state,
  attempt,
  held_by: null,
  preemption: null,
  pull: null,
  ...more,
});
const session = { queued_at: at(0), scheduled_at: at(1), started_at: null, ended_at: at(4), held_by: null };
const receipt = (second: number, lost: number | null = null): Receipt => ({
  cause: "priority",
  by_session: null,
  by_user: "ben",
  at: at(second),
  until: at(second + 1),
  lost_gpu_seconds: lost,
});
const shown = (steps: readonly Step[], now: number) =>
  attemptsOf(steps, now).map(({ number, isTried, stages }) => [
    number,
    isTried,
    stages.map(({ step: { state }, ms }) => `${state} ${ms === null ? "" : ms / 1000}`.trim()),
  ]);

test("every state of every attempt, newest first", () => {
  const once = [step(0, "queued", 0), step(1, "scheduled", 1), step(2, "allocating", 1), step(4, "running", 1)];
  expect(shown(once.slice(0, 1), 5_000)).toEqual([[1, false, ["queued 5"]]]);
  expect(shown(once, 9_000)).toEqual([[1, true, ["queued 1", "scheduled 1", "allocating 2", "running 5"]]]);
  const again = [...once, step(6, "preempting", 1), step(7, "queued", 1), step(9, "held", 1)];
  expect(shown(again, 10_000)).toEqual([
    [2, false, ["queued 2", "held 1"]],
    [1, true, ["queued 1", "scheduled 1", "allocating 2", "running 2", "preempting 1"]],
  ]);
  expect(shown([...again, step(10, "canceled", 1)], 99_000)[0]).toEqual([2, false, ["queued 2", "held 1", "canceled"]]);
  expect(shown([...once, step(8, "failed", 1), step(9, "queued", 1)], 9_000).map(([number]) => number)).toEqual([2, 1]);
});

test("an array of which some tasks run is shown as running", () => {
  const steps = [step(0, "queued", 0)];
  const array = { queued_at: at(0), scheduled_at: null, started_at: null, ended_at: null, attempt: 0, held_by: null };
  const withActive = (count: number) => ({ ...array, state: "queued" as const, tasks: { active: { count } } });
  expect(shown(stepsOf(withActive(2), steps), 5_000)).toEqual([[1, false, ["running 5"]]]);
  expect(shown(stepsOf(withActive(0), steps), 5_000)).toEqual([[1, false, ["queued 5"]]]);
});

test("a job array has no attempts: it waits, runs and ends as a whole", () => {
  const steps = [step(0, "queued", 0), step(2, "running", 0), step(5, "completed", 0)];
  expect(shown(steps, 9_000)).toEqual([[1, false, ["queued 2", "running 3", "completed"]]]);
  expect(shown(steps.slice(2), 9_000)).toEqual([[1, false, ["completed"]]]);
  const array = { ...session, state: "completed", attempt: 0, tasks: { active: { count: 0 } } } as const;
  expect(stepsOf(array, steps).map(noteOf)).toEqual(["until its last task was started", "", ""]);
});

test("without stored steps, the session shows its newest attempt", () => {
  const steps = ownSteps({ ...session, state: "canceled", attempt: 3 });
  expect(shown(steps, 9_000)).toEqual([[3, true, ["queued 1", "scheduled 3", "canceled"]]]);
  const again = { ...session, scheduled_at: null, ended_at: null, state: "queued", attempt: 3 } as const;
  expect(shown(ownSteps(again), 9_000)).toEqual([[4, false, ["queued 9"]]]);
  expect(shown(stepsOf(again, []), 9_000)).toEqual([[4, false, ["queued 9"]]]);
});

test("a task first recorded with its devices shows its wait before, unless that is unknown", () => {
  const steps = [step(3, "scheduled", 1), step(4, "running", 1), step(5, "queued", 1)];
  const task = { ...session, held_by: "ada", state: "held", attempt: 1 } as const;
  expect(shown(stepsOf(task, steps), 9_000)).toEqual([
    [2, false, ["queued 4"]],
    [1, true, ["queued 3", "scheduled 1", "running 1"]],
  ]);
  expect(stepsOf({ ...task, queued_at: at(8) }, steps)).toBe(steps);
  for (const known of [[step(1, "queued", 0), ...steps], steps.slice(1)]) expect(stepsOf(task, known)).toBe(known);
});

test("states that cannot be a session's first step", () => {
  const first = [step(0, "queued", 0), step(0, "held", 0), step(0, "scheduled", 1), step(0, "running", 1)];
  const later = [step(0, "queued", 1), step(0, "allocating", 1), step(0, "failed", 1), step(0, "scheduled", 2)];
  expect([first.filter(isLater), later.filter(isLater)]).toEqual([[], later]);
});

test("preemptions since the last retry, newest first, with the loss once known", () => {
  const steps = [
    step(1, "preempting", 1, { preemption: receipt(1) }),
    step(2, "queued", 1, { preemption: receipt(1, 7) }),
    step(5, "preempting", 2, { preemption: receipt(5) }),
  ];
  const found = receiptsOf(steps, receipt(5, 3)).map(({ at, lost_gpu_seconds }) => [at, lost_gpu_seconds]);
  expect(found).toEqual([
    [at(5), 3],
    [at(1), 7],
  ]);
  expect(receiptsOf([], null)).toEqual([]);
  const again = [...steps, step(6, "failed", 2, { preemption: receipt(5) })];
  again.push(step(7, "queued", 2, { kind: "session.retried" }), step(8, "running", 3));
  expect(receiptsOf(again, null)).toEqual([]);
  expect(receiptsOf(again, receipt(9)).map(({ at }) => at)).toEqual([at(9)]);
});

test("a command as written, or quoted for a shell", () => {
  expect(commandOf(["/bin/sh", "-c", "echo $HOME"])).toBe("echo $HOME");
  const script = "#!/bin/bash\n#SBATCH --gpus=1\npython train.py";
  const bash = ["/bin/bash", "-c", script, "job.sh", "7"];
  expect(commandOf(["/bin/sh", "-c", 'export SLURM_JOB_ID=1; exec "$@"', "slurm-variables", ...bash])).toBe(script);
  expect(commandOf(["/usr/bin/python3", "-c", "#!/usr/bin/env python3\nprint(1)"])).toContain("print(1)");
  expect(commandOf(["python", "-c", "print(1)"])).toBe("python -c 'print(1)'");
  expect(commandOf(["python", "a b.py", "it's", "--n=3"])).toBe(`python 'a b.py' 'it'\\''s' --n=3`);
  const aroundOf = (command: readonly string[]) => aroundText(writtenOf(command).around);
  expect(aroundOf(["/bin/sh", "-c", "echo $HOME"])).toBeNull();
  expect(aroundOf(["python", "a.py"])).toBeNull();
  expect(aroundOf(bash)).toBe("/bin/bash -c … job.sh 7");
  expect(aroundOf(["/bin/sh", "-c", "exec", "slurm-variables", ...bash])).toBe(
    "/bin/bash -c … job.sh 7, with Slurm's variables",
  );
});

test("what a typed script cannot choose by itself", () => {
  expect(shellHint("python train.py")).toBe("Run by /bin/sh -c.");
  expect(shellHint("#!/bin/sh\nmake")).toBe("Run by /bin/sh -c.");
  expect(shellHint("#!/usr/bin/env python3\nimport os")).toMatch(
    /^Run by \/bin\/sh -c, not by \/usr\/bin\/env python3;/,
  );
  expect(shellHint("#!/bin/bash\n#SBATCH --gpus=2\nsrun make")).toMatch(/^#SBATCH lines have no effect here/);
});

test("short requests and ids", () => {
  const slots = [{ slot: "cuda.device", amount: "8" }];
  expect([asked({ cluster_size: 1, slots }), asked({ cluster_size: 2, slots })]).toEqual(["8 GPUs", "2 × (8 GPUs)"]);
  expect(tailOf("ses_01a1fed2-cf8b-73af-85a3-1d07e9b3ca61")).toBe("…b3ca61");
  expect(tailOf("ses_01a1fed2-cf8b-73af-85a3-1d07e9b3ca61_17")).toBe("…b3ca61_17");
});

test("readings are columns, with gaps where a device was absent", () => {
  const readings = new Readings();
  const one = { id: "a", where: "n", utilization_pct: 10, memory_used_bytes: 2 ** 30, power_w: 99 };
  readings.add(1_000, [one]);
  readings.add(2_000, [{ ...one, id: "b", memory_used_bytes: null }, one]);
  readings.add(3_000, []);
  expect(readings.courseOf("utilization").times).toEqual([1, 2, 3]);
  expect([...readings.courseOf("utilization").rows]).toEqual([
    ["n/a", [10, 10, null]],
    ["n/b", [null, 10, null]],
  ]);
  expect([...readings.courseOf("memory_used", 2 ** -30).rows.values()]).toEqual([
    [1, 1, null],
    [null, null, null],
  ]);
});

test("an update counts only if it is newer than the query's result", () => {
  const found = (revision: number) => ({ session: null, revision });
  const [old, same, young] = [found(4), found(5), found(6)];
  const asked = found(5);
  expect([old, same, young].map((told) => newerOf(asked, told))).toEqual([asked, asked, young]);
  expect([newerOf(null, old), newerOf(asked, null), newerOf(null, null)]).toEqual([old, asked, null]);
});

test("a session that a later answer is without is gone, also in a database with lower event numbers", () => {
  const none = { session: null, revision: 1 };
  expect(isGone({ data: none, at: 20 }, 10)).toBe(true);
  expect(isGone({ data: none, at: 5 }, 10)).toBe(false);
  expect(isGone({ data: null, at: null }, 10)).toBe(false);
});

test("an image pull shows its agent, duration and size on the node", () => {
  const pull = { agent_id: "gpu01", began_at: at(10), ended_at: null, size: null };
  const begun = step(10, "allocating", 1, { kind: "session.pulling", pull });
  expect(noteOf(begun)).toBe("pulling the image on gpu01");
  const ended = { ...pull, ended_at: at(75), size: 3 * 2 ** 30 };
  const note = noteOf(step(75, "allocating", 1, { kind: "session.pulled", pull: ended }));
  expect(note).toBe("image pulled on gpu01 in 1 min 5 s, 3 GiB");
});

test("a task's name has its index, and its id leads to its array", () => {
  const array = "ses_01a1fed2-cf8b-73af-85a3-1d07e9b3ca61";
  expect(nameOf({ id: `${array}_17`, name: "sweep" })).toBe("sweep_17");
  expect(nameOf({ id: `${array}_17`, name: null })).toBe("…b3ca61_17");
  expect(nameOf({ id: array, name: "sweep" })).toBe("sweep");
  expect(arrayOf(`${array}_17`)).toBe(array);
  expect(arrayOf(array)).toBe(null);
  expect(shortOf(`${array}_17`)).toBe("e9b3ca61_17");
  expect(shortOf(array)).toBe("e9b3ca61");
});

test("an array is running while one of its tasks is", () => {
  const tasks = (count: number) => ({ active: { count } });
  expect(stateOf({ state: "queued", tasks: tasks(2) })).toBe("running");
  expect(stateOf({ state: "queued", tasks: tasks(0) })).toBe("queued");
  expect(stateOf({ state: "completed", tasks: tasks(0) })).toBe("completed");
  expect(stateOf({ state: "held", tasks: null })).toBe("held");
});

test("a kernel that has not ended on a lost agent says so", () => {
  const devices = [
    { where: "gpu01", isLost: false },
    { where: "gpu02", isLost: true },
  ];
  expect(caveat({ agent_id: "gpu02", ended_at: null }, devices)).toBe("agent lost; its processes may still run");
  expect(caveat({ agent_id: "gpu02", ended_at: "2026-03-01T12:00:00Z" }, devices)).toBe("");
  expect(caveat({ agent_id: "gpu01", ended_at: null }, devices)).toBe("");
});
