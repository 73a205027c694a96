import { useState } from "react";
import { Button } from "react-aria-components";
import { Dialogue } from "../parts/Dialogue";
import { cancel } from "./actions";
import { nameOf } from "./standing";

interface Props {
  readonly session: { readonly id: string; readonly name: string | null; readonly holds_devices: boolean };
  readonly onDone: () => void;
  readonly isPlain?: boolean;
}

/** Cancels a session, after a confirmation. */
export function CancelButton({ session, onDone, isPlain }: Props) {
  const [isOpen, setOpen] = useState(false);
  const name = nameOf(session);
  const act = async () => {
    setOpen(false);
    if (await cancel(session.id)) onDone();
  };
  return (
    <>
      <Button
        className={`button ${isPlain ? "plain" : "danger"}`}
        aria-label={`Cancel ${name}`}
        onPress={() => setOpen(true)}
      >
        Cancel
      </Button>
      <Dialogue
        title={`Cancel ${name}?`}
        isOpen={isOpen}
        onClose={() => setOpen(false)}
        closing="Keep it"
        actions={
          <Button className="button danger" onPress={() => void act()}>
            Cancel the session
          </Button>
        }
      >
        <p>
          {session.holds_devices
            ? "Its processes get SIGTERM, and SIGKILL after the grace period. Its devices are free when they have ended."
            : "It leaves the queue."}
        </p>
      </Dialogue>
    </>
  );
}
