import { expect, test } from "vitest";
import { moment } from "../src/format/times";
import { fieldsOf, filterOf, labelOf, momentOf, NO_FILTERS, valueOf, type Change } from "../src/admin/audit/filters";

test("empty fields do not filter; a filter for a part of the server includes its changes", () => {
  expect(filterOf(NO_FILTERS)).toEqual({ people_only: true });
  expect(filterOf({ ...NO_FILTERS, subject: " ses_1 ", who: "all" })).toEqual({
    entity_id: "ses_1",
    people_only: false,
  });
  expect(filterOf({ ...NO_FILTERS, actor: "system:reaper" })).toEqual({ actor: "system:reaper", people_only: false });
});

test("a changed record version is not shown", () => {
  const change = { fields: ["priority", "version"].map((name) => ({ name, before: "1", after: "2" })) };
  expect(fieldsOf(change as unknown as Change).map(({ name }) => name)).toEqual(["priority"]);
});

test("a time is typed in the viewer's zone and sent in UTC; empty is now", () => {
  const now = Date.UTC(2026, 4, 2, 12);
  expect(momentOf("", now)).toBe("2026-05-02T12:00:00.000Z");
  expect(momentOf("2026-05-02T12:00")).toBe(new Date(2026, 4, 2, 12).toISOString());
});

test("values are readable", () => {
  expect(labelOf("started_us")).toBe("started");
  expect(valueOf("state", '"running"')).toBe("running");
  expect(valueOf("exit_code", "null")).toBe("none");
  expect(valueOf("retries", "3")).toBe("3");
  expect(valueOf("tags", '{"a":"b"}')).toBe('{"a":"b"}');
  expect(valueOf("command", "hidden")).toBe("hidden");
  expect(valueOf("started_us", "1000000")).toBe(moment(1000));
});
