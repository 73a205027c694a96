"""Following of a session: prints its output through all attempts, shows its progress, and asks what to do on Ctrl-C."""

import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from aliquot.cli.connection.output import hole_text, print_json, printable, shown_controls
from aliquot.cli.session.show import is_pulling, progress_text

if TYPE_CHECKING:
    from rich.console import Console

    from aliquot.client import BlockingClient, GraphQLFault
    from aliquot.client.generated.queries_types import LogChunk
    from aliquot.client.generated.sessions import Session, SessionLog
    from aliquot.client.task_outputs import TaskChunk, TaskPosition

_DIGITS: Final = re.compile(r"[0-9]+")


class WaitReasons:
    """Prints on stderr why a session waits: at once, and when the reason changes. New numbers are no new reason."""

    def __init__(self) -> None:
        self._shown: str | None = None

    def show(self, session: "Session") -> None:
        """Print the reason, unless it was printed last."""
        from aliquot.client.generated.enums import SessionState

        if session.state is SessionState.HELD:
            self._print(session.id, "held", f"it is held; `aliquot session release {session.id}` lets it start")
        elif session.waits is not None:
            why = session.waits
            self._print(session.id, _DIGITS.sub("", f"{why.reason} {why.message}"), printable(why.message))
        elif is_pulling(session) and session.pull is not None:
            words = f"its image {session.image} is pulled on {session.pull.agent_id}"
            self._print(session.id, f"pull {session.pull.agent_id} {session.attempt}", printable(words))
        elif self._shown and session.started_at is not None:
            print(f"aliquot: {session.id} has started", file=sys.stderr, flush=True)
            self._shown = None

    def _print(self, id: str, key: str, words: str) -> None:
        if key != self._shown:
            self._shown = key
            print(f"aliquot: {id} waits: {words}", file=sys.stderr, flush=True)


class Choice(StrEnum):
    """What to do with the session after Ctrl-C."""

    LEAVE = "b"
    CANCEL = "c"
    STAY = "f"


@contextmanager
def deferred_interrupt() -> Iterator[None]:
    """Defer Ctrl-C to the end of a block that must not be interrupted; for the main thread."""
    received: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: received.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if received:
        raise KeyboardInterrupt


def ask_what_to_do(id: str) -> Choice:
    """Ask; without a terminal, or when interrupted again, leave the session running."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        _print_commands(id)
        return Choice.LEAVE
    print(f"\n{id}: [b] leave it running in the background, [c] cancel it, [f] keep following?", file=sys.stderr)
    try:
        choice = _read()
    except (EOFError, KeyboardInterrupt):
        choice = Choice.LEAVE
    if choice is Choice.LEAVE:
        _print_commands(id)
    return choice


def _read() -> Choice:
    while True:
        print("b, c or f [b]: ", end="", file=sys.stderr, flush=True)
        text = input().strip().lower()[:1] or Choice.LEAVE.value
        if text in list(Choice):
            return Choice(text)


def _print_commands(id: str) -> None:
    print(
        f"{id} keeps running: `aliquot session logs -f {id}` follows it, `aliquot session cancel {id}` cancels it",
        file=sys.stderr,
    )


ShowProgress = Callable[["Session"], None]


def wait_for(client: "BlockingClient", id: str) -> "Session":
    """Wait until a session has ended, and return it. For an array, a bar shows how many tasks have ended.

    Raises:
        NotFound: there is no such session.
    """
    reasons = WaitReasons()
    with closing(client.states(id)) as states:
        session = next(states)
        with status_line() if session.tasks is None else _progress_bar() as show:
            reasons.show(session)
            show(session)
            for session in states:
                reasons.show(session)
                show(session)
    return session


@contextmanager
def status_line() -> Iterator[ShowProgress]:
    """A line with the state of a session, removed afterwards; nothing without a terminal."""
    console = _console()
    if not console.is_terminal:
        yield lambda _session: None
        return
    with console.status("") as status:
        yield lambda session: status.update(progress_text(session))


@contextmanager
def _progress_bar() -> Iterator[ShowProgress]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = _console()
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("", total=None)

        def show(session: "Session") -> None:
            tasks = session.tasks
            assert tasks is not None
            ended = tasks.completed.count + tasks.failed.count + tasks.canceled.count
            total = ended + tasks.active.count + tasks.waiting.count
            progress.update(bar, completed=ended, total=total, description=progress_text(session))

        yield show


def _console() -> "Console":
    from rich.console import Console

    return Console(stderr=True, highlight=False, markup=False)


RANKS_MAX: Final = 64  # outputs followed at one time; each needs a connection
CUT_PAUSE_S: Final = 1.0  # before an output that could not be read is asked for again
CUT_READS_MAX: Final = 10  # of a session that has ended; its agent or a server may be back within some seconds


class Follower:
    """Prints the output of a session. After an interruption `run` may be called again and continues."""

    def __init__(
        self, client: "BlockingClient", id: str, *, raw: bool, ranks: Sequence[int] | None = None, as_json: bool = False
    ) -> None:
        self._client, self._id, self._raw, self._ranks, self._as_json = client, id, raw, ranks, as_json
        self._reasons = WaitReasons()
        self._attempt = 0
        self._cut: GraphQLFault | None = None
        """Why the output of the attempt could not be read to its end: its agent is lost, or no server leads."""
        self._offsets: dict[int, int] = {}
        self._printer: RankPrinter | None = None

    def run(self) -> "Session":
        """Follow until the end, and return the session as it ended.

        Raises:
            NotFound: there is no such session.
        """
        reads_left = CUT_READS_MAX
        while True:
            self._print_attempt()
            session = self._until_change()
            if session.attempt > self._attempt:
                self._begin(session)
            elif session.ended_at is not None:
                if self._cut is None or (session.exit_code is None and session.signal is None):
                    return session
                if not (reads_left := reads_left - 1):
                    raise self._cut

    def _print_attempt(self) -> None:
        from aliquot.client.errors import GraphQLFault, is_unavailable

        if self._printer is None:
            return
        try:
            for chunk in self._client.outputs(self._id, offsets=self._offsets, attempt=self._attempt):
                with deferred_interrupt():
                    print_json(chunk) if self._as_json else self._printer.print(chunk)
                    self._offsets[chunk.rank] = chunk.next_offset
        except GraphQLFault as fault:
            if not is_unavailable(fault.errors):
                raise
            if self._cut is None:
                _print_cut(str(fault))
            self._cut = fault
            time.sleep(CUT_PAUSE_S)
            return
        self._cut = None
        self._printer.end()

    def _until_change(self) -> "Session":
        """Wait for the session's end, or for an attempt that was not printed yet."""
        with status_line() as show, closing(self._client.states(self._id)) as states:
            for session in states:
                self._reasons.show(session)
                if session.attempt > self._attempt or self._cut is not None:
                    break
                show(session)
        return session

    def _begin(self, session: "Session") -> None:
        if self._printer is not None:
            self._printer.end()
            print(f"aliquot: {self._id} runs again: attempt {session.attempt}", file=sys.stderr)
        self._attempt, self._cut = session.attempt, None
        size = session.cluster_size
        if self._ranks is None and size > RANKS_MAX:
            print(f"aliquot: only ranks 0 to {RANKS_MAX - 1} of {size} are followed", file=sys.stderr)
        self._offsets = dict.fromkeys(range(min(RANKS_MAX, size)) if self._ranks is None else self._ranks, 0)
        self._printer = RankPrinter(names_ranks=len(self._offsets) > 1, raw=self._raw)


def _print_cut(why: str) -> None:
    print(f"aliquot: {printable(why)}; waiting for it, or for another attempt", file=sys.stderr, flush=True)


class ArrayFollower:
    """Prints the outputs of all tasks of an array, line by line behind `[3] `. `run` may be called again."""

    def __init__(self, client: "BlockingClient", id: str, *, raw: bool) -> None:
        self._client, self._id, self._raw = client, id, raw
        self._read: dict[int, TaskPosition] = {}
        self._printers: dict[int, RankPrinter] = {}

    def run(self) -> "Session":
        """Follow until the array has ended, and return it as it ended."""
        from aliquot.client.task_outputs import TaskPosition

        for one in self._client.task_outputs(self._id, read=self._read, on_cut=_print_cut):
            with deferred_interrupt():
                known = self._read.get(one.index)
                if known is not None and known.attempt != one.attempt:
                    self._printers.pop(one.index).end()
                    known = None
                self._printer(one).print(one.chunk)
                offsets = {**(known.offsets if known else {}), one.chunk.rank: one.chunk.next_offset}
                self._read[one.index] = TaskPosition(attempt=one.attempt, offsets=offsets)
                if one.chunk.at_end:
                    self._printers[one.index].end(one.chunk.rank)
        return self._client.get_session(self._id)

    def _printer(self, one: "TaskChunk") -> "RankPrinter":
        if one.index not in self._printers:
            prefix = f"[{one.index}] "
            self._printers[one.index] = RankPrinter(names_ranks=one.ranks > 1, raw=self._raw, prefix=prefix)
        return self._printers[one.index]


class RankPrinter:
    """Prints output; that of several ranks, or of a task, line by line with its name in front.

    On a terminal, control sequences of the job are printed as text: they could set its title or its clipboard.
    """

    def __init__(self, *, names_ranks: bool, raw: bool, prefix: str = "") -> None:
        """Args: raw: print control sequences as they are; prefix: in front of every line."""
        self._names_ranks = names_ranks
        self._prefix = prefix
        self._is_shown = not raw and sys.stdout.isatty()
        self._partial_lines: dict[int, str] = {}  # by rank, a line without its end
        self._ends: dict[int, int] = {}  # by rank, the offset behind what was printed

    def print(self, chunk: "LogChunk | SessionLog") -> None:
        """Print a chunk; the last line of several ranks only when it is complete."""
        skipped = chunk.offset - self._ends.get(chunk.rank, chunk.offset)
        self._ends[chunk.rank] = chunk.next_offset
        hole = getattr(chunk, "left_out", skipped)
        is_named = "\n[aliquot: " in chunk.text  # by the agent, which cut it out
        if hole > 0 and self._is_shown and not is_named:
            self.print_text(chunk.rank, hole_text(hole))
        self.print_text(chunk.rank, chunk.text)

    def print_text(self, rank: int, text: str) -> None:
        """Print a text; the last line of several ranks only when it is complete."""
        text = shown_controls(text) if self._is_shown else text
        if not (self._names_ranks or self._prefix):
            print(text, end="", flush=True)
            return
        *lines, rest = (self._partial_lines.get(rank, "") + text).split("\n")
        for line in lines:
            print(f"{self._front(rank)}{line}", flush=True)
        self._partial_lines[rank] = rest

    def end(self, rank: int | None = None) -> None:
        """Print the incomplete lines, of one rank or of all."""
        for one in sorted(self._partial_lines) if rank is None else [rank]:
            if line := self._partial_lines.pop(one, ""):
                print(f"{self._front(one)}{line}", flush=True)

    def _front(self, rank: int) -> str:
        return f"{self._prefix}{rank}: " if self._names_ranks else self._prefix
