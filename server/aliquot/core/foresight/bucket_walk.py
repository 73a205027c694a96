"""Bucket walk: the first sessions of all buckets in the order of the queue, with the scores of `scheduler.ordering`.

Scores are first computed in floating point. Where two that matter are too close to tell apart, all of them are computed
again: with fairness alone in floating point, and if that is not enough, in integers.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from aliquot.core.foresight.accounts import TOLERANCE, AccountUsage, Floats
from aliquot.core.foresight.buckets import Bucket, Buckets, Waiting
from aliquot.core.model.queue import IntArray
from aliquot.core.scheduler.backlog import PARTS_OF_POOL
from aliquot.core.scheduler.ordering import AGED, DURATION_MAX_MS
from aliquot.core.scheduler.shares import PARTS_PER_ONE
from aliquot_schema.ids import SessionId
from aliquot_schema.policies import Weights

SCORED: Final = frozenset({"fair_share", "relative_age", "priority", "sjf", "fcfs", "gang"})
"""The order policies whose scores are known here."""
ROUNDED: Final = 5
"""Ages are rounded down by up to 5 millionths: the wait to a millisecond, of a unit of at least an hour, and the
quotient, by 1.3 together, which count 2.5 times for the whole pool, and what is added for the part of the pool."""
Entry = tuple[float, int]
"""Score and number of the bucket: the highest score is next, then the earliest submission, then the lowest id."""
LOWEST: Final = -np.inf
"""Below every score."""
Flags = npt.NDArray[np.bool_]


class BucketScores:
    """Scores of buckets at one time, as exact as is needed."""

    def __init__(
        self,
        buckets: Buckets,
        waiting: Waiting,
        accounts: AccountUsage,
        *,
        order: str,
        weights: Weights,
        units: Sequence[int],
        now_us: int,
    ) -> None:
        """
        Args:
            units: [pools] unit of age, for orders that go by relative age.
        """
        self._columns: Final = buckets.columns()
        self._waiting: Final = waiting
        self._accounts: Final = accounts
        self._order: Final = order
        self._weights: Final = weights
        self._units: Final = units
        self._now_us: Final = now_us
        self._fair: Final = weights.fair if order == "fair_share" else 0
        terms = accounts.fairness(now_us=now_us) if self._fair else None
        self._terms: Final[Floats | None] = terms
        """[accounts] fairness in floating point; None = it is not certain, or no part of the score."""
        self._fairness: IntArray | None = None
        """[accounts] in millionths; None = no part of the score."""
        self.is_rough = order in AGED and not (self._fair and terms is None) and waiting.is_past(now_us)
        """Whether the whole score is in floating point."""
        self.tolerance = 0
        """Scores of different accounts that differ by no more may be in another order; so may any rough ones.
        0 = they are exact."""
        self._rates: list[float] = []
        """[pools] age per microsecond."""
        if self.is_rough:
            self.tolerance = self._fair * (TOLERANCE + 2) + weights.age * ROUNDED + 1
            self._rates = [weights.age * PARTS_PER_ONE / (1000 * unit) for unit in units]
        else:
            self._to_integers()

    def refine(self) -> None:
        """Compute scores more exactly from now on."""
        if self.is_rough:
            self._to_integers()
        else:
            self._fairness, self.tolerance = self._accounts.exact(now_us=self._now_us).astype(np.int64), 0

    def rough(self) -> Floats:
        """The scores of the first sessions of all filled buckets, in floating point."""
        filled, rates = self._waiting.filled, self._rates
        heads, growth, fixed = filled.floats
        accounts, _, pools = filled.ints
        scores: Floats = self._now_us - heads
        scores *= growth
        scores *= rates[0] if len(rates) == 1 else np.array(rates).take(pools)
        scores += fixed
        if self._terms is not None:
            scores += (self._terms * self._fair).take(accounts)
        return scores

    def of(self, numbers: IntArray, heads: IntArray) -> IntArray:
        """The scores of sessions of some buckets."""
        account, _, pool, gain, fixed = self._columns.ints.take(numbers, axis=1)
        scores: IntArray = fixed
        if self._order in AGED:
            waited_ms = np.maximum(self._now_us - heads, 0) // 1000
            units = np.array(self._units, dtype=np.int64).take(pool)
            age = np.minimum(waited_ms, DURATION_MAX_MS) * PARTS_PER_ONE // units
            age += age * gain // PARTS_OF_POOL
            scores = fixed + self._weights.age * age
        elif self._order == "priority":
            scores = fixed - heads
        elif self._order == "sjf":
            scores = fixed + (self._now_us - heads) // 1000 * self._weights.sjf_age_pct
        if self._fairness is not None:
            scores = scores + self._fair * self._fairness.take(account)
        return scores

    def of_one(self, bucket: Bucket, *, queued_us: int) -> float:
        """The score of a session of a bucket, in plain numbers."""
        if not self.is_rough:
            return int(self.of(np.array([bucket.number]), np.array([queued_us]))[0])
        score = bucket.fixed + (self._now_us - queued_us) * bucket.growth * self._rates[bucket.pool]
        return score if self._terms is None else score + self._fair * float(self._terms[bucket.account])

    def _to_integers(self) -> None:
        self.is_rough = False
        if self._fair and self._terms is None:
            self.refine()
        elif self._terms is not None:
            self._fairness, self.tolerance = self._terms.astype(np.int64), self._fair * TOLERANCE
        else:
            self.tolerance = 0


class BucketWalk:
    """One walk; buckets that cannot matter are left out."""

    def __init__(
        self,
        buckets: Buckets,
        waiting: Waiting,
        *,
        scores: BucketScores,
        rooms: Sequence[bool] | None,
        is_whole: bool = False,
    ) -> None:
        """
        Args:
            rooms: [kinds] whether there is room for the kind; of a kind without room, the first session alone matters,
                as it may get the reservation. None = all sessions matter.
            is_whole: whether the first sessions of all kinds without room are needed, not just the first of them all.
        """
        self._buckets = buckets
        self._columns = buckets.columns()
        self._waiting = waiting
        self._scores = scores
        self._rooms: Flags | None = None if rooms is None else np.array(rooms)
        self._extra: list[Entry] = []
        """Sessions behind started ones, the next one last."""
        self._ahead: list[Entry] = []
        self.is_whole: Final = is_whole or rooms is None
        """Whether no session is left out that would matter if the first one without room got no reservation."""
        if scores.is_rough and not self._sort_roughly():
            scores.refine()
        if not scores.is_rough:
            self._sort(np.array(waiting.filled.numbers, dtype=np.int64))

    def next(self) -> Bucket | None:
        """The bucket whose first session is next."""
        extra, ahead, found = self._extra, self._ahead, self._buckets.found
        if not extra:
            return found[ahead.pop()[1]] if ahead else None
        if self._scores.tolerance:
            rivals = [*extra[-2:-1], *ahead[-1:]]
            if any(self._is_close(extra[-1], other) for other in rivals):
                numbers = [entry[1] for entry in (*extra, *ahead)]
                self._scores.refine()
                extra.clear()
                self._sort(np.array(numbers))
                return self.next()
        line = extra if not ahead or self._with_id(extra[-1]) < self._with_id(ahead[-1]) else ahead
        return found[line.pop()[1]]

    def started(self, bucket: Bucket) -> None:
        """The first session of the bucket that `next` gave last has started; the one behind it takes its place."""
        place = self._waiting.first(bucket.number)
        if place is not None:
            score = self._scores.of_one(bucket, queued_us=place[0])
            self._extra.append((score, bucket.number))
            if len(self._extra) > 1:
                self._extra.sort(key=self._with_id, reverse=True)

    def _sort(self, numbers: IntArray) -> None:
        """Set the sessions ahead to the first ones of some buckets."""
        firsts = [self._waiting.first(number) for number in numbers.tolist()]
        heads = np.array([place[0] for place in firsts if place is not None], dtype=np.int64)
        scores = self._scores.of(numbers, heads)
        order = np.lexsort((-heads, scores))
        numbers, heads, scores = numbers.take(order), heads.take(order), scores.take(order)
        account = self._columns.ints[0].take(numbers)
        gaps, tolerance = scores[1:] - scores[:-1], self._scores.tolerance
        # On short arrays `count_nonzero` takes a fraction of the time of `any`.
        if tolerance and np.count_nonzero((gaps <= tolerance) & (account[1:] != account[:-1])):
            self._scores.refine()
            self._sort(numbers)
            return
        entries: list[Entry] = list(zip(scores.tolist(), numbers.tolist(), strict=True))
        if np.count_nonzero(gaps) < len(gaps) and np.count_nonzero((gaps == 0) & (heads[1:] == heads[:-1])):
            entries.sort(key=self._with_id, reverse=True)
        if self._rooms is not None:
            kinds = self._columns.ints[1].take([entry[1] for entry in entries])
            matter = self._that_matter(kinds, self._rooms)
            entries = [entries[place] for place in matter.nonzero()[0].tolist()]
        self._ahead = entries

    def _sort_roughly(self) -> bool:
        """Set the sessions ahead by rough scores; False if one that matters is too close to another one."""
        scores = self._scores.rough()
        kinds = self._waiting.filled.ints[1]
        places: IntArray | None = None
        if not self.is_whole:
            places = self._first_blocked_and_open(kinds, scores)
            if places is None:
                return False
            scores = scores.take(places)
        order = scores.argsort()
        scores = scores.take(order)
        places = order if places is None else places.take(order)
        close = scores[1:] - scores[:-1] <= self._scores.tolerance
        is_close = np.count_nonzero(close) > 0
        if self._rooms is not None and self.is_whole:
            matter = self._that_matter(kinds.take(places), self._rooms)
            if is_close and np.count_nonzero(close & (matter[1:] | matter[:-1])):
                return False
            scores, places = scores[matter], places[matter]
        elif is_close:
            return False
        numbers = self._waiting.filled.numbers
        self._ahead = list(zip(scores.tolist(), [numbers[place] for place in places.tolist()], strict=True))
        return True

    def _first_blocked_and_open(self, kinds: IntArray, scores: Floats) -> IntArray | None:
        """Places of the first bucket without room and of all with room; None if it is not certain which is first."""
        assert self._rooms is not None, "without rooms all sessions matter"
        is_open = self._rooms.take(kinds)
        blocked = np.where(is_open, LOWEST, scores)
        first = int(blocked.argmax())
        highest = float(blocked[first])
        if highest != LOWEST:
            blocked[first] = LOWEST
            if highest - float(blocked[blocked.argmax()]) <= self._scores.tolerance:
                return None
            is_open[first] = True
        return is_open.nonzero()[0]

    def _that_matter(self, kinds: IntArray, rooms: Flags) -> Flags:
        """Which of the buckets, the next one last, are of a kind with room, or the first ones of their kind.

        Args:
            kinds: of the buckets.
        """
        matter: Flags = rooms.take(kinds)
        first = np.full(len(rooms), len(kinds) - 1)
        first[kinds] = np.arange(len(kinds))
        matter[first] = True
        return matter

    def _with_id(self, entry: Entry) -> tuple[float, int, SessionId]:
        """Sorts the next one first."""
        place = self._waiting.first(entry[1])
        assert place is not None, "an empty bucket is not ahead"
        return -entry[0], *place

    def _is_close(self, entry: Entry, other: Entry) -> bool:
        account = self._columns.ints[0]
        is_same = not self._scores.is_rough and account[entry[1]] == account[other[1]]
        return not is_same and abs(entry[0] - other[0]) <= self._scores.tolerance
