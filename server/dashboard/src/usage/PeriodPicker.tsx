import { useState } from "react";
import { serverNow } from "../api/time";
import { Button } from "react-aria-components";
import { changeText, localText, momentOfLocal } from "../format/local";
import { dayTime } from "../format/times";
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
  const [given, setGiven] = useState<{ fromMs: number; toMs: number } | null>(null);
  const fromMs = momentOfLocal(from, given?.fromMs);
  const toMs = momentOfLocal(to, given?.toMs);
  const changes = { from: changeText(from, fromMs), to: changeText(to, toMs) };
  const wrongs = {
    from: changes.from.wrong ?? (fromMs >= serverNow() ? "Enter a time before now." : undefined),
    to: changes.to.wrong ?? (toMs <= fromMs ? "It ends after it starts." : undefined),
  };
  const isGood = fromMs < toMs && !wrongs.from && !wrongs.to;
  const open = () => {
    const next = {
      fromMs: Date.parse(period.since),
      toMs: period.until ? Date.parse(period.until) : serverNow(),
    };
    setGiven(next);
    setFrom(localText(next.fromMs));
    setTo(localText(next.toMs));
    setOpen(!isOpen);
  };
  return (
    <div className="row at-end period">
      <Segments
        label="Period"
        value={period.id}
        options={Object.entries(RANGES).map(([id, { text }]) => ({ id: id as Period["id"], text }))}
        onChange={(id) => id !== "custom" && onRange(id)}
      />
      <Button className="button" aria-expanded={isOpen} onPress={open}>
        {period.id === "custom" ? `${dayTime(period.since)} – ${dayTime(period.until ?? serverNow())}` : "From – to"}
      </Button>
      {isOpen ? (
        <>
          <Text
            label="From"
            type="datetime-local"
            value={from}
            wrong={wrongs.from}
            hint={changes.from.hint}
            onChange={setFrom}
          />
          <Text label="To" type="datetime-local" value={to} wrong={wrongs.to} hint={changes.to.hint} onChange={setTo} />
          <Button
            className="button"
            isDisabled={!isGood}
            onPress={() => {
              onSpan(fromMs, toMs);
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
