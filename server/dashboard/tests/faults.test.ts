import { CombinedError } from "@urql/core";
import { expect, test } from "vitest";
import { faultOf } from "../src/api/faults";

const error = (message: string, status = 200) =>
  new CombinedError({ graphQLErrors: [{ message }], response: { status } as Response });

test("only a request that may have begun is uncertain", () => {
  const wrong = error("Int cannot represent non-integer value: 1.5");
  expect(faultOf(wrong, undefined)).toEqual({
    kind: "refused",
    message: wrong.graphQLErrors[0]?.message,
    mayHaveBegun: false,
  });
  expect(faultOf(error("internal error"), null).mayHaveBegun).toBe(true);
  const signedOut = faultOf(error("No token was sent. Send `Authorization: Bearer TOKEN`.", 401), undefined);
  expect(signedOut).toMatchObject({ kind: "signed_out", mayHaveBegun: false });
  expect(signedOut.message).toBe("Your sign-in had ended, so this was not done. Sign in, then do it again.");
  const network = new CombinedError({ networkError: new Error("failed") });
  expect(faultOf(network, undefined)).toMatchObject({ kind: "away", mayHaveBegun: true });
});
