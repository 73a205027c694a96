// Writes src/generated/graphql.ts: the types of every document under src, from the schema that the server prints.
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { codegen } from "@graphql-codegen/core";
import * as operations from "@graphql-codegen/typescript-operations";
import * as documents from "@graphql-codegen/typed-document-node";
import { buildSchema, parse } from "graphql";

const here = import.meta.dirname;
const out = join(here, "src/generated/graphql.ts");
const sdl = readFileSync(join(here, "../../schema/schema.graphql"), "utf8");
const files = readdirSync(join(here, "src"), { recursive: true })
  .filter((name) => name.endsWith(".graphql"))
  .sort();

const config = {
  scalars: { BigInt: "number", DateTime: "string", Priority: { input: "number | string", output: "string" } },
  enumType: "string-literal",
  useTypeImports: true,
  immutableTypes: true,
};

const text = await codegen({
  filename: out,
  schema: parse(sdl),
  schemaAst: buildSchema(sdl),
  documents: files.map((name) => ({
    location: name,
    document: parse(readFileSync(join(here, "src", name), "utf8")),
  })),
  config,
  plugins: [{ operations: config }, { documents: config }],
  pluginMap: { operations, documents },
});
mkdirSync(join(here, "src/generated"), { recursive: true });
writeFileSync(out, text);
