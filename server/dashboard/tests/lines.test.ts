import { expect, test, vi } from "vitest";
import { FOLD, Lines, plainOf, shownOf } from "../src/log/lines";
import { linesOf, next, Search } from "../src/log/search";

const texts = (lines: Lines) => Array.from({ length: lines.count }, (_, index) => lines.at(index).text);

test("pieces that end anywhere make whole lines", () => {
  const lines = new Lines();
  for (const piece of ["on", "e\ntw", "o\n\nth", "ree"]) lines.append(piece);
  expect(texts(lines)).toEqual(["one", "two", "", "three"]);
});

test("a progress bar shows its last state, and Windows' line ends are ends", () => {
  const lines = new Lines();
  lines.append("10 %\r50 %\r");
  lines.append("100 %\nnext\r\n");
  expect(texts(lines)).toEqual(["100 %", "next"]);
});

test("the oldest lines are forgotten, and the rest keep their numbers", () => {
  const lines = new Lines(100);
  for (let number = 0; number < 30_000; number += 1) lines.append(`line ${number}\n`);
  expect([lines.count, lines.first, lines.at(0).text]).toEqual([100, 29_900, "line 29900"]);
});

test("so are the oldest of a few very long ones", () => {
  const lines = new Lines(1000, 250);
  for (let number = 0; number < 10; number += 1) lines.append(`${"x".repeat(99)}${number}\n`);
  expect([lines.count, lines.first]).toEqual([2, 8]);
});

test("a line without end is cut, so that it cannot grow for ever", () => {
  const lines = new Lines();
  for (let piece = 0; piece < 5; piece += 1) lines.append("x".repeat(60_000));
  expect(lines.count).toBeGreaterThan(1);
});

test("a colour goes on over the ends of lines, until it is reset", () => {
  const lines = new Lines();
  lines.append("\u001b[31mred\nstill red\u001b[0m\nplain\n");
  expect([0, 1, 2].map((index) => lines.at(index).opening)).toEqual(["", "\u001b[31m", ""]);
});

test("what moves the cursor or sets a title is left out", () => {
  expect(shownOf("\u001b[2K\u001b]0;title\u0007\u001b[1;32mok\u001b[0m\u001b[?25l")).toBe("\u001b[1;32mok\u001b[0m");
  expect(plainOf({ opening: "", text: "\u001b[1;32mok\u001b[0m!" })).toBe("ok!");
});

test("a search counts from the log's beginning and goes round", () => {
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

test("a search looks once at each line that has ended, while a million of them come", { timeout: 30_000 }, () => {
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

test("a fold is not within a colour or a character, and the colour goes on after it", () => {
  const lines = new Lines();
  const [red, face] = ["\u001b[31m", "\u{1f600}"];
  lines.append(`${"x".repeat(FOLD - 2)}${red}${"y".repeat(FOLD - 6)}${face}z\n`);
  expect(texts(lines).map((text) => text.length)).toEqual([FOLD - 2, FOLD - 1, 3]);
  expect([lines.at(1).text.startsWith(red), lines.at(2).opening, lines.at(2).text]).toEqual([true, red, `${face}z`]);
});

test("nor within a title or a link, however long; one that has no room in a row is cut", () => {
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

test("what lies across a fold is found, in the row where it ends", () => {
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

test("what is forgotten is no part of what is found", () => {
  const lines = new Lines(1);
  const search = new Search(lines, "needle");
  lines.append(`${"x".repeat(FOLD - 3)}nee\n`);
  search.found();
  lines.append(`${"x".repeat(FOLD - 3)}needle\n`);
  expect([lines.first, search.found()]).toEqual([2, []]);
});

test("a progress bar that never ends its line is not kept whole, and hands its colour on", () => {
  const lines = new Lines();
  for (let number = 0; number < 10_000; number += 1) lines.append(`\u001b[32m${number} %\r`);
  expect(texts(lines)).toEqual(["\u001b[32m9999 %"]);
  lines.append("done");
  expect([texts(lines), lines.at(0).opening]).toEqual([["done"], "\u001b[32m"]);
});

test("a search that is done in parts finds the same", () => {
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
