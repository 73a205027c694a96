import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { expect, test } from "vitest";

type Imports = ReadonlyMap<string, readonly string[]>;

const SOURCES = join(import.meta.dirname, "../src");

/** The imports between source files, types and lazy imports included. Generated files import no other sources. */
function importsOf(folder: string): Imports {
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) => /\.tsx?$/.test(name));
  return new Map(
    files.map((name) => {
      const text = readFileSync(join(folder, name), "utf8");
      const imported = [...text.matchAll(/\b(?:from|import)\s*\(?\s*"(\.[^"]*)"/g)].map((found) => found[1] ?? "");
      const paths = imported.map((path) => join(folder, dirname(name), path));
      const found = paths.map((path) =>
        [path, `${path}.ts`, `${path}.tsx`].find((one) => /\.tsx?$/.test(one) && existsSync(one)),
      );
      return [name, found.filter((path) => path !== undefined).map((path) => relative(folder, path))];
    }),
  );
}

/** The first cycle, from a file back to itself; null when there is none. */
function cycleIn(imports: Imports): readonly string[] | null {
  const done = new Set<string>();
  const visit = (name: string, way: readonly string[]): readonly string[] | null => {
    if (way.includes(name)) return [...way.slice(way.indexOf(name)), name];
    if (done.has(name)) return null;
    for (const next of imports.get(name) ?? []) {
      const cycle = visit(next, [...way, name]);
      if (cycle) return cycle;
    }
    done.add(name);
    return null;
  };
  for (const name of imports.keys()) {
    const cycle = visit(name, []);
    if (cycle) return cycle;
  }
  return null;
}

test("a cycle is found from any file", () => {
  expect(
    cycleIn(
      new Map([
        ["a", ["b"]],
        ["b", ["c"]],
        ["c", ["b"]],
      ]),
    ),
  ).toEqual(["b", "c", "b"]);
  expect(
    cycleIn(
      new Map([
        ["a", ["b", "c"]],
        ["b", ["c"]],
        ["c", []],
      ]),
    ),
  ).toBeNull();
});

test("the dashboard has no import cycles", () => {
  const imports = importsOf(SOURCES);
  expect(imports.get("main.tsx")).toContain("App.tsx");
  expect(cycleIn(imports)).toBeNull();
});
