import { Link } from "wouter";
import { words } from "../format/words";
import type { WaitsFragment } from "../generated/graphql";
import { titleOf } from "../session/names";
import { WithLinks } from "./WithLinks";

const SHOWN = 3;

/** The reason why a session waits, with its evidence. */
export function Because({ session }: { readonly session: WaitsFragment }) {
  const verdict = session.waits;
  if (!verdict) return <span className="quiet">not considered yet</span>;
  const evidence = [verdict.fits_kernels === null ? "" : `${verdict.fits_kernels} of its kernels would fit`].filter(
    Boolean,
  );
  const others = verdict.blocked_by.filter((id) => !verdict.message.includes(id));
  return (
    <div className="because" key={verdict.reason}>
      <span className="badge fill-warn">{words(verdict.reason)}</span>{" "}
      <a className="help" href="/docs/reference/glossary.html#reasons" title="What the reasons mean">
        ?<span className="hidden"> what the reasons mean</span>
      </a>{" "}
      <WithLinks text={verdict.message} />
      {evidence.length || others.length ? (
        <div className="quiet small">
          {evidence.join(" · ")}
          {others.length ? `${evidence.length ? " · " : ""}also blocked by: ` : ""}
          {others.slice(0, SHOWN).map((id, index) => (
            <span key={id}>
              {index ? ", " : ""}
              <Link href={`/sessions/${id}`}>{titleOf(id)}</Link>
            </span>
          ))}
          {others.length > SHOWN ? ` and ${others.length - SHOWN} more` : ""}
        </div>
      ) : null}
    </div>
  );
}
