import { Button } from "react-aria-components";
import { useObservable } from "../api/observable";
import { notice } from "./notices";

/** The outcome of the last action; also read aloud and dismissed over an open dialogue. */
export function NoticeLine() {
  const current = useObservable(notice);
  return (
    <div className="notices" role={current?.tone === "bad" ? "alert" : "status"} data-react-aria-top-layer>
      {current ? (
        <div className={`note ${current.tone} row`}>
          <span>{current.text}</span>
          <Button className="button plain" aria-label="Dismiss this message" onPress={() => notice.set(null)}>
            <span aria-hidden="true">✕</span>
          </Button>
        </div>
      ) : null}
    </div>
  );
}
