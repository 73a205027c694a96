"""Sets of whole numbers as intervals: the indices of a job array, however many, in one short value."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from aliquot_schema.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class Intervals:
    """Numbers >= 0, ascending. Immutable; a change makes a new value."""

    spans: tuple[tuple[int, int], ...] = ()
    """(first, last), both inclusive; ascending, and neither overlapping nor touching."""

    @classmethod
    def of(cls, numbers: Iterable[int]) -> "Intervals":
        """The set of these numbers, in any order."""
        return cls.joined((number, number) for number in numbers)

    @classmethod
    def joined(cls, spans: Iterable[tuple[int, int]]) -> "Intervals":
        """The union of spans, which may overlap and stand in any order."""
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
            InvalidRequest: it is written in another way, or a span runs backwards.
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
        """The number at a place, from 0.

        Raises:
            IndexError: there are not so many.
        """
        for first, last in self.spans:
            if place <= last - first:
                return first + place
            place -= last - first + 1
        raise IndexError("there are not so many numbers")

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
        raise InvalidRequest(f"array: {part[:32]!r} is no index; write indices like 0-99,105", field="array")
    first, last = int(ends[0]), int(ends[-1])
    if first > last:
        raise InvalidRequest(f"array: {part!r} runs backwards; write {last}-{first}", field="array")
    return first, last
