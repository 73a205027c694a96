import { Empty } from "../parts/Empty";

export function NoAgents() {
  return (
    <Empty title="No agent is registered">
      <p>An agent owns the devices of a node and runs sessions there. Start one on every node with GPUs:</p>
      <pre>aliquot agent --server {location.origin} --id NAME</pre>
      <p>To try it without GPUs, start the server with --demo. Sessions can be submitted already; they wait.</p>
    </Empty>
  );
}
