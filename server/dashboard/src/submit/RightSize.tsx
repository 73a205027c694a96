import type { RightSizePartsFragment } from "../generated/graphql";

/** The usage of a command's last runs, where a request could ask for less. */
export function RightSize({ of: found }: { readonly of: RightSizePartsFragment | null }) {
  if (!found?.figures.length) return null;
  return (
    <section aria-label="Right size">
      <p className="small">
        <b>Right size of {found.command}</b>, from its last {found.runs} runs:
      </p>
      <ul className="small">
        {found.figures.map((figure) => (
          <li key={figure.kind}>{figure.message}</li>
        ))}
      </ul>
    </section>
  );
}
