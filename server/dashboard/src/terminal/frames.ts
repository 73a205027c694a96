/** Frames of a terminal: kind (1 byte), length (4 bytes, big endian), content. See `aliquot_schema.cluster.streams`. */
export interface Frame {
  readonly kind: string;
  readonly content: Uint8Array;
}

export const FRAME_BYTES_MAX = 65_536;
const HEAD_BYTES = 5;

export function frame(kind: string, content: Uint8Array = new Uint8Array()): Uint8Array<ArrayBuffer> {
  const data = new Uint8Array(HEAD_BYTES + content.length);
  data[0] = kind.charCodeAt(0);
  new DataView(data.buffer).setUint32(1, content.length);
  data.set(content, HEAD_BYTES);
  return data;
}

/** Joins the pieces of a stream and cuts them into frames. */
export class Frames {
  private kept = new Uint8Array();

  /** The frames that are complete with this piece. */
  take(piece: Uint8Array): Frame[] {
    const data = new Uint8Array(this.kept.length + piece.length);
    data.set(this.kept);
    data.set(piece, this.kept.length);
    const found: Frame[] = [];
    let at = 0;
    while (data.length - at >= HEAD_BYTES) {
      const length = new DataView(data.buffer).getUint32(at + 1);
      if (data.length - at < HEAD_BYTES + length) break;
      const content = data.slice(at + HEAD_BYTES, at + HEAD_BYTES + length);
      found.push({ kind: String.fromCharCode(data[at] ?? 0), content });
      at += HEAD_BYTES + length;
    }
    this.kept = data.slice(at);
    return found;
  }
}
