"""Accounts: usage of users within projects in one simulated future, and the fairness term of each.

Usage is kept exactly, as `fairshare.Balance` keeps it. Fairness is first computed in floating point for all accounts at
once; where two scores are too close to tell apart, or nearly nothing was used yet, the caller asks for the exact terms.
"""

from collections.abc import Mapping
from copy import copy
from math import exp, expm1, log
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from aliquot.core.fairshare import ProjectUser, Usage, UsageBalance, used_after
from aliquot.core.model.queue import IntArray
from aliquot.core.scheduler.shares import PARTS_PER_ONE, Shares, weight_of
from aliquot_schema.ids import QuotaId
from aliquot_schema.quotas import Quota, QuotaScope, quota_id

Floats = npt.NDArray[np.float64]
LN2: Final = 0.6931471805599453
ERROR_PER_HELD: Final = 4e-12
"""Bound of the error of usage per milli held, in half-lives: `fairshare.decay` resolves 2 ** -40 of a half-life."""
ERROR_PER_USED: Final = 1e-11
"""Bound of the relative error of usage."""
CERTAIN: Final = 4_000_000
"""Usage this much larger than its error, times the largest ratio of weights, gives terms right to 1 millionth."""
FAINT: Final = 1000.0
"""Usage below this may be 0 when rounded down."""
TOLERANCE: Final = 4
"""Terms in floating point are within this many millionths of the exact ones, both rounded down."""


class AccountNames:
    """Numbers and weights of accounts; only grows, and is shared by all futures."""

    def __init__(self, quotas: Mapping[QuotaId, Quota]) -> None:
        self.quotas: Final = quotas
        self.keys: Final[list[ProjectUser]] = []
        self._numbers: dict[ProjectUser, int] = {}
        self._projects: dict[str, int] = {}
        self.project: IntArray = np.zeros(0, dtype=np.int64)
        """[accounts] number of the account's project."""
        self.project_weight: Floats = np.zeros(0)
        """[accounts] weight of the account's project."""
        self.weights: Floats = np.zeros(0)
        """[projects] weight."""
        self.user_weight: Floats = np.zeros(0)
        """[accounts] weight of the user in it."""

    def of(self, key: ProjectUser) -> int:
        """The number of an account."""
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.keys)
            self.keys.append(key)
            project, user = key
            if project not in self._projects:
                self.weights = np.append(self.weights, self._weight(QuotaScope.PROJECT, project))
            place = self._projects.setdefault(project, len(self._projects))
            self.project = np.append(self.project, place)
            self.project_weight = np.append(self.project_weight, self.weights[place])
            self.user_weight = np.append(self.user_weight, self._weight(QuotaScope.USER, user))
        return number

    @property
    def projects(self) -> int:
        """Number of projects."""
        return len(self._projects)

    def _weight(self, scope: QuotaScope, name: str) -> int:
        return weight_of(self.quotas.get(quota_id(scope, name)))


class AccountUsage:
    """All accounts in one simulated future."""

    def __init__(self, names: AccountNames, usage: Usage) -> None:
        self._names = names
        self._half_life_ms = usage.half_life_ms
        self._used: list[int] = []
        self._at_us: list[int] = []
        self._holds: list[int] = []
        self._waiting: list[int] = []
        """How many rows of each account are in the queue."""
        self._columns: Floats = np.zeros((2, 0))
        """[2, accounts] at the time of reference: usage, and usage less what the present rate leads to in the long run.
        Of an account whose rate has changed since then: what they would have been with the present rate."""
        self._reference_us = max([balance.at_us for balance in usage.balances.values()], default=0)
        self._per_us = LN2 / (usage.half_life_ms * 1000)
        """Decay of usage, natural logarithm per microsecond."""
        self._held_milli = 0
        """Of all accounts."""
        self._groups: _Groups | None = None
        """None = outdated."""
        self._faint_from_us = 0
        """Until then, usage of no faint account falls to nearly nothing."""
        for key, balance in usage.balances.items():
            number = names.of(key)
            self._grow(number)
            self._used[number], self._at_us[number] = balance.used, balance.at_us
            self._holds[number] = balance.holds_milli
            self._held_milli += balance.holds_milli
            self._write(number)

    def copy(self) -> "AccountUsage":
        """An independent copy."""
        other = copy(self)
        other._used, other._at_us = self._used.copy(), self._at_us.copy()
        other._holds, other._waiting = self._holds.copy(), self._waiting.copy()
        other._columns = self._columns.copy()
        return other

    def wait(self, number: int, change: int) -> None:
        """Count rows that join (1) or leave (-1) the queue."""
        self._grow(number)
        before = self._waiting[number]
        self._waiting[number] = before + change
        if (before == 0 or before + change == 0) and not (self._used[number] or self._holds[number]):
            self._groups = None

    def hold(self, number: int, rate_milli: int, *, now_us: int) -> None:
        """Charge an account for `rate_milli` more from now on; negative = less."""
        self._grow(number)
        if not (self._used[number] or self._holds[number] or self._waiting[number]):
            self._groups = None
        if now_us > self._at_us[number]:
            self._used[number] = used_after(
                self._used[number],
                self._holds[number],
                now_us - self._at_us[number],
                half_life_ms=self._half_life_ms,
            )
            self._at_us[number] = now_us
        self._holds[number] += rate_milli
        self._held_milli += rate_milli
        self._write(number)

    def fairness(self, *, now_us: int) -> Floats | None:
        """[accounts] fairness of those that wait, within `TOLERANCE` of `exact`; None if that is not certain."""
        groups = self._groups
        if groups is None:
            groups, self._faint_from_us = self._grouped(), 0
            self._groups = groups
        if not groups.is_certain:
            return None
        at_reference, change = self._columns
        used = change * expm1((self._reference_us - now_us) * self._per_us)
        used += at_reference
        total = float(np.add.reduce(used))
        held = self._held_milli * self._half_life_ms * ERROR_PER_HELD + 2 * len(used)
        if total < held * groups.ratio * CERTAIN:
            return None
        if groups.faint is not None and now_us >= self._faint_from_us:
            least = float(used.take(groups.faint).min())
            if least < FAINT:
                return None
            # Usage falls no faster than it decays.
            self._faint_from_us = now_us + int(log(least / FAINT) / self._per_us)
        of_project: Floats = np.bincount(groups.project, used).take(groups.project) * groups.of_project
        of_project += total
        used *= groups.of_user
        used += total
        terms: Floats = of_project + used
        of_project *= used
        terms /= of_project
        terms *= total * (PARTS_PER_ONE / 2)
        return terms

    def exact(self, *, now_us: int) -> Floats:
        """[accounts] the exact terms of those that wait."""
        keys = self._names.keys
        waiting = [number for number, count in enumerate(self._waiting) if count]
        balances = {keys[number]: self._balance(number) for number in range(len(self._used))}
        usage = Usage(balances=balances, half_life_ms=self._half_life_ms)
        found = [keys[number] for number in waiting]
        shares = Shares(usage, waiting=found, quotas=self._names.quotas, now_us=now_us)
        terms = np.zeros(len(self._used))
        for number in waiting:
            terms[number] = shares.fairness(*keys[number])
        return terms

    def _grouped(self) -> "_Groups":
        """Weights among the accounts that have used something or wait."""
        names, count = self._names, len(self._used)
        project, user_weight = names.project[:count], names.user_weight[:count]
        waits = np.array(self._waiting) > 0
        has_used = np.array([bool(used or holds) for used, holds in zip(self._used, self._holds, strict=True)])
        is_there = waits | has_used
        users_weight = np.bincount(project, np.where(is_there, user_weight, 0.0), names.projects).take(project)
        is_project_there = np.bincount(project, is_there, names.projects) > 0
        weight = float(names.weights[is_project_there].sum())
        own = names.project_weight[:count] * user_weight
        least = float(own.min()) if count else 1.0
        own = np.maximum(own, 1.0)
        faint = (has_used & ~waits).nonzero()[0]
        ratio = weight * float(users_weight.max(initial=0.0)) / max(least, 1.0)
        return _Groups(
            project=project,
            of_project=weight / np.maximum(names.project_weight[:count], 1.0),
            of_user=weight * users_weight / own,
            faint=faint if len(faint) else None,
            is_certain=least > 0 and ERROR_PER_USED * ratio * CERTAIN <= 1,
            ratio=ratio,
        )

    def _balance(self, number: int) -> UsageBalance:
        return UsageBalance(used=self._used[number], at_us=self._at_us[number], holds_milli=self._holds[number])

    def _write(self, number: int) -> None:
        """Bring the columns of an account up to date."""
        passed = (self._at_us[number] - self._reference_us) * self._per_us
        if passed > 1:
            self._refer_to(self._at_us[number])
            passed = 0.0
        long_run = self._holds[number] * (self._half_life_ms / LN2)
        change = (self._used[number] - long_run) * exp(passed)
        self._columns[0, number] = long_run + change
        self._columns[1, number] = change

    def _refer_to(self, at_us: int) -> None:
        """Move the time of reference; `exp` of the time since then stays small."""
        decayed = expm1((self._reference_us - at_us) * self._per_us)
        self._columns[0] += self._columns[1] * decayed
        self._columns[1] *= 1 + decayed
        self._reference_us = at_us

    def _grow(self, number: int) -> None:
        while len(self._used) <= number:
            for column in (self._used, self._at_us, self._holds, self._waiting):
                column.append(0)
            self._columns = np.concatenate([self._columns, np.zeros((2, 1))], axis=1)
            self._groups = None


class _Groups(Struct, frozen=True, kw_only=True):
    """What fairness reads of the accounts, apart from usage; [accounts]."""

    project: IntArray
    of_project: Floats
    """Weights of all projects / weight of the account's project."""
    of_user: Floats
    """The same of the user, relative to the whole cluster."""
    faint: IntArray | None
    """Accounts that take part for what they have used alone; they no longer do once that is 0. None = there is none."""
    is_certain: bool
    """Whether all weights are above 0, and alike enough for floating point."""
    ratio: float
    """The largest ratio of weights."""
