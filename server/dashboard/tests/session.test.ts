import { expect, test } from "vitest";
import { newerOf } from "../src/session/found";
import { phasesOf } from "../src/session/phases";
import { commandOf } from "../src/session/Request";
import { Readings } from "../src/session/samples";
import { asked, tailOf } from "../src/session/standing";

const at = (second: number) => new Date(second * 1000).toISOString();
const moments = { queued_at: at(0), scheduled_at: null, started_at: null, ended_at: null };

test("the time of a session, phase by phase", () => {
  expect(phasesOf(moments, 5_000)).toEqual([{ name: "waits", ms: 5_000 }]);
  expect(phasesOf({ ...moments, ended_at: at(3) }, 9_000)).toEqual([{ name: "waited", ms: 3_000 }]);
  expect(phasesOf({ ...moments, scheduled_at: at(1), started_at: at(2) }, 9_000)).toEqual([
    { name: "waited", ms: 1_000 },
    { name: "started up", ms: 1_000 },
    { name: "runs", ms: 7_000 },
  ]);
  const over = phasesOf({ queued_at: at(0), scheduled_at: at(1), started_at: null, ended_at: at(4) }, 9_000);
  expect(over).toEqual([
    { name: "waited", ms: 1_000 },
    { name: "started up", ms: 3_000 },
  ]);
});

test("a command as it was written, or as a shell would take it", () => {
  expect(commandOf(["/bin/sh", "-c", "echo $HOME"])).toBe("echo $HOME");
  expect(commandOf(["python", "a b.py", "it's", "--n=3"])).toBe(`python 'a b.py' 'it'\\''s' --n=3`);
});

test("sizes and ids in short", () => {
  const slots = [{ slot: "cuda.device", amount: "8" }];
  expect([asked({ cluster_size: 1, slots }), asked({ cluster_size: 2, slots })]).toEqual([
    "8 cuda.device",
    "2 × (8 cuda.device)",
  ]);
  expect(tailOf("ses_01a1fed2-cf8b-73af-85a3-1d07e9b3ca61")).toBe("…b3ca61");
  expect(tailOf("ses_01a1fed2-cf8b-73af-85a3-1d07e9b3ca61_17")).toBe("…b3ca61_17");
});

test("readings stand in columns, with gaps where a device was not there", () => {
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

test("what was told counts only where it is newer than what was asked for", () => {
  const found = (revision: number) => ({ session: null, revision });
  const [old, same, young] = [found(4), found(5), found(6)];
  const asked = found(5);
  expect([old, same, young].map((told) => newerOf(asked, told))).toEqual([asked, asked, young]);
  expect([newerOf(null, old), newerOf(asked, null), newerOf(null, null)]).toEqual([old, asked, null]);
});
