import { useState } from "react";
import { Button } from "react-aria-components";
import { change, Refusal } from "../api/client";
import { moment } from "../format/times";
import { inLabels } from "../format/words";
import { ImportReservationsDocument, type ImportReservationsMutation } from "../generated/graphql";
import { Dialogue } from "../parts/Dialogue";
import { showNotice } from "../parts/notices";
import { LABELS } from "./entries";

type Row = Extract<ImportReservationsMutation["import_reservations"], { readonly rows: unknown }>["rows"][number];

/** A file as it was read for the preview, so that exactly this is booked. */
interface Read {
  readonly name: string;
  readonly content: string;
}

/** Books the rows of a spreadsheet or a calendar, after a preview of each row. */
export function ImportDialogue({ onClose }: { readonly onClose: () => void }) {
  const [file, setFile] = useState<Read | null>(null);
  const [rows, setRows] = useState<readonly Row[]>([]);
  const [wrong, setWrong] = useState("");
  const [isDone, setDone] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const send = async ({ name, content }: Read, dryRun: boolean) => {
    setWrong("");
    setBusy(true);
    try {
      const time_zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
      const input = { file_name: name, content, time_zone, dry_run: dryRun };
      const found = (await change(ImportReservationsDocument, { input })).import_reservations;
      if (!("rows" in found)) {
        setRows([]);
        setWrong(found.message);
        return;
      }
      setRows(found.rows);
      setDone(!dryRun);
      const booked = found.rows.filter((row) => row.state === "booked").length;
      if (!dryRun)
        showNotice({ tone: booked ? "good" : "bad", text: `${booked} of ${found.rows.length} rows booked.` });
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      setWrong(error.message);
    } finally {
      setBusy(false);
    }
  };
  const choose = async (chosen: File | undefined) => {
    if (!chosen) return;
    setFile(null);
    setRows([]);
    setDone(false);
    try {
      const read = { name: chosen.name, content: base64Of(new Uint8Array(await chosen.arrayBuffer())) };
      setFile(read);
      await send(read, true);
    } catch (error) {
      if (!(error instanceof DOMException)) throw error;
      setWrong("The browser cannot read this file. Choose it again.");
    }
  };
  const bookable = rows.filter((row) => row.state === "bookable").length;
  return (
    <Dialogue
      title="Import bookings"
      isOpen
      onClose={onClose}
      actions={
        file && !isDone ? (
          <Button className="button main" isDisabled={bookable === 0 || isBusy} onPress={() => void send(file, false)}>
            {bookable === 1 ? "Book 1 row" : `Book ${bookable} rows`}
          </Button>
        ) : null
      }
    >
      <p>
        A spreadsheet (CSV, XLSX) whose first line names the columns (start, end, and if you like date, name, user,
        gpus, model, project), or a calendar (ICS). Nothing is booked before you confirm.
      </p>
      <label className="stack">
        File
        <input
          type="file"
          accept=".csv,.tsv,.xlsx,.ics"
          // A file that was corrected can be chosen again: the browser reports only another one.
          onClick={(event) => (event.currentTarget.value = "")}
          onChange={(event) => void choose(event.target.files?.[0])}
        />
      </label>
      {wrong ? (
        <p className="note bad" role="alert">
          {wrong}
        </p>
      ) : null}
      {rows.length ? (
        <div className="scroll" tabIndex={0} role="region" aria-label="Preview">
          <table aria-label="Rows of the file">
            <thead>
              <tr>
                {["Row", "User", "Name", "From", "To", "GPUs", "Result"].map((name) => (
                  <th key={name}>{name}</th>
                ))}
              </tr>
            </thead>
            <tbody>
              {rows.map((row) => (
                <tr key={row.row} className={row.state === "wrong" || row.state === "refused" ? "bad" : ""}>
                  <td>{row.row}</td>
                  <td>{row.owner ?? "–"}</td>
                  <td>{row.name ?? row.text}</td>
                  <td>{row.starts_at ? moment(row.starts_at) : "–"}</td>
                  <td>{row.ends_at ? moment(row.ends_at) : "–"}</td>
                  <td>{row.gpus || "–"}</td>
                  <td>{row.message ? `${row.state}: ${inLabels(row.message, LABELS)}` : row.state}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      ) : null}
    </Dialogue>
  );
}

function base64Of(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(text);
}
