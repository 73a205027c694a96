import { Link } from "wouter";
import { titleOf } from "../session/names";

const ID = /(ses_[0-9a-f-]{36}(?:_\d+)?)/;

/** A sentence of the server's, in which the ids of sessions lead to them. */
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
