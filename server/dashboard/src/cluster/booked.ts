import { createContext, useContext } from "react";
import { clockTime } from "../format/times";
import type { BookedQuery } from "../generated/graphql";
import type { Node } from "./nodes";

export type Booking = BookedQuery["reservations"][number];

/** By device, its present booking, else its next one. */
export type Booked = ReadonlyMap<string, Booking>;

export const BookedContext = createContext<Booked>(new Map());

export function useBooked(): Booked {
  return useContext(BookedContext);
}

/** The earliest booking of each device; maintenance closes all devices of its nodes. */
export function bookedOf(nodes: readonly Node[], bookings: readonly Booking[]): Booked {
  const standing = bookings.filter(({ state }) => state === "booked");
  const found = standing.flatMap((booking) => devicesOf(booking, nodes).map((id) => [id, booking] as const));
  const latestFirst = found.sort(([, one], [, other]) => Date.parse(other.starts_at) - Date.parse(one.starts_at));
  return new Map(latestFirst);
}

/** The devices that are booked now. */
export function bookedNow(booked: Booked): Set<string> {
  return new Set([...booked].filter(([, { is_active }]) => is_active).map(([id]) => id));
}

function devicesOf(booking: Booking, nodes: readonly Node[]): string[] {
  if (booking.kind === "use") return booking.devices.map(({ device_id }) => device_id);
  return nodes
    .filter(({ hostname }) => booking.nodes.includes(hostname))
    .flatMap(({ devices }) => devices.map(({ id }) => id));
}

/** `booked from 17:25 (leader)`, `maintenance until 19:00 (root)`. */
export function bookedText({ kind, owner, starts_at, ends_at, is_active }: Booking, now: number): string {
  const when = is_active ? `until ${clockTime(ends_at, now)}` : `from ${clockTime(starts_at, now)}`;
  return `${kind === "maintenance" ? "maintenance" : "booked"} ${when} (${owner})`;
}
