/** A document that can be run as it is. Placeholders in its variables, like "<newest session>", are filled in on choice. */
export interface Example {
  readonly title: string;
  /** The page of the documentation about it. */
  readonly page: string;
  readonly query: string;
  readonly variables?: string;
}

export interface Group {
  readonly name: string;
  readonly examples: readonly Example[];
}
