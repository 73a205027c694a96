import { useState } from "react";
import { Button } from "react-aria-components";
import { localText } from "../format/local";
import { Segments } from "../parts/Segments";
import { Text } from "../parts/Text";
import { RANGES, type Period, type Range } from "./ranges";

interface Props {
  readonly period: Period;
  readonly onRange: (range: Range) => void;
  readonly onSpan: (fromMs: number, toMs: number) => void;
}

/** Chooses a period: one up to now, or between two times. */
export function PeriodPicker({ period, onRange, onSpan }: Props) {
  const [isOpen, setOpen] = useState(false);
  const [from, setFrom] = useState("");
  const [to, setTo] = useState("");
  const isGood = new Date(from) < new Date(to);
  const open = () => {
    setFrom(localText(Date.parse(period.since)));
    setTo(localText(period.until ? Date.parse(period.until) : Date.now()));
    setOpen(!isOpen);
  };
  return (
    <div className="row period">
      <Segments
        label="Period"
        value={period.id}
        options={Object.entries(RANGES).map(([id, { text }]) => ({ id: id as Period["id"], text }))}
        onChange={(id) => id !== "custom" && onRange(id)}
      />
      <Button className="button" aria-expanded={isOpen} onPress={open}>
        {period.id === "custom" ? `${shortOf(period.since)} – ${shortOf(period.until ?? "")}` : "From – to"}
      </Button>
      {isOpen ? (
        <>
          <Text label="From" type="datetime-local" value={from} onChange={setFrom} />
          <Text label="To" type="datetime-local" value={to} onChange={setTo} />
          <Button
            className="button"
            isDisabled={!isGood}
            onPress={() => {
              onSpan(Date.parse(from), Date.parse(to));
              setOpen(false);
            }}
          >
            Show
          </Button>
        </>
      ) : null}
    </div>
  );
}

function shortOf(at: string): string {
  const parts = { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hour12: false } as const;
  return new Date(at).toLocaleString([], parts);
}
