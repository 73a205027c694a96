import { useEffect } from "react";
import { onEvent } from "../api/feed";
import { user } from "../api/presence";
import { settings, show, toldOf } from "./notifications";

/** Notifies of the sessions that the user asked for, as long as a page is open. */
export function Notifier() {
  useEffect(
    () =>
      onEvent((event) => {
        if (event === "reconnected") return;
        const told = toldOf(event, settings.get(), user.get());
        if (told) show(told, event.session.id);
      }),
    [],
  );
  return null;
}
