/**
 * The query for values of placeholders. Sessions that examples change are only those that were submitted for an example
 * by the viewer. Values that are large or for operators only are queried on demand.
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

/** The path to each value in that answer. */
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
  "my notifications": "notice_preferences.notify",
};

/** Submits a session for an example that needs one. */
export const SUBMIT = `mutation ($held: Boolean!, $shell: String!) {
  create_session(
    input: { command: { shell: $shell }, slots: [{ slot: "cpu", amount: "1" }], name: "for-an-example", held: $held }
  ) { __typename }
}`;

/** Sessions that are held, end immediately, or run for five seconds. */
export const SUBMITTED: Readonly<Record<string, { readonly held: boolean; readonly shell: string }>> = {
  "newest session": { held: false, shell: "for i in 1 2 3 4 5; do echo step $i; sleep 1; done" },
  "waiting session": { held: true, shell: "true" },
  "live session": { held: true, shell: "true" },
  "ended session": { held: false, shell: "true" },
};

/** The path to a session that will soon have started or ended. */
export const COMING = "coming.edges.0.node.id";

/** Fallbacks for viewers who may not submit, or whose session waits too long. */
export const OTHERWISE: Readonly<Record<string, string>> = { "newest session": "newest.edges.0.node.id" };
