import { change } from "../../api/client";
import {
  AssignPoolDocument,
  DrainAgentDocument,
  LabelAgentDocument,
  ReleaseLostDocument,
  ResumeAgentDocument,
  SetSchedulableDocument,
  type DrainAgentInput,
  type LabelAgentInput,
} from "../../generated/graphql";
import { carryOut } from "../../session/actions";

/** An action on an agent that needs a dialogue first. */
export interface Wish {
  readonly what: "drain" | "labels" | "release";
  readonly id: string;
}

export const drain = (input: DrainAgentInput) =>
  carryOut(`${input.id} is draining.`, async () => (await change(DrainAgentDocument, { input })).drain_agent);

export const resume = (id: string) =>
  carryOut(`${id} is schedulable again.`, async () => (await change(ResumeAgentDocument, { id })).resume_agent);

export const setSchedulable = (id: string, schedulable: boolean) =>
  carryOut(
    schedulable ? `${id} is schedulable.` : `${id} is not schedulable.`,
    async () => (await change(SetSchedulableDocument, { input: { id, schedulable } })).set_agent_schedulable,
  );

export const label = (input: LabelAgentInput) =>
  carryOut(
    `The labels of ${input.id} are changed.`,
    async () => (await change(LabelAgentDocument, { input })).label_agent,
  );

export const assignPool = (id: string, pool: string) =>
  carryOut(
    `${id} is now in pool ${pool}.`,
    async () => (await change(AssignPoolDocument, { id, pool })).assign_agent_pool,
  );

export const releaseLost = (id: string) =>
  carryOut(
    `The devices of ${id} are free.`,
    async () => (await change(ReleaseLostDocument, { id })).release_lost_agent,
  );
