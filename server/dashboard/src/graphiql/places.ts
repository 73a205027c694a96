/**
 * Where to look for what examples are filled in with, in one answer. Sessions that examples change are such as were
 * submitted for one, by who asks. What is for operators alone, or long, is asked for only where it is wanted.
 */
export const LOOKUP = `query (
  $me: String!, $name: String! = "for-an-example", $gpus: Boolean! = false, $rules: Boolean! = false
) {
  newest: sessions(first: 1) { edges { node { id } } }
  begun: sessions(filter: { owners: [$me], states: [running, completed, failed] }, first: 1) { edges { node { id } } }
  waiting: sessions(filter: { owners: [$me], name: $name, states: [queued, held] }, first: 1) {
    edges { node { id } }
  }
  live: sessions(filter: { owners: [$me], name: $name, states: [queued, held, running] }, first: 1) {
    edges { node { id } }
  }
  coming: sessions(
    filter: { owners: [$me], name: $name, states: [queued, scheduled, allocating, running] }, first: 1
  ) { edges { node { id } } }
  ended: sessions(filter: { owners: [$me], name: $name, states: [completed, failed, canceled] }, first: 1) {
    edges { node { id } }
  }
  agents(first: 1) { edges { node { id pool labels { name value } } } }
  cluster @include(if: $gpus) { gpus { id } }
  policy { version backfill_depth }
  notice_rules @include(if: $rules) { threshold }
  notice_preferences { notify }
}`;

/** The way in that answer to each. */
export const PLACES: Readonly<Record<string, string>> = {
  "newest session": "begun.edges.0.node.id",
  "waiting session": "waiting.edges.0.node.id",
  "live session": "live.edges.0.node.id",
  "ended session": "ended.edges.0.node.id",
  "first agent": "agents.edges.0.node.id",
  "first device": "cluster.gpus.0.id",
  "its labels": "agents.edges.0.node.labels",
  "its pool": "agents.edges.0.node.pool",
  "policy version": "policy.version",
  "backfill depth": "policy.backfill_depth",
  "backlog threshold": "notice_rules.0.threshold",
  "what I am told": "notice_preferences.notify",
};

/** What a session is submitted as where an example needs one and there is none. */
export const SUBMIT = `mutation ($held: Boolean!, $shell: String!) {
  create_session(
    input: { command: { shell: $shell }, slots: [{ slot: "cpu", amount: "1" }], name: "for-an-example", held: $held }
  ) { __typename }
}`;

/** Held back, over at once, or long enough to be looked at. */
export const SUBMITTED: Readonly<Record<string, { readonly held: boolean; readonly shell: string }>> = {
  "newest session": { held: false, shell: "for i in 1 2 3 4 5; do echo step $i; sleep 1; done" },
  "waiting session": { held: true, shell: "true" },
  "live session": { held: true, shell: "true" },
  "ended session": { held: false, shell: "true" },
};

/** Where one is that will have begun, or ended, in a moment. */
export const COMING = "coming.edges.0.node.id";

/** What to look at who has none and may not submit any, or waits with it for too long. */
export const OTHERWISE: Readonly<Record<string, string>> = { "newest session": "newest.edges.0.node.id" };
