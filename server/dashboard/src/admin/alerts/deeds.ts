import { change } from "../../api/client";
import {
  MuteNoticeRuleDocument,
  SendTestNoticeDocument,
  SetNoticeRuleDocument,
  type AlertRule,
  type SetNoticeRuleInput,
} from "../../generated/graphql";
import { carryOut } from "../../session/actions";

export const setRule = (input: SetNoticeRuleInput) =>
  carryOut("The rule holds from now on.", async () => (await change(SetNoticeRuleDocument, { input })).set_notice_rule);

export const mute = (rule: AlertRule, seconds: number) =>
  carryOut(
    seconds ? "Nobody is told of its alerts for an hour." : "Its alerts are told again.",
    async () => (await change(MuteNoticeRuleDocument, { input: { rule, seconds } })).mute_notice_rule,
  );

export const sendTest = (receiver: string) =>
  carryOut(
    `A test is on its way to ${receiver}; see below what becomes of it.`,
    async () => (await change(SendTestNoticeDocument, { receiver })).send_test_notice,
  );
