import { expect, test } from "vitest";
import { fileValue, nameWrong, NO_VALUE, pastedValue, valueWrong } from "../src/admin/access/secrets";
import { isUsed, notStored, toggled } from "../src/submit/secrets";

test.each(["HUB_TOKEN", "hf.token-2", "_", "a".repeat(64)])("%s names a secret", (name) =>
  expect(nameWrong(name)).toBeUndefined(),
);

test.each(["1st", ".hidden", "two words", "clé", "a".repeat(65)])("%s does not name a secret", (name) =>
  expect(nameWrong(name)).toMatch(/^Write 1 to 64 letters/),
);

test("the limit of a value is in bytes, and messages do not contain it", () => {
  const value = (text: string) => ({ text, source: null });
  expect(valueWrong(NO_VALUE)).toBeUndefined();
  expect(valueWrong(value("a".repeat(32_768)))).toBeUndefined();
  expect(valueWrong(value("é".repeat(16_385)))).toBe("It has 32770 bytes; the limit is 32768.");
  expect(valueWrong(value("hunter2\0"))).toMatch(/^It contains a NUL character/);
  expect(valueWrong({ text: "", source: "empty.txt" })).toBe("It is empty.");
});

test("a pasted text of several lines is not joined to one", () => {
  expect(pastedValue("hunter2")).toBeNull();
  expect(pastedValue("hunter2\r\n")).toBeNull();
  expect(pastedValue("-----BEGIN KEY-----\r\nAA==\r\n-----END KEY-----\r\n")).toEqual({
    text: "-----BEGIN KEY-----\nAA==\n-----END KEY-----\n",
    source: "3 pasted lines",
  });
});

test("the text of a file is unchanged, and a file that is not text has none", () => {
  expect(fileValue("auth.json", new TextEncoder().encode("\ufeffa\r\n"))).toEqual({
    text: "\ufeffa\r\n",
    source: "auth.json",
  });
  expect(fileValue("key.der", Uint8Array.of(0x30, 0x82))).toBeNull();
});

test("a stored secret is added to the form by its name, and removed", () => {
  expect(toggled("", "HUB_TOKEN")).toBe("HUB_TOKEN");
  expect(toggled("HUB_TOKEN", "hf.token-2")).toBe("HUB_TOKEN\nhf.token-2=HF_TOKEN_2");
  expect(isUsed("a\nhub=file:token", "hub")).toBe(true);
  expect(isUsed("hubs=HUB", "hub")).toBe(false);
  expect(toggled("a\nhub=file:token\n hub = B", "hub")).toBe("a");
});

test("the form names the first secret that is not stored", () => {
  expect(notStored("a\nb=B\nc=file:f", ["a", "b", "c"])).toBeUndefined();
  expect(notStored("a\nb=B\nc=file:f", ["a"])).toBe("You have no secret b. Store it first, or correct the name.");
  expect(notStored("not a line", [])).toBeUndefined();
});
