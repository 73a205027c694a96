"""The writer: windows that are whole become blocks, which wait until the database takes them."""

from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from itertools import islice
from typing import Final

from aliquot.service.history.grids import Stretch
from aliquot.service.history.measures import MEASURES, Kind
from aliquot.service.history.samples import Sample
from aliquot.store.history import rows
from aliquot.store.history.blocks import decode, encode
from aliquot.store.history.rows import Block
from aliquot.store.history.windows import SeriesKey, Windows
from aliquot.store.store import Work

WAITING_MAX: Final = 20_000
"""Blocks that the database did not take; above this the oldest are lost. With 1,000 agents this is over an hour."""
AT_ONCE: Final = 100
"""In one transaction."""

Write = Callable[[Work[dict[SeriesKey, int]]], Awaitable[dict[SeriesKey, int]]]


class Writer:
    """Used in one thread."""

    def __init__(self) -> None:
        self._windows = Windows()
        self._waiting: deque[Block] = deque(maxlen=WAITING_MAX)
        self._known: dict[SeriesKey, int] = {}

    def take(self, sample: Sample) -> None:
        """Keep a sample."""
        self._encode(self._windows.take(sample))

    def end_old(self, now_us: int) -> None:
        """Windows that nothing comes for any more become blocks."""
        self._encode(self._windows.ended(now_us))

    def end_all(self) -> None:
        """All windows become blocks."""
        self._encode(self._windows.all())

    async def write(self, write: Write) -> None:
        """Hand the database what waits; what it does not take goes on waiting."""
        while self._waiting:
            some = list(islice(self._waiting, AT_ONCE))
            self._known |= await write(partial(rows.add_raw, blocks=some, known=self._known))
            for _ in some:
                self._waiting.popleft()

    @property
    def has_blocks(self) -> bool:
        """Whether something waits for the database."""
        return bool(self._waiting)

    def unwritten(self, kind: Kind, name: str) -> Iterable[Stretch]:
        """What is in memory alone, of an agent or of the queue."""
        blocks = [decode(body, MEASURES[kind], key.devices) for key, _, body in self._waiting if key.is_of(kind, name)]
        return [*blocks, *self._windows.peek(kind, name)]

    def is_open(self, key: SeriesKey) -> bool:
        """Whether something of a series is in memory."""
        return key in self._windows or any(key == waiting for waiting, _, _ in self._waiting)

    def forget(self, key: SeriesKey | None = None) -> None:
        """A series is no longer in the database; None: none of them is."""
        if key is None:
            self._known.clear()
        else:
            self._known.pop(key, None)

    def _encode(self, whole: Iterable[tuple[SeriesKey, Stretch]]) -> None:
        for key, stretch in whole:
            body = encode(stretch, MEASURES[key.kind], has_maxima=False)
            self._waiting.append((key, int(stretch.at_us[0]), body))
