import { Button } from "react-aria-components";
import { useObservable } from "../api/observable";
import { notice } from "./notices";

/** What came of the last thing that was done. */
export function NoticeLine() {
  const current = useObservable(notice);
  return (
    <div className="notices" role={current?.tone === "bad" ? "alert" : "status"}>
      {current ? (
        <div className={`note ${current.tone} row`}>
          <span>{current.text}</span>
          <Button className="button plain" aria-label="Put this message away" onPress={() => notice.set(null)}>
            <span aria-hidden="true">✕</span>
          </Button>
        </div>
      ) : null}
    </div>
  );
}
