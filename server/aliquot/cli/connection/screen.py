"""Screen: draws text again and again on a terminal's alternate screen, and restores the terminal at the end."""

import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any, Final

from typer import Option

from aliquot.cli.connection.output import printable
from aliquot.cli.connection.server import usage
from aliquot.cli.connection.tables import ELLIPSIS, present, terminal_size
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.resources.units import parse_duration

Watch = Annotated[bool, Option("--watch", "-w", help="Refresh until Ctrl-C.")]
Interval = Annotated[
    str, Option(metavar="DURATION", help="Time between refreshes, like 500ms or 2s; a number is seconds.")
]
INTERVAL_S_MIN: Final = 0.2
_ENTER: Final = "\x1b[?1049h\x1b[?25l"
_LEAVE: Final = "\x1b[?25h\x1b[?1049l"
_HOME: Final = "\x1b[H"
_CLEAR_LINE: Final = "\x1b[K"
_CLEAR_BELOW: Final = "\x1b[J"
_ENDS: Final = (signal.SIGTERM, signal.SIGHUP)


def interval_of(text: str) -> float:
    """The seconds between refreshes. Exits when they are too few, or no duration."""
    try:
        interval_s = parse_duration(text)
    except InvalidRequest as error:
        usage(f"--interval: {error.message}")
    if interval_s < INTERVAL_S_MIN:
        usage(f"--interval {text}: give at least {INTERVAL_S_MIN} s")
    return interval_s


def show(draw: Callable[[], Sequence[str]], *, interval_s: float | None, on_screen: bool = True) -> None:
    """Print lines once, or draw them again after each interval until Ctrl-C, also across restarts of the server.

    Args:
        on_screen: whether a terminal's alternate screen is used, if there is one; else one drawing follows the other.
    """
    lines = draw()
    if interval_s is None or not on_screen or not sys.stdout.isatty():
        print("\n".join(lines), flush=True)
        while interval_s is not None:
            print("\n".join(_next(draw, interval_s, say=_say)), flush=True)
        return
    try:
        with _alternate_screen():
            while True:
                _put(fitting(lines, terminal_size().lines))
                lines = _next(draw, interval_s, say=partial(_put_above, lines))
    except KeyboardInterrupt:
        return


def _next(draw: Callable[[], Sequence[str]], interval_s: float, *, say: Callable[[str], None]) -> Sequence[str]:
    """The next drawing: after one interval, or more while the server is away or its rate limit is reached.

    Args:
        say: shows that the server does not answer, and that it does again.
    """
    from aliquot.client.errors import ClientFailure, GraphQLFault, is_temporary

    is_away = False
    while True:
        time.sleep(interval_s)
        try:
            lines = draw()
        except ClientFailure as error:
            if isinstance(error, GraphQLFault) and error.is_rate_limit:
                continue
            if not is_temporary(error):
                raise
            if not is_away:
                say(f"no answer since {present().astimezone():%H:%M:%S}, trying again until Ctrl-C: {printable(error)}")
            is_away = True
        else:
            if is_away:
                say("the server answers again")
            return lines


def _say(message: str) -> None:
    print(f"aliquot: {message}", file=sys.stderr, flush=True)


def _put_above(lines: Sequence[str], message: str) -> None:
    """Show a message above the last drawing."""
    size = terminal_size()
    _put(fitting([f"aliquot: {message}"[: size.columns], *lines], size.lines))


def fitting(lines: Sequence[str], height: int) -> list[str]:
    """The lines that fit; the last one says how many do not."""
    if len(lines) <= height:
        return list(lines)
    return [*lines[: height - 1], f"{ELLIPSIS} and {len(lines) - height + 1} more lines"]


def _put(lines: Sequence[str]) -> None:
    text = "\r\n".join(f"{line}{_CLEAR_LINE}" for line in lines)
    sys.stdout.write(f"{_HOME}{text}{_CLEAR_BELOW}")
    sys.stdout.flush()


@contextmanager
def _alternate_screen() -> Iterator[None]:
    """The alternate screen without a cursor; what was there before is shown again also when the process is ended. What
    the client logs, like a wait for a rate limit, would be written across it, and is left out."""
    import logging  # a table that is printed once does not load it

    client_log = logging.getLogger("aliquot.client")
    client_log.disabled = True
    with exit_on_hangup():
        sys.stdout.write(_ENTER)
        try:
            yield
        finally:
            client_log.disabled = False
            sys.stdout.write(_LEAVE)
            sys.stdout.flush()


@contextmanager
def exit_on_hangup() -> Iterator[None]:
    """SIGTERM, and SIGHUP of a closed window, raise SystemExit in the block, unless they are ignored."""
    ends = [number for number in _ENDS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, _end) for number in ends}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, _frame: Any) -> None:
    raise SystemExit(128 + number)
