import { Link } from "wouter";
import { change } from "../api/client";
import { quantity } from "../format/amounts";
import { dayTime } from "../format/times";
import { GiveBackReservationDocument } from "../generated/graphql";
import { useIdentity } from "../identity/me";
import { mayChange, mayOperate } from "../identity/rights";
import { ConfirmButton } from "../parts/ConfirmButton";
import { Dialogue } from "../parts/Dialogue";
import { useIsShown } from "../parts/shown";
import { carryOut } from "../session/actions";
import { EMPTY } from "../submit/form";
import { addressOf } from "../submit/templates";
import type { Entry } from "./entries";

/** One booking or running session, and what its owner may do with it. */
export function EntryDialogue({ entry, onClose }: { readonly entry: Entry; readonly onClose: () => void }) {
  const me = useIdentity();
  const isShown = useIsShown();
  const { booking, session } = entry;
  const isMine = booking !== null && (booking.owner === me?.name || mayOperate(me));
  const giveBack = async (name: string, series: boolean) => {
    const act = async () => (await change(GiveBackReservationDocument, { name, series })).give_back_reservation;
    const one = booking?.is_active ? "Given back." : "The booking is canceled.";
    const isDone = await carryOut(series ? "This booking and the later ones are canceled." : one, act);
    if (isDone && isShown()) onClose();
  };
  return (
    <Dialogue
      title={entry.title}
      isOpen
      onClose={onClose}
      actions={
        booking !== null && isMine ? (
          <>
            {booking.series === null ? null : (
              <ConfirmButton
                text="Cancel it and later ones …"
                question={`Cancel ${entry.title} and all later ones?`}
                yes="Cancel them"
                no="Keep them"
                act={() => giveBack(booking.id, true)}
              >
                Others can book and use their GPUs. Sessions in this one go on as ordinary ones.
              </ConfirmButton>
            )}
            <ConfirmButton
              text={booking.is_active ? "Give back …" : "Cancel the booking …"}
              question={`${booking.is_active ? "Give back" : "Cancel"} ${entry.title}?`}
              yes={booking.is_active ? "Give it back" : "Cancel the booking"}
              no="Keep it"
              act={() => giveBack(booking.id, false)}
            >
              Others can book and use its GPUs. Sessions in it go on as ordinary ones.
            </ConfirmButton>
          </>
        ) : null
      }
    >
      <p>
        {entry.owner}, {quantity("cuda.device", String(entry.gpus))}
        {entry.nodes.length ? ` on ${entry.nodes.join(", ")}` : ""}
      </p>
      <p>
        {dayTime(entry.fromMs)} to {dayTime(entry.toMs)}
      </p>
      {booking?.series ? <p>It is one of the repeated booking {booking.series}.</p> : null}
      {booking?.kind === "use" && mayChange(me, booking) ? (
        <Link href={addressOf({ ...EMPTY, booking: booking.id })}>Submit a session into it</Link>
      ) : null}
      {session ? <Link href={`/sessions/${session.id}`}>To the session</Link> : null}
    </Dialogue>
  );
}
