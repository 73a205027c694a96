import { Button } from "react-aria-components";
import { ask } from "../api/client";
import { useLive } from "../api/live";
import { moment } from "../format/times";
import { SessionIdleDocument } from "../generated/graphql";
import { useIdentity } from "../identity/me";
import { mayChange } from "../identity/rights";
import { giveBack, keep } from "./actions";
import type { Session } from "./loading";

const EVERY_MS = 15_000;

interface Props {
  readonly session: Session;
  readonly refresh: () => void;
}

/** Notice that a running session leaves its GPUs idle, with its owner's two answers; and whose GPUs it got. */
export function IdleNotice({ session, refresh }: Props) {
  const me = useIdentity();
  const live = useLive(() => load(session.id), `idle/${session.id}/${session.state}`, { everyMs: EVERY_MS });
  const found = live.data;
  if (!found) return null;
  const { idle, room_made: roomMade } = found;
  const act = (deed: Promise<boolean>) =>
    void deed.then(() => {
      live.refresh();
      refresh();
    });
  return (
    <>
      {roomMade ? <p className="note">{roomMade}</p> : null}
      {idle ? (
        <section className="note warn row" aria-label="Unused GPUs">
          <span>
            {idle.message}
            {idle.acts_at ? ` Not before ${moment(idle.acts_at)}.` : ""}
          </span>
          {mayChange(me, session) ? (
            <span className="end row">
              {idle.step && idle.step !== "kept" ? (
                <Button className="button" onPress={() => act(keep(session.id))}>
                  Still needed
                </Button>
              ) : null}
              <Button className="button danger" onPress={() => act(giveBack(session.id))}>
                Give back
              </Button>
            </span>
          ) : null}
        </section>
      ) : null}
    </>
  );
}

async function load(id: string) {
  return (await ask(SessionIdleDocument, { id })).session;
}
