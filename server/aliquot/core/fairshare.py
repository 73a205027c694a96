"""Fair share: what each user and project has used, forgotten by halves, in whole numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isqrt
from typing import Final

from aliquot_schema.ids import ProjectId, UserId

HALF_LIFE_MS: Final = 7 * 86_400_000
"""After this time a use counts half."""
PARTS_PER_ONE: Final = 1_000_000
_BITS: Final = 62
_FRACTION_BITS: Final = 40
"""Of the half-life: down to less than a microsecond of it."""
_DIGIT_BITS: Final = 8
_DIGIT_MAX: Final = 2**_DIGIT_BITS - 1
_LN2_E18: Final = 693_147_180_559_945_309


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What one user or project has used up to a time, and what it holds since."""

    used: int = 0
    """Milli of a device x milliseconds, decayed up to `at_us`."""
    at_us: int = 0
    holds_milli: int = 0

    def used_at(self, now_us: int) -> int:
        """What counts at a time that is not before `at_us`; what is held counts while it is held."""
        if now_us <= self.at_us or not (self.used or self.holds_milli):
            return self.used
        kept = decay(now_us - self.at_us)
        # The integral of a steady use that decays: rate x half-life / ln 2 x (1 - decay).
        grown = self.holds_milli * HALF_LIFE_MS * ((1 << _BITS) - kept) * 10**18 // _LN2_E18
        return (self.used * kept + grown) >> _BITS

    def held(self, milli: int, *, now_us: int) -> "Account":
        """The account once it holds more, or with a negative amount less."""
        return Account(used=self.used_at(now_us), at_us=now_us, holds_milli=self.holds_milli + milli)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The accounts. Immutable; `held` makes the next version."""

    users: Mapping[UserId, Account] = field(default_factory=dict)
    projects: Mapping[ProjectId, Account] = field(default_factory=dict)
    total: Account = field(default_factory=Account)
    """The sum of all users, and of all projects."""

    def held(self, milli: int, *, user: UserId, project: ProjectId, now_us: int) -> "Usage":
        """The accounts once a user holds more milli of devices for a project; less, with a negative amount."""
        return replace(
            self,
            users={**self.users, user: self.users.get(user, Account()).held(milli, now_us=now_us)},
            projects={**self.projects, project: self.projects.get(project, Account()).held(milli, now_us=now_us)},
            total=self.total.held(milli, now_us=now_us),
        )


def fairness(account: Account | None, *, total: Account, accounts: int, now_us: int) -> int:
    """In millionths: all of it for who has used nothing, a half at an equal share of what all used, less above.

    fairness = 1 / (1 + used x accounts / total).
    """
    used = account.used_at(now_us) if account is not None else 0
    if not used:
        return PARTS_PER_ONE
    total_used = max(total.used_at(now_us), used)
    return PARTS_PER_ONE * total_used // (total_used + used * accounts)


def decay(elapsed_us: int) -> int:
    """2 ** -(elapsed / half-life), as a part of 2**62. Whole numbers alone: the same on every machine."""
    halvings, rest = divmod(elapsed_us, HALF_LIFE_MS * 1000)
    fraction = (rest << _FRACTION_BITS) // (HALF_LIFE_MS * 1000)
    kept = 1 << _BITS
    for table in _DECAYS:
        kept = kept * table[fraction & _DIGIT_MAX] >> _BITS
        fraction >>= _DIGIT_BITS
    return kept >> halvings


def _decays() -> tuple[tuple[int, ...], ...]:
    """For each digit of the fraction, the lowest first, and each of its values: what is kept, as parts of 2**62."""
    roots = [isqrt(1 << (2 * _BITS - 1))]
    while len(roots) < _FRACTION_BITS:
        roots.append(isqrt(roots[-1] << _BITS))
    digits: list[list[int]] = []
    for start in range(0, _FRACTION_BITS, _DIGIT_BITS):
        lowest_first = roots[::-1][start : start + _DIGIT_BITS]
        digits.append([_product(value, lowest_first) for value in range(_DIGIT_MAX + 1)])
    return tuple(tuple(digit) for digit in digits)


def _product(value: int, roots: Sequence[int]) -> int:
    kept = 1 << _BITS
    for bit, root in enumerate(roots):
        if value >> bit & 1:
            kept = kept * root >> _BITS
    return kept


_DECAYS: Final = _decays()
