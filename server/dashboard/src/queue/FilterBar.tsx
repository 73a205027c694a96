import { useState } from "react";
import { Button, Input, TextField } from "react-aria-components";
import { words } from "../format/words";
import { useIdentity } from "../identity/me";
import { Choice } from "../parts/Choice";
import { PRIORITIES } from "../session/actions";
import { titleOf } from "../session/names";
import { SORTS, STATES, type Place } from "./address";
import { ANY, NO_FILTERS, reasonsOf, type Filters } from "./filters";
import type { Entry } from "./loading";

interface Props {
  readonly place: Place;
  /** The rows that are loaded: their owners and projects are offered. */
  readonly entries: readonly Entry[];
  readonly go: (part: Partial<Place>) => void;
  readonly filter: (part: Partial<Filters>, isTyped?: boolean) => void;
}

/** The useful orders of each view; the first is the default. */
const SORTS_OF = {
  waiting: ["priority_desc", "priority_asc", "oldest", "newest", "gpus_desc", "gpus_asc", "name_asc"],
  active: ["newest", "oldest", "started_desc", "started_asc", "gpus_desc", "gpus_asc", "name_asc"],
  ended: ["newest", "oldest", "ended_desc", "ended_asc", "gpus_desc", "gpus_asc", "name_asc"],
} as const;

/** Filters by field, and the order. On a narrow screen they are folded. */
export function FilterBar({ place, entries, go, filter }: Props) {
  const me = useIdentity();
  const [isOpen, setOpen] = useState(false);
  const { view, state, filters, sort } = place;
  const rows = entries.map(({ session }) => session);
  const owners = distinct([filters.owner, me?.name ?? "", ...rows.map(({ owner }) => owner)]);
  const projects = distinct([filters.project, ...(me?.projects ?? []), ...rows.map(({ project }) => project)]);
  const count = countOf(place);
  const order = sort || (view === "waiting" ? ANY : "newest");
  const orders = distinct([...(view === "waiting" ? [ANY] : []), ...SORTS_OF[view], order]);
  return (
    <>
      <Button className="button filters-toggle" aria-expanded={isOpen} onPress={() => setOpen(!isOpen)}>
        Filters{count ? ` (${count})` : ""} <span aria-hidden="true">{isOpen ? "▴" : "▾"}</span>
      </Button>
      <div className={`row filters ${isOpen ? "open" : ""}`} role="group" aria-label="Filters">
        <Choice
          label="Owner"
          isBare
          value={filters.owner || ANY}
          options={[ANY, ...owners].map((id) => ({
            id,
            text: id === ANY ? "any owner" : id === me?.name ? `${id} (me)` : id,
          }))}
          onChange={(owner) => filter({ owner: owner === ANY ? "" : owner })}
        />
        <Choice
          label="Project"
          isBare
          value={filters.project || ANY}
          options={[ANY, ...projects].map((id) => ({ id, text: id === ANY ? "any project" : id }))}
          onChange={(project) => filter({ project: project === ANY ? "" : project })}
        />
        <TextField
          className="field tag-filter"
          aria-label="Tag: a name, or name=value"
          value={filters.tag}
          onChange={(tag) => filter({ tag }, true)}
        >
          <Input placeholder="tag or tag=value" autoComplete="off" />
        </TextField>
        <Choice
          label="State"
          isBare
          value={state}
          options={[ANY, ...STATES[view]].map((id) => ({ id, text: id === ANY ? "any state" : id }))}
          onChange={(next) => go({ state: next as Place["state"] })}
        />
        {view === "waiting" ? (
          <Choice
            label="Reason"
            isBare
            value={filters.reason}
            options={distinct([ANY, filters.reason, ...reasonsOf(entries)]).map((id) => ({
              id,
              text: id === ANY ? "any reason" : words(id),
            }))}
            onChange={(reason) => filter({ reason })}
          />
        ) : null}
        <Choice
          label="Priority"
          isBare
          value={filters.priority}
          options={[ANY, ...PRIORITIES].map((id) => ({ id, text: id === ANY ? "any priority" : id }))}
          onChange={(priority) => filter({ priority })}
        />
        <Choice
          label="Order"
          isBare
          value={order}
          options={orders.map((id) => ({ id, text: id === ANY ? "in queue order" : SORTS[id as keyof typeof SORTS] }))}
          onChange={(next) =>
            go({ sort: next === ANY || (view !== "waiting" && next === "newest") ? "" : (next as Place["sort"]) })
          }
        />
        {filters.array ? (
          <Button className="button" onPress={() => filter({ array: "" })}>
            tasks of {titleOf(filters.array)} <span aria-hidden="true">✕</span>
            <span className="hidden"> remove this filter</span>
          </Button>
        ) : null}
        {count ? (
          <Button className="button plain" onPress={() => go({ state: ANY, filters: NO_FILTERS })}>
            Clear
          </Button>
        ) : null}
      </div>
    </>
  );
}

function countOf({ state, filters }: Place): number {
  const names = Object.keys(NO_FILTERS) as (keyof Filters)[];
  return names.filter((name) => filters[name] !== NO_FILTERS[name]).length + (state === ANY ? 0 : 1);
}

function distinct<T extends string>(values: readonly T[]): T[] {
  return [...new Set(values)].filter(Boolean);
}
