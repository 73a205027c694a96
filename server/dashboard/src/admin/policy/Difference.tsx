import { Table } from "../../parts/Table";
import type { Change } from "./settings";

/** The pending changes, with old and new values side by side. */
export function Difference({ changes }: { readonly changes: readonly Change[] }) {
  return (
    <Table className="difference" columns={["Setting", "Now", "New"]}>
      {changes.map(({ path, from, to }) => (
        <tr key={path}>
          <td>
            <code>{path}</code>
          </td>
          <td>
            <del>{from}</del>
          </td>
          <td>
            <ins>{to}</ins>
          </td>
        </tr>
      ))}
    </Table>
  );
}
