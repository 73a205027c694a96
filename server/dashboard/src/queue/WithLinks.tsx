import { Link } from "wouter";
import { titleOf } from "../session/names";

const ID = /(ses_[0-9a-f-]{36}(?:_\d+)?)/;

/** A message of the server, with ids of sessions as links. */
export function WithLinks({ text }: { readonly text: string }) {
  return (
    <>
      {text.split(ID).map((part, index) =>
        ID.test(part) ? (
          <Link key={index} href={`/sessions/${part}`}>
            {titleOf(part)}
          </Link>
        ) : (
          part
        ),
      )}
    </>
  );
}
