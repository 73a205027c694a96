import type { Live } from "../api/live";

/** The error of a failed request, or a note that data are being loaded. */
export function Faults({ of }: { readonly of: Pick<Live<unknown>, "fault" | "data"> }) {
  if (of.fault?.kind === "refused") {
    return (
      <p role="alert" className="note bad">
        {of.fault.message}
      </p>
    );
  }
  if (of.data === null) {
    return <p className="quiet">{of.fault ? `${of.fault.message} Trying again …` : "Loading …"}</p>;
  }
  return null;
}
