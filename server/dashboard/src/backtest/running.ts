import { ask, change } from "../api/client";
import { joined } from "../api/joining";
import {
  ApplyTuningDocument,
  BacktestDocument,
  CancelBacktestDocument,
  StartBacktestDocument,
  StartTuningDocument,
  type BacktestInput,
  type TuningInput,
} from "../generated/graphql";

export const load = async (id: string) => (await ask(BacktestDocument, { id })).backtest ?? null;

// Two presses in a row differ in the time that `since` counts from.
export const start = (input: BacktestInput) =>
  joined(
    `backtest ${JSON.stringify(input.runs)}`,
    async () => (await change(StartBacktestDocument, { input })).start_backtest,
  );

export const stop = async (id: string) => (await change(CancelBacktestDocument, { id })).cancel_backtest;

export const tune = (input: TuningInput) =>
  joined("tune", async () => (await change(StartTuningDocument, { input })).start_tuning);

export const apply = async (id: string) => (await change(ApplyTuningDocument, { id })).apply_tuning;
