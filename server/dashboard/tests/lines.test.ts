import { expect, test, vi } from "vitest";
import { FOLD, Lines, plainOf, shownOf } from "../src/log/lines";
import { linesOf, next, Search } from "../src/log/search";

const texts = (lines: Lines) => Array.from({ length: lines.count }, (_, index) => lines.at(index).text);

test("pieces cut anywhere form whole lines", () => {
  const lines = new Lines();
  for (const piece of ["on", "e\ntw", "o\n\nth", "ree"]) lines.append(piece);
  expect(texts(lines)).toEqual(["one", "two", "", "three"]);
});

test("a progress bar shows its last state, and CRLF ends a line", () => {
  const lines = new Lines();
  lines.append("10 %\r50 %\r");
  lines.append("100 %\nnext\r\n");
  expect(texts(lines)).toEqual(["100 %", "next"]);
});

test("the oldest lines are dropped, and the rest keep their numbers", () => {
  const lines = new Lines(100);
  for (let number = 0; number < 30_000; number += 1) lines.append(`line ${number}\n`);
  expect([lines.count, lines.first, lines.at(0).text]).toEqual([100, 29_900, "line 29900"]);
});

test("the oldest very long lines are dropped", () => {
  const lines = new Lines(1000, 250);
  for (let number = 0; number < 10; number += 1) lines.append(`${"x".repeat(99)}${number}\n`);
  expect([lines.count, lines.first]).toEqual([2, 8]);
});

test("an endless line is cut, so that it cannot grow for ever", () => {
  const lines = new Lines();
  for (let piece = 0; piece < 5; piece += 1) lines.append("x".repeat(60_000));
  expect(lines.count).toBeGreaterThan(1);
});

test("a colour continues over line ends until it is reset", () => {
  const lines = new Lines();
  lines.append("\u001b[31mred\nstill red\u001b[0m\nplain\n");
  expect([0, 1, 2].map((index) => lines.at(index).opening)).toEqual(["", "\u001b[31m", ""]);
});

test("escape codes for the cursor and title are removed", () => {
  expect(shownOf("\u001b[2K\u001b]0;title\u0007\u001b[1;32mok\u001b[0m\u001b[?25l")).toBe("\u001b[1;32mok\u001b[0m");
  expect(plainOf({ opening: "", text: "\u001b[1;32mok\u001b[0m!" })).toBe("ok!");
});

test("a search counts from the log's beginning and wraps around", () => {
  const lines = new Lines(3);
  lines.append("Error 1\nfine\n\u001b[31merr\u001b[0mor 2\nerror 3\n");
  const hits = new Search(lines, "error").found();
  expect(hits).toEqual([2, 3]);
  expect([next(hits, -1, 1), next(hits, 2, 1), next(hits, 3, 1), next(hits, 2, -1), next([], 0, 1)]).toEqual([
    2,
    3,
    2,
    3,
    null,
  ]);
});

test("a search examines each complete line once while a million arrive", { timeout: 30_000 }, () => {
  const lines = new Lines(1_000);
  const search = new Search(lines, "7");
  const looks = vi.spyOn(lines, "at");
  const piece = Array.from({ length: 1_000 }, (_, number) => `line ${number}\n`).join("");
  for (let round = 0; round < 1_000; round += 1) {
    lines.append(piece);
    search.found();
    search.found();
  }
  expect(looks).toHaveBeenCalledTimes(1_000_000);
  expect(search.found()).toEqual(new Search(lines, "7").found());
  lines.append("8");
  expect(search.found()).not.toContain(1_000_000);
  lines.append("7");
  expect(search.found()).toContain(1_000_000);
});

test("a very long line is folded, ended or not, and keeps its number", () => {
  const pieces = ["a".repeat(FOLD), "b".repeat(FOLD), "c"];
  const rows = [[0, false, "before"], ...pieces.map((text, index) => [1, index > 0, text]), [2, false, "after"]];
  const whole = new Lines();
  whole.append(`before\n${pieces.join("")}\nafter\n`);
  const slow = new Lines();
  for (const piece of ["before\n", ...pieces, "\nafter\n"]) slow.append(piece);
  for (const lines of [whole, slow]) {
    const found = texts(lines).map((text, index) => [lines.at(index).number, lines.at(index).isRest, text]);
    expect(found).toEqual(rows);
  }
  const endless = new Lines();
  for (let number = 0; number < 3 * FOLD; number += 1) endless.append("xy");
  expect(texts(endless).every((text) => text.length <= FOLD)).toBe(true);
  expect(texts(endless).join("")).toHaveLength(6 * FOLD);
});

test("a fold never splits a colour code or character, and the colour continues", () => {
  const lines = new Lines();
  const [red, face] = ["\u001b[31m", "\u{1f600}"];
  lines.append(`${"x".repeat(FOLD - 2)}${red}${"y".repeat(FOLD - 6)}${face}z\n`);
  expect(texts(lines).map((text) => text.length)).toEqual([FOLD - 2, FOLD - 1, 3]);
  expect([lines.at(1).text.startsWith(red), lines.at(2).opening, lines.at(2).text]).toEqual([true, red, `${face}z`]);
});

test("a fold never splits a title or link unless it is longer than a row", () => {
  for (const end of ["\u0007", "\u001b\\"]) {
    const title = `\u001b]0;${"title ".repeat(50)}${end}`;
    for (let before = FOLD - title.length; before <= FOLD; before += 1) {
      const lines = new Lines();
      lines.append(`${"x".repeat(before)}${title}${"y".repeat(FOLD)}\n`);
      expect(texts(lines).join("")).toBe("x".repeat(before) + "y".repeat(FOLD));
    }
  }
  const endless = new Lines();
  endless.append(`x\u001b]0;${"title ".repeat(FOLD)}`);
  expect(texts(endless).every((text) => text.length <= FOLD)).toBe(true);
});

test("text across a fold is found in the row where it ends", () => {
  const lines = new Lines();
  lines.append(`${"x".repeat(FOLD - 2)}\u001b[31mNeedle${"y".repeat(FOLD)}\n${"x".repeat(FOLD - 3)}nee\ndle\n`);
  lines.append(`${"x".repeat(FOLD - 3)}needle`);
  expect(texts(lines).map((text) => text.length)).toEqual([FOLD - 2, FOLD, 11, FOLD, 3, FOLD, 3]);
  const found = (text: string) => new Search(lines, text).found();
  expect([found("needle"), found("xxneedle"), found("x"), found("e")]).toEqual([
    [1, 6],
    [1, 6],
    [0, 3, 5],
    [1, 3, 4, 5, 6],
  ]);
  expect(found("y".repeat(FOLD))).toEqual([2]);
  expect([linesOf([0, 3, 5], lines), linesOf([1, 2, 4, 5, 6], lines), linesOf([], lines)]).toEqual([
    [1, 2, 3],
    [1, 1, 2, 3, 3],
    [],
  ]);
});

test("dropped lines are no part of a hit", () => {
  const lines = new Lines(1);
  const search = new Search(lines, "needle");
  lines.append(`${"x".repeat(FOLD - 3)}nee\n`);
  search.found();
  lines.append(`${"x".repeat(FOLD - 3)}needle\n`);
  expect([lines.first, search.found()]).toEqual([2, []]);
});

test("an endless progress bar keeps only its last state and its colour", () => {
  const lines = new Lines();
  for (let number = 0; number < 10_000; number += 1) lines.append(`\u001b[32m${number} %\r`);
  expect(texts(lines)).toEqual(["\u001b[32m9999 %"]);
  lines.append("done");
  expect([texts(lines), lines.at(0).opening]).toEqual([["done"], "\u001b[32m"]);
});

test("a search in parts finds the same", () => {
  const lines = new Lines();
  for (let number = 0; number < 100; number += 1) lines.append(`line ${number}\n`);
  lines.append("7 is not ended");
  const search = new Search(lines, "7");
  let parts = 0;
  do {
    search.found(50);
    parts += 1;
  } while (!search.isDone);
  expect(parts).toBeGreaterThan(5);
  expect(search.found()).toEqual(new Search(lines, "7").found());
});
