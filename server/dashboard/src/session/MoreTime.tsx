import { useState } from "react";
import { Button } from "react-aria-components";
import { extend } from "./actions";

const TIMES = { "+30 min": 1800, "+1 h": 3600, "+2 h": 7200, "+4 h": 14400, "+8 h": 28800 } as const;

/** Adds time to a running session's limit. The answer names the sessions that would start later for it. */
export function MoreTime({ id, onDone }: { readonly id: string; readonly onDone: () => void }) {
  const [time, setTime] = useState<keyof typeof TIMES>("+1 h");
  const act = async () => {
    if (await extend(id, TIMES[time])) onDone();
  };
  return (
    <span className="row">
      <select
        className="pick"
        aria-label="Time to add"
        value={time}
        onChange={(event) => setTime(event.target.value as keyof typeof TIMES)}
      >
        {Object.keys(TIMES).map((words) => (
          <option key={words}>{words}</option>
        ))}
      </select>
      <Button className="button" onPress={() => void act()}>
        Extend
      </Button>
    </span>
  );
}
