import { ConfirmButton } from "../parts/ConfirmButton";
import { cancel } from "./actions";
import { nameOf } from "./standing";

interface Props {
  readonly session: { readonly id: string; readonly name: string | null; readonly holds_devices: boolean };
  readonly onDone: () => void;
  readonly isPlain?: boolean;
}

/** Cancels a session, after a confirmation. */
export function CancelButton({ session, onDone, isPlain = false }: Props) {
  const name = nameOf(session);
  const act = async () => {
    if (await cancel(session.id)) onDone();
  };
  return (
    <ConfirmButton
      text="Cancel"
      label={`Cancel ${name}`}
      isPlain={isPlain}
      question={`Cancel ${name}?`}
      yes="Cancel the session"
      no="Keep it"
      act={act}
    >
      {session.holds_devices
        ? "Its processes get SIGTERM, and SIGKILL after the grace period. Its devices are free when they have ended."
        : "It leaves the queue."}
    </ConfirmButton>
  );
}
