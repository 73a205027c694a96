import { useRef, useState } from "react";
import { Button } from "react-aria-components";
import { ask } from "../api/client";
import { useLive } from "../api/live";
import { bytes } from "../format/amounts";
import { moment } from "../format/times";
import { SessionFilesDocument, type SessionFilesQuery } from "../generated/graphql";
import { Faults } from "../parts/Faults";
import { Numbered } from "../parts/Numbered";
import { ACTIONS, figure, Table } from "../parts/Table";
import type { Session } from "./loading";
import { addressOf, previewOf, type Preview } from "./previews";
import { isEnded } from "./standing";

const EVERY_MS = 30_000;

type Listing = SessionFilesQuery["session_files"];
type File = Listing["files"][number];
interface Shown {
  readonly path: string;
  readonly preview: Preview | null;
}

/** The files that a session left in RESULT_DIR, with previews and downloads. */
export function Results({ session }: { readonly session: Session }) {
  const [rank, setRank] = useState(0);
  const [after, setAfter] = useState<readonly string[]>([]);
  const [shown, setShown] = useState<Shown | null>(null);
  const from = after.at(-1) ?? null;
  const live = useLive(
    async () => (await ask(SessionFilesDocument, { id: session.id, rank, after: from })).session_files,
    `files/${session.id}/${session.attempt}/${session.state}/${rank}/${from ?? ""}`,
    isEnded(session.state) ? {} : { everyMs: EVERY_MS },
  );
  const found = live.data;
  const wasFound = useRef(false);
  wasFound.current ||= found !== null;
  // Only the owner and admins see them; others see the session without.
  if (!wasFound.current) return null;
  const choose = (next: number) => {
    setRank(next);
    setAfter([]);
    setShown(null);
  };
  const show = async (file: File) => {
    setShown({ path: file.path, preview: null });
    const preview = await previewOf(addressOf(session.id, rank, file.path), file.path, Number(file.size)).catch(
      (error: unknown): Preview => ({ kind: "none", why: String(error) }),
    );
    setShown((now) => (now?.path === file.path ? { path: file.path, preview } : now));
  };
  return (
    <section className="panel stack" aria-label="Results">
      <div className="row">
        <h2>Results</h2>
        {found ? <span className="quiet small">{summaryOf(found)}</span> : null}
        {session.cluster_size > 1 ? (
          <Numbered label="Rank" from={0} count={session.cluster_size} value={rank} onChange={choose} />
        ) : null}
      </div>
      <Faults of={live} />
      {found?.is_over_quota ? (
        <p className="note warn">They are above the quota. What is above it is not copied when the session ends.</p>
      ) : null}
      {found?.files.length ? (
        <div className="scroll" tabIndex={0} role="region" aria-label="Files">
          <Table columns={["File", figure("Size"), "Changed", "SHA-256", ACTIONS]}>
            {found.files.map((file) => (
              <tr key={file.path}>
                <td>{file.path}</td>
                <td className="figure">{bytes(Number(file.size))}</td>
                <td className="nowrap">{moment(file.changed_at)}</td>
                <td title={file.sha256 ?? ""}>{file.sha256 ? `${file.sha256.slice(0, 12)}…` : "—"}</td>
                <td className="nowrap">
                  <Button className="button" onPress={() => void show(file)}>
                    Preview
                  </Button>{" "}
                  <a className="button" href={addressOf(session.id, rank, file.path)} download>
                    Download
                  </a>
                </td>
              </tr>
            ))}
          </Table>
        </div>
      ) : null}
      {found && (found.has_more || after.length) ? (
        <div className="row">
          <Button className="button" isDisabled={!after.length} onPress={() => setAfter((old) => old.slice(0, -1))}>
            Before
          </Button>
          <Button
            className="button"
            isDisabled={!found.has_more}
            onPress={() => setAfter((old) => [...old, found.files.at(-1)?.path ?? ""])}
          >
            More
          </Button>
        </div>
      ) : null}
      {shown ? <Shows shown={shown} close={() => setShown(null)} /> : null}
    </section>
  );
}

function Shows({ shown, close }: { readonly shown: Shown; readonly close: () => void }) {
  return (
    <div className="stack" role="region" aria-label={`Preview of ${shown.path}`}>
      <div className="row">
        <b>{shown.path}</b>
        <Button className="button" onPress={close}>
          Close
        </Button>
      </div>
      {shown.preview ? <Content preview={shown.preview} /> : <p className="quiet">Loading…</p>}
      {shown.preview && "isCut" in shown.preview && shown.preview.isCut ? (
        <p className="note">Only the beginning is shown. Download the file for all of it.</p>
      ) : null}
    </div>
  );
}

function Content({ preview }: { readonly preview: Preview }) {
  switch (preview.kind) {
    case "text":
      return (
        <pre className="command" tabIndex={0}>
          {preview.text}
        </pre>
      );
    case "image":
      return <img className="result-image" src={preview.address} alt="Preview" />;
    case "none":
      return <p className="quiet">{preview.why}</p>;
    case "table": {
      const [head = [], ...rows] = preview.rows;
      return (
        <div className="scroll" tabIndex={0} role="region" aria-label="Table">
          <Table columns={head.map((name, place) => ({ name: name || `column ${place + 1}` }))}>
            {rows.map((row, place) => (
              <tr key={place}>
                {row.map((cell, column) => (
                  <td key={column}>{cell}</td>
                ))}
              </tr>
            ))}
          </Table>
        </div>
      );
    }
  }
}

function summaryOf(found: Listing): string {
  if (!found.total_count && !found.left_out) return "RESULT_DIR is empty";
  const files = `${found.total_count} ${found.total_count === 1 ? "file" : "files"}, ${bytes(Number(found.bytes_total))}`;
  return found.left_out ? `${files}; ${found.left_out} links, special files or odd names are not listed` : files;
}
