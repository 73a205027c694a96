import type { ReactNode } from "react";
import { Segments } from "../parts/Segments";
import { plain } from "../format/amounts";
import type { Grouping, Share } from "./holders";

const SHOWN = 14;

interface Props {
  readonly shares: readonly Share[];
  readonly grouping: Grouping;
  readonly onGrouping: (grouping: Grouping) => void;
  /** Controls beside the grouping. */
  readonly children?: ReactNode;
}

/** The colours of holders, and the devices that each holds. */
export function Legend({ shares, grouping, onGrouping, children }: Props) {
  return (
    <div className="row legend">
      <Segments
        label="Meaning of colours"
        value={grouping}
        onChange={onGrouping}
        options={[
          { id: "user", text: "By user" },
          { id: "session", text: "By session" },
        ]}
      />
      {children}
      <ul className="row" aria-label="Devices held">
        {shares.slice(0, SHOWN).map((share) => (
          <li key={share.key} className={share.colour}>
            <i /> <bdi>{share.label}</bdi> <b>{plain(share.held)}</b>
          </li>
        ))}
        {shares.length > SHOWN ? <li className="quiet">and {shares.length - SHOWN} more</li> : null}
        {shares.length === 0 ? <li className="quiet">No device is held.</li> : null}
      </ul>
    </div>
  );
}
