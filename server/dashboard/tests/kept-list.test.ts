import { afterEach, expect, test, vi } from "vitest";
import { EMPTY } from "../src/submit/form";

/** The storage that the tabs of a browser share. */
function storage(entries: Record<string, string> = {}): Map<string, string> {
  const kept = new Map(Object.entries(entries));
  vi.stubGlobal("localStorage", {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, value: string) => kept.set(key, value),
  });
  return kept;
}

/** A module as another tab has it. */
async function another<T>(load: () => Promise<T>): Promise<T> {
  vi.resetModules();
  return load();
}

afterEach(() => vi.unstubAllGlobals());

test("what two tabs save is kept by both", async () => {
  const kept = storage();
  const views = () => import("../src/queue/views");
  const [one, other] = [await another(views), await another(views)];
  one.saveView({ name: "a", search: "owner=ada" });
  other.saveView({ name: "b", search: "owner=bob" });
  expect(other.savedViews.get().map(({ name }) => name)).toEqual(["a", "b"]);
  other.dropView("a");
  one.saveView({ name: "c", search: "" });
  expect(JSON.parse(kept.get("aliquot:views") ?? "").map(({ name }: { name: string }) => name)).toEqual(["b", "c"]);
});

test("a template with a list, like the interpreter of a script, is still there after a reload", async () => {
  storage();
  const load = () => import("../src/submit/templates");
  const form = { ...EMPTY, command: "#!/bin/bash\ntrue", around: ["/bin/bash", "-c"] };
  (await another(load)).saveTemplate("script", form);
  const [found] = (await another(load)).templates.get();
  expect(found).toEqual({ name: "script", fields: { command: form.command, around: form.around } });
});
