"""Transfers: how far the files of sessions that start are on their way to agents. Only a leader knows it."""

from dataclasses import dataclass

from aliquot_schema.resources.units import size_text

TRIES_MAX = 5
"""Tries of a kernel in a row that bring no block; the agent then refuses its order with the last reason."""


@dataclass(slots=True)
class Transfer:
    """The transfer of the workspace of a kernel that has not started."""

    bytes_total: int = 0
    """Of the blocks that the agent lacked when this try began."""
    bytes_done: int = 0
    lacking: int | None = None
    """Blocks that the agent lacked then; None = it did not say."""
    tries: int = 0
    """Failed in a row since a block arrived."""
    fault: str | None = None
    """Why the last try failed, for people; None = it goes on, or waits for other transfers to its agent."""
    waits_since: float | None = None
    """Monotonic time at which the server could not read the files, and could not since; None = it can."""
    is_complete: bool = False
    """The agent has the files; the kernel starts together with the other ranks."""

    def begin(self, *, lacking: int, bytes_total: int) -> None:
        """The agent said what it lacks. If that is less than before, the last try made progress."""
        if self.lacking is None or lacking < self.lacking:
            self.tries = 0
        self.lacking, self.bytes_total, self.bytes_done = lacking, bytes_total, 0
        self.waits_since = None

    def took(self, size: int) -> None:
        """The agent took a piece."""
        self.bytes_done += size

    def retry(self) -> None:
        """The next try begins."""
        self.is_complete, self.fault = False, None

    def complete(self) -> None:
        """The agent has stored all files."""
        self.is_complete, self.fault = True, None

    def fail(self, why: str) -> None:
        """A try has failed."""
        self.tries += 1
        self.fault = f"receiving files failed, {self.tries} of {TRIES_MAX} tries: {why}"

    def wait(self, why: str, *, now: float) -> float:
        """The server cannot read the files for now, which counts as no try. Returns for how long, in seconds."""
        if self.waits_since is None:
            self.waits_since = now
        self.fault = f"waiting for the server to read the files: {why}"
        return now - self.waits_since

    @property
    def text(self) -> str:
        """For people: `receiving files: 120 MiB of 300 MiB`."""
        if self.fault is not None:
            return self.fault
        if self.is_complete:
            return "has its files; waiting until the other ranks have theirs"
        if self.lacking is None:
            return "waiting to receive files"
        return f"receiving files: {size_text(self.bytes_done)} of {size_text(self.bytes_total)}"
