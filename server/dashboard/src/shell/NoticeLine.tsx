import { Button } from "react-aria-components";
import { useLive } from "../api/live";
import { useObservable } from "../api/observable";
import { notice } from "../parts/notices";
import { idsIn, WithLinks } from "../queue/WithLinks";
import { learnNames } from "../session/names";

/** The outcome of the last action; also read aloud and dismissed over an open dialogue. */
export function NoticeLine() {
  const current = useObservable(notice);
  const ids = idsIn(current?.text ?? "");
  useLive(async () => {
    await learnNames(ids);
    return ids;
  }, `names/${ids.join()}`);
  return (
    <div className="notices" role={current?.tone === "bad" ? "alert" : "status"} data-react-aria-top-layer>
      {current ? (
        <div className={`note ${current.tone} row`}>
          <span>
            <WithLinks text={current.text} />
          </span>
          <Button className="button plain" aria-label="Dismiss this message" onPress={() => notice.set(null)}>
            <span aria-hidden="true">✕</span>
          </Button>
        </div>
      ) : null}
    </div>
  );
}
