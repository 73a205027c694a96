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
  carryOut("The rule is changed.", async () => (await change(SetNoticeRuleDocument, { input })).set_notice_rule);

export const mute = (rule: AlertRule, seconds: number) =>
  carryOut(
    seconds ? "The rule is muted for 1 h." : "The rule is unmuted.",
    async () => (await change(MuteNoticeRuleDocument, { input: { rule, seconds } })).mute_notice_rule,
  );

export const sendTest = (receiver: string) =>
  carryOut(
    `A test is sent to ${receiver}; its outcome is shown below.`,
    async () => (await change(SendTestNoticeDocument, { receiver })).send_test_notice,
  );
