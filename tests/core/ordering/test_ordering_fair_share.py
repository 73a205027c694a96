"""Fair share: usage, charges and their records, and the shares of projects and users."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aliquot.core.fairshare import (
    HALF_LIFE_MS,
    Usage,
    UsageBalance,
    decay,
    month_after,
    month_of,
    rate_milli,
    starts_us,
)
from aliquot.core.scheduler.shares import PARTS_PER_ONE, Shares, fairness
from aliquot_schema.ids import DeviceId, ProjectId, QuotaId, SlotName, UserId
from aliquot_schema.policies import Charges
from aliquot_schema.quotas import Account, Quota, QuotaScope, quota_id
from allocation_devices import gpu
from core_effort import examples

HOUR_US = 3_600_000_000
ANN, BOB = UserId("ann"), UserId("bob")
LAB, SHOP = ProjectId("lab"), ProjectId("shop")
NOVEMBER_US = 1_793_491_200_000_000
"""2026-11-01, 00:00 UTC."""
Step = tuple[int, str, str, int, bool]
"""Microseconds since the previous step, project, user, milli, whether it is a release."""
Sized = dict[QuotaId, Quota]

steps = st.lists(
    st.tuples(
        st.integers(0, 10 * 24 * HOUR_US),
        st.sampled_from("pq"),
        st.sampled_from("ab"),
        st.integers(1, 9000),
        st.booleans(),
    ),
    max_size=25,
)


def weights(**named: int) -> Sized:
    """`weights(user_ann=2, project_lab=3)`."""
    found: Sized = {}
    for key, weight in named.items():
        scope, name = key.split("_")
        identity = quota_id(QuotaScope(scope), name)
        found[identity] = Quota(id=identity, scope=QuotaScope(scope), name=name, weight=weight)
    return found


def used(**milli: int) -> Usage:
    """`used(lab_ann=3)`: held for an hour each, then released."""
    usage = Usage()
    for place, amount in milli.items():
        project, user = place.split("_")
        usage = usage.held(amount, user=UserId(user), project=ProjectId(project), now_us=0)
    for place, amount in milli.items():
        project, user = place.split("_")
        usage = usage.held(-amount, user=UserId(user), project=ProjectId(project), now_us=HOUR_US)
    return usage


def test_usage_decays_by_half_in_each_half_life() -> None:
    week_us = HALF_LIFE_MS * 1000
    assert decay(0) == 1 << 62
    assert abs(decay(week_us) - (1 << 61)) <= 1
    assert abs(decay(week_us // 2) / 2**62 - 2**-0.5) < 1e-9
    balance = UsageBalance(used=1000, at_us=0)
    assert (balance.used_at(week_us), balance.used_at(3 * week_us), balance.used_at(200 * week_us)) == (500, 125, 0)
    assert balance.used_at(week_us, half_life_ms=HALF_LIFE_MS // 2) == 250


def test_held_devices_count_as_usage_while_they_are_held() -> None:
    second_us = 1_000_000
    balance = UsageBalance().held(2000, now_us=0)
    assert abs(balance.used_at(second_us) - 2000 * 1000) < 10
    ended = balance.held(-2000, now_us=second_us)
    assert ended.used_at(2 * second_us) <= ended.used_at(second_us)
    forever = UsageBalance().held(1000, now_us=0).used_at(100 * HALF_LIFE_MS * 1000)
    assert abs(forever / (1000 * HALF_LIFE_MS / 0.6931471805599453) - 1) < 1e-9


def test_releasing_more_than_is_held_is_an_error() -> None:
    with pytest.raises(AssertionError, match="more is released"):
        Usage().held(-1, user=ANN, project=LAB, now_us=0)


def test_months_follow_the_calendar() -> None:
    assert month_of(NOVEMBER_US - 1) == 202610
    assert month_of(NOVEMBER_US) == 202611
    assert starts_us(202611) == NOVEMBER_US
    assert (month_after(202611), month_after(202612)) == (202612, 202701)


def test_a_charge_is_cut_exactly_at_the_turn_of_the_month() -> None:
    usage = Usage().held(1500, user=ANN, project=LAB, now_us=NOVEMBER_US - 7_000_000)
    usage = usage.held(500, user=BOB, project=LAB, now_us=NOVEMBER_US + 1_000_000)
    assert usage.charged_in_month(QuotaScope.USER, "ann", NOVEMBER_US - 1_000_000) == 1500 * 6000
    now_us = NOVEMBER_US + 3_000_000
    assert usage.charged_in_month(QuotaScope.USER, "ann", now_us) == 1500 * 3000
    assert usage.charged_in_month(QuotaScope.USER, "bob", now_us) == 500 * 2000
    assert usage.charged_in_month(QuotaScope.PROJECT, "lab", now_us) == 1500 * 3000 + 500 * 2000
    assert usage.charged_in_month(QuotaScope.PROJECT, "shop", now_us) == 0
    assert usage.charged_in_month(QuotaScope.CLUSTER, "", now_us) == 1500 * 3000 + 500 * 2000
    record = usage.held(-1500, user=ANN, project=LAB, now_us=now_us).record(LAB, ANN)
    assert (record.id, record.charged, record.month, record.month_charged) == ("lab/ann", 15_000_000, 202611, 4_500_000)
    december_us = starts_us(202612)
    assert Usage.of([record]).charged_in_month(QuotaScope.USER, "ann", december_us) == 0


@examples(100)
@given(steps=steps, cut=st.integers(0, 25), later_us=st.integers(0, 90 * 24 * HOUR_US))
def test_usage_rebuilt_from_records_after_a_restart_equals_live_usage(
    steps: list[Step], cut: int, later_us: int
) -> None:
    now_us, live = NOVEMBER_US, Usage()
    records: dict[tuple[str, str], Account] = {}
    held: list[tuple[int, str, str, int]] = []
    for number, (wait_us, project, user, milli, ends) in enumerate(steps):
        if number == cut:
            live = _restarted(records, held)
        now_us += wait_us
        if ends and held:
            _, project, user, milli = held.pop(milli % len(held))
            live = live.held(-milli, user=UserId(user), project=ProjectId(project), now_us=now_us)
            records[project, user] = live.record(ProjectId(project), UserId(user))
        else:
            held.append((now_us, project, user, milli))
            live = live.held(milli, user=UserId(user), project=ProjectId(project), now_us=now_us)
        assert _restarted(records, held) == live
    rebuilt = _restarted(records, held)
    assert rebuilt.used_at(now_us + later_us) == live.used_at(now_us + later_us)


@examples(100)
@given(steps=steps)
def test_charges_equal_held_amounts_to_the_millisecond(steps: list[Step]) -> None:
    now_us, usage, expected = NOVEMBER_US, Usage(), 0
    held: list[tuple[int, str, str, int]] = []
    for wait_us, project, user, milli, ends in steps:
        now_us += wait_us
        if ends and held:
            began_us, project, user, milli = held.pop()
            expected += milli * (now_us // 1000 - began_us // 1000)
            usage = usage.held(-milli, user=UserId(user), project=ProjectId(project), now_us=now_us)
        else:
            held.append((now_us, project, user, milli))
            usage = usage.held(milli, user=UserId(user), project=ProjectId(project), now_us=now_us)
    for began_us, project, user, milli in held:
        expected += milli * (now_us // 1000 - began_us // 1000)
        usage = usage.held(-milli, user=UserId(user), project=ProjectId(project), now_us=now_us)
    assert sum(usage.record(*place).charged for place in usage.balances) == expected


def _restarted(records: Mapping[tuple[str, str], Account], held: list[tuple[int, str, str, int]]) -> Usage:
    usage = Usage.of(records.values())
    for began_us, project, user, milli in sorted(held, key=lambda one: one[0]):
        usage = usage.held(milli, user=UserId(user), project=ProjectId(project), now_us=began_us)
    return usage


def test_the_charge_rate_depends_on_gpu_model_cores_and_memory() -> None:
    devices = {DeviceId(f"cuda{index}"): gpu(index, model=model) for index, model in enumerate(["H100", "T4"])}
    charges = Charges(accelerator_milli={"T4": 250}, cpu_milli=5, mem_gib_milli=2)

    def rate(**spec: dict[str, int]) -> int:
        typed = {
            SlotName(slot.replace("_", ".")): {DeviceId(name): amount for name, amount in amounts.items()}
            for slot, amounts in spec.items()
        }
        return rate_milli(typed, devices=devices, charges=charges)

    assert rate(cuda_device={"cuda0": 1, "cuda1": 1}) == 1250
    assert rate(cuda_shares={"cuda0": 200, "cuda1": 400}) == 300
    assert rate(cuda_device={"lost": 1}) == 1000
    assert rate(cpu={"cpu0": 1, "cpu1": 1}, mem={"mem0": 3 * 2**30}) == 16
    assert rate(cuda_shares={"cuda1": 10}) == 3
    assert rate(mem={"mem0": 1}) == 1
    assert rate() == 0


def test_usage_of_exactly_the_fair_share_scores_one_half() -> None:
    assert fairness(0, total=900, weight=1, weights=3) == PARTS_PER_ONE
    assert fairness(300, total=900, weight=1, weights=3) == PARTS_PER_ONE // 2
    assert fairness(600, total=900, weight=2, weights=3) == PARTS_PER_ONE // 2
    assert fairness(600, total=900, weight=1, weights=3) == PARTS_PER_ONE // 3
    assert fairness(0, total=900, weight=0, weights=3) == 0


def test_users_share_the_fair_share_of_their_project() -> None:
    usage = used(lab_ann=2000, shop_bob=1000, shop_cy=1000)
    equal = Shares(usage, waiting=[], quotas={}, now_us=HOUR_US)
    terms = [equal.fairness(LAB, ANN), equal.fairness(SHOP, BOB)]
    assert terms == [PARTS_PER_ONE // 2] * 2
    weighted = Shares(usage, waiting=[], quotas=weights(user_bob=3000), now_us=HOUR_US)
    assert weighted.fairness(SHOP, BOB) > PARTS_PER_ONE // 2 > weighted.fairness(SHOP, UserId("cy"))
    assert weighted.fairness(LAB, ANN) == PARTS_PER_ONE // 2
    lab = Shares(usage, waiting=[], quotas=weights(project_lab=3000), now_us=HOUR_US)
    assert lab.fairness(LAB, ANN) > PARTS_PER_ONE // 2 > lab.fairness(SHOP, BOB)


def test_only_users_with_usage_or_waiting_sessions_have_a_share() -> None:
    usage = used(lab_ann=1000, shop_bob=1000)
    alone = Shares(usage, waiting=[(LAB, ANN)], quotas=weights(user_dan=10**6), now_us=HOUR_US)
    assert alone.fairness(LAB, ANN) == PARTS_PER_ONE // 2
    joined = Shares(usage, waiting=[(LAB, UserId("dan"))], quotas={}, now_us=HOUR_US)
    assert joined.fairness(LAB, UserId("dan")) == (PARTS_PER_ONE // 2 + PARTS_PER_ONE) // 2
    assert joined.fairness(LAB, ANN) < PARTS_PER_ONE // 2
    forgotten = Shares(usage, waiting=[(LAB, ANN)], quotas={}, now_us=100 * HALF_LIFE_MS * 1000)
    assert forgotten.fairness(LAB, ANN) == PARTS_PER_ONE


def test_high_usage_of_a_project_also_lowers_the_fairness_of_its_new_users() -> None:
    shares = Shares(used(lab_ann=4000, shop_bob=1000), waiting=[(LAB, BOB)], quotas={}, now_us=HOUR_US)
    assert shares.fairness(LAB, ANN) < shares.fairness(LAB, BOB) < PARTS_PER_ONE
