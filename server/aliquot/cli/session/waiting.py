"""Waiting for the end of a session, with its course on the terminal while it lasts."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from aliquot.cli.session.sentences import course

if TYPE_CHECKING:
    from rich.console import Console

    from aliquot.client import BlockingClient
    from aliquot.client.generated.sessions import Session

Tell = Callable[["Session"], None]


def wait_for(client: "BlockingClient", id: str) -> "Session":
    """Wait, and return the session as it ended. Of an array a bar shows how many tasks have.

    Raises:
        NotFound: there is no such session.
    """
    with closing(client.course(id)) as looks:
        session = next(looks)
        with status_line() if session.tasks is None else _bar() as tell:
            tell(session)
            for session in looks:
                tell(session)
    return session


@contextmanager
def status_line() -> Iterator[Tell]:
    """A line that says how it stands, and is gone afterwards; nothing where there is no terminal."""
    console = _console()
    if not console.is_terminal:
        yield lambda _session: None
        return
    with console.status("") as status:
        yield lambda session: status.update(course(session))


@contextmanager
def _bar() -> Iterator[Tell]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = _console()
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("", total=None)

        def tell(session: "Session") -> None:
            tasks = session.tasks
            assert tasks is not None
            ended = tasks.completed.count + tasks.failed.count + tasks.canceled.count
            total = ended + tasks.active.count + tasks.waiting.count
            progress.update(bar, completed=ended, total=total, description=course(session))

        yield tell


def _console() -> "Console":
    from rich.console import Console

    return Console(stderr=True, highlight=False, markup=False)
