/** What tests take of Node, whose own types are not installed. */
declare module "node:fs" {
  export function readFileSync(path: URL, encoding: "utf8"): string;
}
