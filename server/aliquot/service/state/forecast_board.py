"""Forecast board: when sessions are forecast to start, and how accurate such forecasts were. Not durable.

The leader fills it with the answers of the forecast process; followers receive it from the leader. Forecasts of
sessions that are not submitted are asked for one by one, from the leader only.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from msgspec import Struct, field

from aliquot.core.foresight.forecast import HypotheticalSession
from aliquot.core.foresight.scoring import AccuracyReport
from aliquot.core.foresight.shown_forecasts import (
    ForecastOutcome,
    PackedForecast,
    PackedRecord,
    ShownForecast,
)
from aliquot_schema.errors import Unavailable
from aliquot_schema.ids import SessionId, UserId

STARTED_KEPT: Final = 2_000
"""Sessions that wait no longer whose first forecast is kept, the newest."""
NOT_YET: Final = "no forecast has been made yet"
SWITCHED_OFF: Final = "forecasts are switched off"


class BoardContent(Struct, frozen=True, kw_only=True):
    """Everything on a board."""

    now: Mapping[SessionId, PackedForecast] = field(default_factory=dict)
    """The newest forecast of each waiting session."""
    first: Mapping[SessionId, PackedRecord] = field(default_factory=dict)
    """The first forecast of each, also of sessions that wait no longer."""
    accuracy: AccuracyReport = field(default_factory=AccuracyReport)
    missing: str | None = NOT_YET
    """Why forecasts are not being made; None = they are."""
    made_us: int | None = None
    """When the newest forecasts of the whole queue were made."""


class ForecastBoard:
    """The forecasts of one server."""

    def __init__(self) -> None:
        self.now: dict[SessionId, PackedForecast] = {}
        """The newest forecast of each waiting session."""
        self.first: dict[SessionId, PackedRecord] = {}
        """The first forecast of each session, with its outcome, also of sessions that wait no longer."""
        self._gone: dict[SessionId, None] = {}
        """Sessions in `first` that wait no longer."""
        self.accuracy = AccuracyReport()
        self.missing: str | None = NOT_YET
        self.made_us: int | None = None
        self.changes = 0
        """Rises with every change that followers should know of."""
        self.seen_us = 0
        """The present time when the board was looked after last: a start before it is not expected any more."""

    def show(self, forecasts: Iterable[ShownForecast]) -> None:
        """Put new forecasts of waiting sessions on the board."""
        self.changes += 1
        self.now.update((one.forecast.session_id, PackedForecast.of(one)) for one in forecasts)

    def put(self, record: PackedRecord) -> None:
        """Put the first forecast of a session on the board, or its outcome."""
        self.changes += 1
        self.first[record.session_id] = record
        is_settled = record.outcome not in (ForecastOutcome.WAITING, ForecastOutcome.LATE)
        if is_settled and record.session_id not in self._gone:
            # Later news are about a first attempt that has ended: a job array may have a new forecast since.
            self.now.pop(record.session_id, None)
            self._gone[record.session_id] = None
            if len(self._gone) > STARTED_KEPT:
                oldest = next(iter(self._gone))
                del self._gone[oldest], self.first[oldest]

    def withdraw(self, session_id: SessionId) -> None:
        """A session waits no longer."""
        self.now.pop(session_id, None)

    def tick(self, now_us: int) -> None:
        """The time goes on."""
        self.seen_us = now_us

    def report(self, accuracy: AccuracyReport, *, made_us: int | None) -> None:
        """Note an answer of the forecast process.

        Args:
            made_us: None = it was about some of the sessions only.
        """
        self.changes += 1
        self.accuracy, self.missing = accuracy, None
        self.made_us = self.made_us if made_us is None else made_us

    def lack(self, missing: str | None) -> None:
        """Note why no forecasts are made now; None = they are."""
        self.changes += 1
        self.missing = missing

    def content(self) -> BoardContent:
        """Everything on it, for the followers."""
        return BoardContent(
            now=dict(self.now),
            first=dict(self.first),
            accuracy=self.accuracy,
            missing=self.missing,
            made_us=self.made_us,
        )

    def replace(self, content: BoardContent) -> None:
        """Take over the leader's board."""
        self.now, self.first, self._gone = dict(content.now), dict(content.first), {}
        self.accuracy, self.missing, self.made_us = content.accuracy, content.missing, content.made_us


ASKED_MAX: Final = 16
"""Questions about sessions that are not submitted that may be open at once."""
ASKED_BY_ONE_MAX: Final = 2
"""Open questions of one user. A newer one replaces the oldest: a form asks again with every change."""
ANSWER_S_MAX: Final = 120.0
REPLACED: Final = "newer forecasts were asked for meanwhile"
ELSEWHERE: Final = "the leading server makes forecasts of sessions that are not submitted; ask it"


class HypotheticalQuestion(Struct, frozen=True, kw_only=True):
    """A question about sessions that are not submitted, each of them alone."""

    sessions: tuple[HypotheticalSession, ...]
    answer: "asyncio.Future[tuple[ShownForecast | None, ...]]"
    """In the same order; None = too many sessions are ahead of it to tell."""
    by: UserId | None = None
    """The user who waits for the answer."""


class QuestionQueue:
    """Questions about sessions that are not submitted, on their way to the loop of the leader that answers them."""

    def __init__(self) -> None:
        self._open: deque[HypotheticalQuestion] = deque()
        self._is_served = False

    @contextmanager
    def served(self) -> Iterator[None]:
        """While this context is open, questions are taken."""
        self._is_served = True
        try:
            yield
        finally:
            self._is_served = False
            while (question := self.take()) is not None:
                question.answer.set_exception(Unavailable(ELSEWHERE))

    @property
    def is_served(self) -> bool:
        """Whether questions are taken."""
        return self._is_served

    async def ask(
        self, sessions: Iterable[HypotheticalSession], *, by: UserId | None = None
    ) -> tuple[ShownForecast | None, ...]:
        """Forecasts of these sessions, each as if it were submitted, or changed, alone.

        Args:
            by: the user who waits for them; only their newest `ASKED_BY_ONE_MAX` questions are answered.
        Raises:
            Unavailable: this server does not make forecasts now, or has too much to do.
        """
        if not self._is_served:
            raise Unavailable(ELSEWHERE)
        if by is not None:
            theirs = [question for question in self._open if question.by == by and not question.answer.done()]
            for question in theirs[: len(theirs) - ASKED_BY_ONE_MAX + 1]:
                question.answer.set_exception(Unavailable(REPLACED))
        if len(self) >= ASKED_MAX:
            raise Unavailable("many forecasts are being asked for; try again in a minute")
        answer: asyncio.Future[tuple[ShownForecast | None, ...]] = asyncio.get_running_loop().create_future()
        self._open.append(HypotheticalQuestion(sessions=tuple(sessions), answer=answer, by=by))
        try:
            async with asyncio.timeout(ANSWER_S_MAX):
                return await answer
        except TimeoutError:
            raise Unavailable("the forecast process has not answered; try again in a minute") from None

    def take(self) -> HypotheticalQuestion | None:
        """The next question that is still of interest; None = there is none."""
        while self._open:
            question = self._open.popleft()
            if not question.answer.done():
                return question
        return None

    def __len__(self) -> int:
        return sum(not question.answer.done() for question in self._open)
