import { Kind } from "graphql";
import { expect, test } from "vitest";
import { upToDate } from "../src/graphiql/asking";

test("an operation name of the query before is not sent with a changed one", () => {
  const named = (query: string, operationName: string | null) => upToDate({ query, operationName }).asked.operationName;
  expect(named("{ whoami { name } }", "WhoHoldsWhat")).toBeNull();
  expect(named("query Who { whoami { name } }", "WhoHoldsWhat")).toBeNull();
  expect(named("query Who { whoami { name } } query Other { __typename }", "Other")).toBe("Other");
  expect(named("query Who { whoami {", "Who")).toBe("Who");
  expect(named("{ whoami { name } }", null)).toBeNull();
});

test("the document is that of the query as it is", () => {
  const [first] = upToDate({ query: "subscription { queue_events { __typename } }" }).documentAST?.definitions ?? [];
  expect(first?.kind === Kind.OPERATION_DEFINITION && first.operation).toBe("subscription");
});
