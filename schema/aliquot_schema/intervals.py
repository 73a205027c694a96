"""Interval sets: sets of whole numbers as sorted spans, for the indices of job arrays."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator

from msgspec import Struct

from aliquot_schema.errors import InvalidRequest


class Intervals(Struct, frozen=True):
    """An immutable set of numbers >= 0, iterated in ascending order."""

    spans: tuple[tuple[int, int], ...] = ()
    """(first, last), both inclusive; ascending, not overlapping, not adjacent."""

    @classmethod
    def of(cls, numbers: Iterable[int]) -> "Intervals":
        """The set of these numbers, given in any order."""
        return cls.joined((number, number) for number in numbers)

    @classmethod
    def joined(cls, spans: Iterable[tuple[int, int]]) -> "Intervals":
        """The union of spans, which may overlap and be in any order."""
        found: list[tuple[int, int]] = []
        for first, last in sorted(spans):
            if found and first <= found[-1][1] + 1:
                found[-1] = (found[-1][0], max(found[-1][1], last))
            else:
                found.append((first, last))
        return cls(tuple(found))

    @classmethod
    def parse(cls, text: str) -> "Intervals":
        """Read `0-99,105`.

        Raises:
            InvalidRequest: the text has another form, or a span runs backwards.
        """
        return cls.joined(_span(part.strip()) for part in text.split(","))

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self.spans)

    def __iter__(self) -> Iterator[int]:
        for first, last in self.spans:
            yield from range(first, last + 1)

    def __contains__(self, number: object) -> bool:
        if not isinstance(number, int):
            return False
        index = bisect_right(self.spans, number, key=lambda span: span[0]) - 1
        return index >= 0 and number <= self.spans[index][1]

    def __str__(self) -> str:
        return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in self.spans)

    def nth(self, place: int) -> int:
        """The number at a position, from 0.

        Raises:
            IndexError: the set is smaller.
        """
        for first, last in self.spans:
            if place <= last - first:
                return first + place
            place -= last - first + 1
        raise IndexError("position is beyond the end of the set")

    def with_number(self, number: int) -> "Intervals":
        """The set with one more number."""
        return self if number in self else Intervals.joined((*self.spans, (number, number)))

    def without(self, number: int) -> "Intervals":
        """The set without a number."""
        if number not in self:
            return self
        pieces = [
            piece
            for first, last in self.spans
            for piece in (((first, number - 1), (number + 1, last)) if first <= number <= last else ((first, last),))
        ]
        return Intervals(tuple((first, last) for first, last in pieces if first <= last))


def _span(part: str) -> tuple[int, int]:
    ends = part.split("-")
    if len(ends) > 2 or not all(end.isascii() and end.isdigit() and len(end) <= 9 for end in ends):
        limit = "; a limit of tasks at one time is max_parallel" if "%" in part else ""
        raise InvalidRequest(f"array: {part[:32]!r} is not an index; write indices like 0-99,105{limit}", field="array")
    first, last = int(ends[0]), int(ends[-1])
    if first > last:
        raise InvalidRequest(f"array: {part!r} runs backwards; write {last}-{first}", field="array")
    return first, last
