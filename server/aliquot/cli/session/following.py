"""Following what a session prints, through all of its attempts."""

import sys
from contextlib import closing
from typing import TYPE_CHECKING, Final

from aliquot.cli.session.interruption import undivided
from aliquot.cli.session.waiting import status_line

if TYPE_CHECKING:
    from aliquot.client import BlockingClient
    from aliquot.client.generated.queue import LogChunk
    from aliquot.client.generated.session_log import SessionLog
    from aliquot.client.generated.sessions import Session

RANKS_MAX: Final = 64
"""So many outputs are followed at one time; each takes a connection."""


class Follower:
    """Prints the output; `run` may be called again after it was interrupted, and goes on where it was."""

    def __init__(self, client: "BlockingClient", id: str) -> None:
        self._client = client
        self._id = id
        self._attempt = 0
        self._offsets: dict[int, int] = {}
        self._printer: RankPrinter | None = None

    def run(self) -> "Session":
        """Follow until the end, and return the session as it ended.

        Raises:
            NotFound: there is no such session.
        """
        while True:
            self._print_attempt()
            session = self._until_news()
            if session.attempt > self._attempt:
                self._begin(session)
            else:
                return session

    def _print_attempt(self) -> None:
        if self._printer is None:
            return
        for chunk in self._client.outputs(self._id, offsets=self._offsets, attempt=self._attempt):
            with undivided():
                self._printer.print(chunk)
                self._offsets[chunk.rank] = chunk.next_offset
        self._printer.end()

    def _until_news(self) -> "Session":
        """Wait for the session's end, or for an attempt that was not printed yet."""
        with status_line() as tell, closing(self._client.course(self._id)) as looks:
            for session in looks:
                if session.attempt > self._attempt:
                    break
                tell(session)
        return session

    def _begin(self, session: "Session") -> None:
        if self._attempt:
            print(f"aliquot: {self._id} is tried again: attempt {session.attempt}", file=sys.stderr)
        self._attempt = session.attempt
        ranks = min(RANKS_MAX, session.cluster_size)
        if ranks < session.cluster_size:
            print(f"aliquot: ranks 0 to {ranks - 1} of {session.cluster_size} are shown", file=sys.stderr)
        self._offsets = dict.fromkeys(range(ranks), 0)
        self._printer = RankPrinter(names_ranks=session.cluster_size > 1)


class RankPrinter:
    """Prints output as it is; that of several ranks line by line, each with its rank before it."""

    def __init__(self, *, names_ranks: bool) -> None:
        self._names_ranks = names_ranks
        self._begun: dict[int, str] = {}
        """By rank, a line whose end has not come yet."""

    def print(self, chunk: "LogChunk | SessionLog") -> None:
        """Print what can be printed of it."""
        self.say(chunk.rank, chunk.text)

    def say(self, rank: int, text: str) -> None:
        """Print what can be printed of a text."""
        if not self._names_ranks:
            print(text, end="", flush=True)
            return
        *lines, rest = (self._begun.get(rank, "") + text).split("\n")
        for line in lines:
            print(f"{rank}: {line}", flush=True)
        self._begun[rank] = rest

    def end(self) -> None:
        """Print the lines that have no end."""
        for rank, line in sorted(self._begun.items()):
            if line:
                print(f"{rank}: {line}", flush=True)
        self._begun.clear()
