import { useState } from "react";
import { Button } from "react-aria-components";
import { bytes } from "../format/amounts";
import { showNotice } from "../parts/notices";
import { save } from "../parts/saving";
import type { Which } from "./following";
import { wholeLog } from "./wholeLog";

interface Props {
  readonly which: Which;
  /** The length of the log in bytes. */
  readonly end: number;
  readonly name: string;
}

/** Downloads the whole log as a file, of any length. */
export function Download({ which, end, name }: Props) {
  const [got, setGot] = useState<number | null>(null);
  const begin = async () => {
    setGot(0);
    try {
      save(`${name}-${which.rank}.log`, await wholeLog(which, end, setGot));
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      showNotice({ tone: "bad", text: `The log could not be downloaded. ${why}` });
    }
    setGot(null);
  };
  return (
    <Button className="button" isDisabled={!end || got !== null} onPress={() => void begin()}>
      {got === null ? "Download" : `Download: ${bytes(got)}`}
    </Button>
  );
}
