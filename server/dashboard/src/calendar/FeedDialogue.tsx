import { Button } from "react-aria-components";
import { change } from "../api/client";
import { user } from "../api/presence";
import { RenewCalendarFeedDocument } from "../generated/graphql";
import { CopyButton } from "../parts/CopyButton";
import { Dialogue } from "../parts/Dialogue";
import { ShownOnce, useShownOnce } from "../parts/shownOnce";
import { carryOut } from "../session/actions";

export const madeFeed = new ShownOnce<{ readonly mine: string; readonly all: string }>();

/** Makes the secret addresses of the user's calendar feed, and shows them, once. */
export function FeedDialogue({ onClose }: { readonly onClose: () => void }) {
  const made = useShownOnce(madeFeed);
  const make = () =>
    carryOut("The addresses are made.", async () => {
      const owner = user.get();
      const found = (await change(RenewCalendarFeedDocument, {})).renew_calendar_feed;
      if ("mine" in found) madeFeed.show(owner, found);
      return found;
    });
  const at = (path: string) => new URL(path, globalThis.location.href).href;
  return (
    <Dialogue
      title="Subscribe in a calendar program"
      isOpen
      isKept={made !== null}
      onClose={() => {
        madeFeed.close();
        onClose();
      }}
      actions={
        made ? null : (
          <Button className="button main" onPress={() => void make()}>
            Make new addresses
          </Button>
        )
      }
    >
      {made ? (
        <>
          <p>They are shown only once. Anyone who has one can read the bookings.</p>
          <Address title="Your bookings" address={at(made.mine)} />
          <Address title="All bookings" address={at(made.all)} />
        </>
      ) : (
        <p>New addresses make your earlier ones invalid.</p>
      )}
    </Dialogue>
  );
}

function Address({ title, address }: { readonly title: string; readonly address: string }) {
  return (
    <>
      <div className="row">
        <h3>{title}</h3>
        <CopyButton text={address} what={`The address of ${title.toLowerCase()}`} />
      </div>
      <pre className="command">{address}</pre>
    </>
  );
}
