import { createContext, useContext } from "react";
import { amountOf } from "../format/amounts";
import { colourClass } from "../format/colours";
import { holdersOf, type Holder, type Node } from "./nodes";

/** The meaning of colours. */
export type Grouping = "user" | "session";

export interface Naming {
  readonly grouping: Grouping;
  /** Titles of sessions, by id. */
  readonly names: ReadonlyMap<string, string>;
}

export const NamingContext = createContext<Naming>({ grouping: "user", names: new Map() });

export function useNaming(): Naming {
  return useContext(NamingContext);
}

export function keyOf(holder: Pick<Holder, "user" | "session_id" | "lease_id">, grouping: Grouping): string {
  return grouping === "user" ? holder.user : (holder.session_id ?? holder.lease_id);
}

export function classOf(holder: Holder, grouping: Grouping): string {
  return colourClass(keyOf(holder, grouping));
}

/** The title of a holder: the session's name, else the end of its id, which is the part that differs. */
export function titleOf(holder: Pick<Holder, "kind" | "session_id" | "lease_id">, names: Naming["names"]): string {
  if (holder.kind !== "session") return holder.kind === "manual" ? "external allocation" : "reserved";
  const id = holder.session_id ?? holder.lease_id;
  return names.get(id) ?? `…${id.slice(-6)}`;
}

export interface Share {
  readonly key: string;
  readonly label: string;
  readonly colour: string;
  readonly held: number;
}

/** The amount that each holder has on all nodes, largest first. */
export function sharesOf(nodes: readonly Node[], naming: Naming): Share[] {
  const sums = new Map<string, Share>();
  for (const holder of holdersOf(nodes)) {
    const key = keyOf(holder, naming.grouping);
    const label = naming.grouping === "user" ? holder.user : titleOf(holder, naming.names);
    const held = (sums.get(key)?.held ?? 0) + amountOf(holder.share);
    sums.set(key, { key, label, colour: colourClass(key), held });
  }
  return [...sums.values()].sort((one, other) => other.held - one.held || (one.label < other.label ? -1 : 1));
}

/** By user if there are several; with a single user all parts would have the same colour. */
export function groupingOf(nodes: readonly Node[]): Grouping {
  const users = new Set(holdersOf(nodes).map((holder) => holder.user));
  return users.size > 1 ? "user" : "session";
}
