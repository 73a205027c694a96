import { ask, change } from "../api/client";
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

export const start = async (input: BacktestInput) => (await change(StartBacktestDocument, { input })).start_backtest;

export const stop = async (id: string) => (await change(CancelBacktestDocument, { id })).cancel_backtest;

export const tune = async (input: TuningInput) => (await change(StartTuningDocument, { input })).start_tuning;

export const apply = async (id: string) => (await change(ApplyTuningDocument, { id })).apply_tuning;
