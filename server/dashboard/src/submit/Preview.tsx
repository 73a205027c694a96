import type { Agent } from "../cluster/nodes";
import { pending } from "../api/feed";
import { useObservable } from "../api/observable";
import { fitOf } from "./fit";
import type { Form } from "./form";

/** Where it would go, before it is sent. */
export function Preview({ form, agents }: { readonly form: Form; readonly agents: readonly Agent[] }) {
  const waiting = useObservable(pending) ?? 0;
  const fit = fitOf(form, agents);
  const kernels = fit.asked === 1 ? "It" : `All ${fit.asked} kernels`;
  if (agents.length === 0) return <p className="note">No agent is registered: it would be taken, and wait.</p>;
  if (fit.everFits < fit.asked) {
    return (
      <p className="note bad">
        {fit.asked === 1 ? "No agent could run this" : `At most ${fit.everFits} of ${fit.asked} kernels could run`}, even if
        nobody held anything. It would be refused.
      </p>
    );
  }
  if (fit.now < fit.asked) {
    return (
      <p className="note warn">
        It would wait: there is room for {fit.now} of {fit.asked} {fit.asked === 1 ? "kernel" : "kernels"} now.{" "}
        {waiting ? `${waiting} wait already.` : ""}
      </p>
    );
  }
  return (
    <p className="note good">
      {kernels} would find room now: {fit.places.map(({ agent, kernels: count }) => (fit.asked === 1 ? agent : `${count} on ${agent}`)).join(", ")}.{" "}
      {waiting ? `${waiting} wait; who is next is the policy's to say.` : ""}
    </p>
  );
}
