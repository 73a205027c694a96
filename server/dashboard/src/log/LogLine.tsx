import Anser from "anser";
import { memo } from "react";
import type { Line } from "./lines";

/** One line, in its colours. */
export const LogLine = memo(function LogLine({ line }: { readonly line: Line }) {
  if (!line.opening && !line.text.includes("\u001b")) return <>{line.text || " "}</>;
  const pieces = Anser.ansiToJson(line.opening + line.text, { json: true, remove_empty: true, use_classes: true });
  return (
    <>
      {pieces.length
        ? pieces.map((piece, index) => (
            <span key={index} className={classOf(piece)} style={styleOf(piece)}>
              {piece.content}
            </span>
          ))
        : " "}
    </>
  );
});

type Piece = ReturnType<typeof Anser.ansiToJson>[number];

function classOf(piece: Piece): string {
  const ground = piece.bg && !piece.bg_truecolor ? `${piece.bg}-ground` : "";
  return [piece.fg && !piece.fg_truecolor ? piece.fg : "", ground, ...piece.decorations.map((name) => `ansi-${name}`)]
    .filter(Boolean)
    .join(" ");
}

function styleOf(piece: Piece): { color?: string; backgroundColor?: string } {
  return {
    ...(piece.fg_truecolor ? { color: `rgb(${piece.fg_truecolor})` } : {}),
    ...(piece.bg_truecolor ? { backgroundColor: `rgb(${piece.bg_truecolor})` } : {}),
  };
}
