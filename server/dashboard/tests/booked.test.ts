import { expect, test } from "vitest";
import { bookedNow, bookedOf, bookedText, type Booking } from "../src/cluster/booked";
import { nodesOf, totalsOf } from "../src/cluster/nodes";
import { agent, device, NOW } from "./cluster";

const at = (hours: number) => new Date(NOW + hours * 3_600_000).toISOString();
const booking = (part: Partial<Booking> = {}): Booking => ({
  id: "res_1",
  kind: "use",
  owner: "leader",
  state: "booked",
  starts_at: at(1),
  ends_at: at(3),
  devices: [{ device_id: "gpu-0" }],
  nodes: [],
  is_active: false,
  ...part,
});
const nodes = nodesOf([agent([device(), device({ id: "gpu-1" })])], NOW);
const active = booking({ id: "res_0", starts_at: at(-1), ends_at: at(1), is_active: true });

test("a device has its current booking, else the next; refused ones do not count", () => {
  const later = booking({ id: "res_2", starts_at: at(4), ends_at: at(5) });
  const refused = booking({ id: "res_3", state: "refused", devices: [{ device_id: "gpu-1" }] });
  const ids = (...bookings: Booking[]) => [...bookedOf(nodes, bookings)].map(([id, one]) => [id, one.id]);
  expect(ids(booking(), active, later, refused)).toEqual([["gpu-0", "res_0"]]);
  expect(ids(later, booking())).toEqual([["gpu-0", "res_1"]]);
});

test("maintenance covers all devices of its nodes", () => {
  const work = booking({ kind: "maintenance", devices: [], nodes: ["host-1"], owner: "root" });
  expect([...bookedOf(nodes, [work]).keys()]).toEqual(["gpu-0", "gpu-1"]);
  expect(bookedText(work, NOW)).toMatch(/^maintenance from \d\d:\d\d \(root\)$/);
  expect(bookedText(active, NOW)).toMatch(/^booked until \d\d:\d\d \(leader\)$/);
});

test("free devices that are booked now are counted separately", () => {
  expect(totalsOf(nodes, bookedNow(bookedOf(nodes, [active])))).toMatchObject({ wholeFree: 2, booked: 1 });
  expect(totalsOf(nodes, bookedNow(bookedOf(nodes, [booking()])))).toMatchObject({ wholeFree: 2, booked: 0 });
});
