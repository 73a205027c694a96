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

export const drain = (input: DrainAgentInput) =>
  carryOut(`Nothing new is put on ${input.id}.`, async () => (await change(DrainAgentDocument, { input })).drain_agent);

export const resume = (id: string) =>
  carryOut(`${id} takes work again.`, async () => (await change(ResumeAgentDocument, { id })).resume_agent);

export const setSchedulable = (id: string, schedulable: boolean) =>
  carryOut(
    schedulable ? `${id} is given new work.` : `${id} is given nothing new.`,
    async () => (await change(SetSchedulableDocument, { input: { id, schedulable } })).set_agent_schedulable,
  );

export const label = (input: LabelAgentInput) =>
  carryOut(`${input.id} has these labels now.`, async () => (await change(LabelAgentDocument, { input })).label_agent);

export const assignPool = (id: string, pool: string) =>
  carryOut(`${id} is in ${pool} now.`, async () => (await change(AssignPoolDocument, { id, pool })).assign_agent_pool);

export const releaseLost = (id: string) =>
  carryOut(`What ${id} held is free.`, async () => (await change(ReleaseLostDocument, { id })).release_lost_agent);
