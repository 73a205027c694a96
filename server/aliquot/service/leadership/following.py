"""Following: the state is kept up with the log, whichever server writes it."""

import logging
from typing import Final

from aliquot.service.journal import Journal
from aliquot.service.leadership.canceling import raise_if_canceled
from aliquot.service.leadership.ports import News
from aliquot.service.ports import StoreUnavailable

POLL_S: Final = 2.0
"""The log is looked at so often even when nobody tells that it has grown."""

log: Final = logging.getLogger("aliquot.following")


class Following:
    """Followers and the leader do it alike: the others commit what people ask them for."""

    def __init__(self, *, journal: Journal, news: News) -> None:
        self._journal = journal
        self._news = news
        self.fault: str | None = None
        """Why the log cannot be read now, in words; None when it can."""

    async def run(self) -> None:
        """Follow for ever."""
        while True:
            await self._news.wait(seconds=POLL_S)
            await self.run_once()
            raise_if_canceled()

    async def run_once(self) -> None:
        """Take in all that was committed so far. A store that is away is tried again the next time."""
        try:
            while await self._journal.catch_up():
                pass
        except StoreUnavailable as error:
            if self.fault is None:
                log.error("the log cannot be followed now: %s", error)
            self.fault = str(error)
            return
        if self.fault is not None:
            log.warning("the log is followed again")
        self.fault = None
