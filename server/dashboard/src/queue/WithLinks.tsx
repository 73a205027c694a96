import { Link } from "wouter";
import { useMinute } from "../format/clock";
import { withLocalTimes } from "../format/times";
import { titleOf } from "../session/names";

const ID = /(ses_[0-9a-f-]{36}(?:_\d+)?)/;

/** The ids of sessions in a message of the server. */
export function idsIn(text: string): string[] {
  return text.split(ID).filter((part) => ID.test(part));
}

/** A message of the server, with ids of sessions as links and times in the viewer's zone. */
export function WithLinks({ text }: { readonly text: string }) {
  const now = useMinute();
  return (
    <>
      {text.split(ID).map((part, index) =>
        ID.test(part) ? (
          <Link key={index} href={`/sessions/${part}`}>
            {titleOf(part)}
          </Link>
        ) : (
          withLocalTimes(part, now)
        ),
      )}
    </>
  );
}
