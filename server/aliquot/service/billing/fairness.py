"""Fair shares for people: share, entitlement and the decay of each user's usage, and what would move them up."""

from bisect import bisect_left
from collections.abc import Iterable
from typing import Final

from aliquot.core.fairshare import NOTHING, ProjectUser, Usage, UsageBalance
from aliquot.core.scheduler.shares import Shares
from aliquot.service.state.state import State
from aliquot.service.views.terms import moment, moment_or_none
from aliquot_schema.resources.slots import MILLI
from aliquot_schema.resources.units import format_duration
from aliquot_schema.views.billing import FairShareView

GPU_HOUR: Final = MILLI * 3_600_000
POINTS: Final = 25
"""Of a curve, over three half-lives."""
HALF_LIVES: Final = 3
AHEAD_HALF_LIVES: Final = 8
"""How far ahead the time is searched at which a share falls to its entitlement."""
MINUTE_MS: Final = 60_000
_EQUAL: Final = 0.005
"""Shares that differ by less than this count as equal."""


def fair_shares(state: State, *, user: str | None, project: str | None, now_us: int) -> tuple[FairShareView, ...]:
    """The fair share of each user in each project that has usage or a waiting session, the largest share first.

    Args:
        user, project: only these; the shares stay those among all.
    """
    waiting = dict.fromkeys((row.project, row.owner) for row in state.pending.values())
    known = _Competitors(state.usage, waiting=waiting, state=state, now_us=now_us)
    wanted = [
        place
        for place in known.places
        if (project is None or place[0] == project) and (user is None or place[1] == user)
    ]
    found = [known.view(place) for place in wanted]
    return tuple(sorted(found, key=lambda one: (-one.share, one.project, one.user)))


class _Competitors:
    """Everybody who competes at one time."""

    def __init__(self, usage: Usage, *, waiting: Iterable[ProjectUser], state: State, now_us: int) -> None:
        self._usage = usage
        self._now_us = now_us
        self._order = state.policy.order
        self._used = usage.used_at(now_us)
        self._shares = Shares(usage, waiting=waiting, quotas=state.quotas, now_us=now_us)
        self.places = dict.fromkeys([*self._used, *waiting])

    def view(self, place: ProjectUser) -> FairShareView:
        """The fair share of one user in one project."""
        total, used = sum(self._used.values()), self._used.get(place, 0)
        share, entitlement = (used / total if total else 0.0), self._shares.entitlement(*place)
        idle = self._idle(place)
        step_ms = HALF_LIVES * self._usage.half_life_ms // (POINTS - 1)
        reached_us = self._reached_us(place, entitlement) if share > entitlement else None
        return FairShareView(
            project=place[0],
            user=place[1],
            share=share,
            entitlement=entitlement,
            gpu_hours_decayed=used / GPU_HOUR,
            gpus_held=self._usage.balances.get(place, NOTHING).holds_milli / MILLI,
            curve=tuple(self._used_at(idle, step * step_ms) / GPU_HOUR for step in range(POINTS)),
            step=step_ms / 1000,
            at_entitlement_at=moment_or_none(reached_us),
            advice=self._advice(share, entitlement, reached_us),
        )

    def _idle(self, place: ProjectUser) -> UsageBalance:
        """The balance if everything held were released now."""
        known = self._usage.balances.get(place, NOTHING)
        return known.held(-known.holds_milli, now_us=self._now_us, half_life_ms=self._usage.half_life_ms)

    def _used_at(self, balance: UsageBalance, after_ms: int) -> int:
        return balance.used_at(self._now_us + 1000 * after_ms, half_life_ms=self._usage.half_life_ms)

    def _reached_us(self, place: ProjectUser, entitlement: float) -> int | None:
        """When the share falls to the entitlement, if nothing more is held and the others hold on; to a minute."""
        idle = self._idle(place)
        others = [balance for other, balance in self._usage.balances.items() if other != place]

        def is_reached(minute: int) -> bool:
            mine = self._used_at(idle, minute * MINUTE_MS)
            total = mine + sum(self._used_at(balance, minute * MINUTE_MS) for balance in others)
            return mine <= entitlement * total

        minutes = range(1, AHEAD_HALF_LIVES * self._usage.half_life_ms // MINUTE_MS + 1)
        first = bisect_left(minutes, True, key=is_reached)  # while the others hold on, the share only falls
        return self._now_us + 1000 * minutes[first] * MINUTE_MS if first < len(minutes) else None

    def _advice(self, share: float, entitlement: float, reached_us: int | None) -> str:
        half_life = format_duration(self._usage.half_life_ms / 1000)
        if self._order != "fair_share":
            return f"The policy orders by {self._order}, which does not look at shares."
        if share > entitlement + _EQUAL:
            fall = (
                f"takes more than {AHEAD_HALF_LIVES} half-lives to fall to the entitlement"
                if reached_us is None
                else f"falls to the entitlement at {moment(reached_us):%Y-%m-%d %H:%M} UTC"
            )
            return (
                f"The share of {100 * share:.1f} % is above the entitlement of {100 * entitlement:.1f} %. Half of the "
                f"usage is forgotten every {half_life}; if nothing more is held, the share {fall}. "
                "A shorter time limit moves a session up immediately."
            )
        if share < entitlement - _EQUAL:
            return (
                f"The share of {100 * share:.1f} % is below the entitlement of {100 * entitlement:.1f} %: fair share "
                "moves these sessions up. Their wait and their time limit decide the rest."
            )
        return f"The share equals the entitlement of {100 * entitlement:.1f} %. Wait and time limit decide the order."
