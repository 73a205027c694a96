import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";
import { Router } from "wouter";
import { numbersOf, squaresOf, type ArrayTasks } from "../src/session/squares";
import { ChosenTask, Squares } from "../src/session/Tasks";

const set = (indices: string) => ({ indices, count: numbersOf(indices, Infinity).length });
const tasks: ArrayTasks = {
  waiting: set("8-9"),
  active: set("7"),
  completed: set("0-1,4"),
  failed: set("2,5"),
  canceled: set("6"),
  max_parallel: 2,
};

test("the squares of an array begin with the tasks that failed", () => {
  expect(squaresOf(tasks).map(({ index, state }) => `${index} ${state}`)).toEqual([
    "2 failed",
    "5 failed",
    "6 canceled",
    "7 active",
    "8 waiting",
    "9 waiting",
    "0 completed",
    "1 completed",
    "4 completed",
  ]);
  expect(squaresOf(tasks, 3).map(({ index }) => index)).toEqual([2, 5, 6]);
  expect(squaresOf({ ...tasks, completed: set("0-99999") })).toHaveLength(2000);
});

test("each square has its state's colour and links to its task, or to the reason why it waits", () => {
  const page = renderToStaticMarkup(
    <Router ssrPath="/sessions/ses_a">
      <Squares array="ses_a" tasks={tasks} />
    </Router>,
  );
  const links = [...page.matchAll(/<a [^>]*>/g)].map(([tag]) => [
    /task-(\w+)"/.exec(tag)?.[1],
    /title="task (\d+):/.exec(tag)?.[1],
    /href="([^"]*)"/.exec(tag)?.[1],
  ]);
  expect(links.slice(0, 4)).toEqual([
    ["failed", "2", "/sessions/ses_a_2"],
    ["failed", "5", "/sessions/ses_a_5"],
    ["canceled", "6", "/sessions/ses_a_6"],
    ["active", "7", "/sessions/ses_a_7"],
  ]);
  expect(links[4]).toEqual(["waiting", "8", "/sessions/ses_a?task=8"]);
  expect(links).toHaveLength(9);
});

test("the page of an array says that the chosen task waits, and why", () => {
  const shown = (search: string) =>
    renderToStaticMarkup(
      <Router ssrPath="/sessions/ses_a" ssrSearch={search}>
        <ChosenTask array="ses_a" tasks={tasks} why="No agent has 4 GPUs free." />
      </Router>,
    );
  expect(shown("task=8")).toContain("Task 8 waits.");
  expect(shown("task=8")).toContain("No agent has 4 GPUs free.");
  expect(shown("task=7")).toContain('href="/sessions/ses_a_7"');
  expect(shown("task=99")).toBe("");
  expect(shown("")).toBe("");
});

test("numbers are parsed from intervals", () => {
  expect(numbersOf("", 9)).toEqual([]);
  expect(numbersOf("0-2,7", 9)).toEqual([0, 1, 2, 7]);
  expect(numbersOf("5-9", 2)).toEqual([5, 6]);
});
