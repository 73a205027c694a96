import type { Change } from "./settings";

/** What would change, old beside new. */
export function Difference({ changes }: { readonly changes: readonly Change[] }) {
  return (
    <table className="difference">
      <thead>
        <tr>
          <th>Setting</th>
          <th>Now</th>
          <th>Then</th>
        </tr>
      </thead>
      <tbody>
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
      </tbody>
    </table>
  );
}
