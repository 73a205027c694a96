"""`aliquot session metrics`: metrics of a session, or a table of an array's tasks with the best value first."""

from math import inf
from typing import TYPE_CHECKING, Annotated, Final

from typer import Option

from aliquot.cli.connection.output import cells, print_json, show_table, table
from aliquot.cli.connection.server import REFUSED, AsJson, AtServer, InCluster, TokenFile, connected, fail
from aliquot.cli.session.names import find_session
from aliquot.cli.session.options import SessionId

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aliquot.client import BlockingClient
    from aliquot.client.generated.metrics import MetricSeries, TaskMetrics

_BARS: Final = "▁▂▃▄▅▆▇█"
_WIDTH: Final = 40
_PAGE: Final = 100
Rank = Annotated[int, Option(min=0, help="The kernel of a session with several.")]
By = Annotated[str | None, Option("--sort", metavar="NAME", help="Tasks by their best value of this metric.")]
Highest = Annotated[bool, Option("--highest", help="The highest value is the best, not the lowest.")]


def metrics(
    session_id: SessionId,
    rank: Rank = 0,
    sort: By = None,
    highest: Highest = False,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Show the metrics in a session's output: lines like ::metric loss=0.31 step=40, and those of --metric."""
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        id = find_session(client, session_id)
        if client.get_session(id).tasks is not None:
            tasks = _sorted(_tasks(client, id), sort, highest=highest)
            print_json(tasks) if as_json else _print_tasks(tasks, sort, highest=highest)
            return
        found = client.session_metrics(id, rank=rank)
        if as_json:
            print_json(found)
            return
        made = table("metric", "last", "lowest", "at step", "highest", "at step ", "points", "trend")
        for one in found.series:
            values = (_text(one.last), _text(one.low), one.low_step, _text(one.high), one.high_step, one.count)
            made.add_row(*cells(one.name, *values, trend(one.values)))
        show_table(made)
        if found.is_partial:
            print("there is more output to read; call it again")


def trend(values: "Sequence[float]") -> str:
    """Values as a line of bars."""
    largest = max(map(abs, values)) or 1.0
    values = [value / largest for value in values]  # sums and differences of finite values may be infinite
    step = max(1, -(-len(values) // _WIDTH))
    means = [sum(part) / len(part) for part in (values[at : at + step] for at in range(0, len(values), step))]
    low, high = min(means), max(means)
    span = (high - low) or 1.0
    return "".join(_BARS[min(len(_BARS) - 1, int((value - low) / span * len(_BARS)))] for value in means)


def _tasks(client: "BlockingClient", id: str) -> "list[TaskMetrics]":
    found: list[TaskMetrics] = []
    after: int | None = None
    while True:
        page = client.array_metrics(id, first=_PAGE, after=after)
        found += page.tasks
        after = page.end
        if after is None:
            return found


def _sorted(tasks: "list[TaskMetrics]", by: str | None, *, highest: bool) -> "list[TaskMetrics]":
    if by is None:
        return tasks
    names = {one.name for task in tasks for one in task.series}
    if by not in names:
        fail(f"no task has a metric {by}; they have {', '.join(sorted(names)) or 'none'}", code=REFUSED)

    def rank_of(task: "TaskMetrics") -> tuple[float, int]:
        best = next((_best(one, highest=highest) for one in task.series if one.name == by), None)
        return (inf if best is None else -best if highest else best), task.index

    return sorted(tasks, key=rank_of)


def _best(series: "MetricSeries", *, highest: bool) -> float:
    return series.high if highest else series.low


def _print_tasks(tasks: "list[TaskMetrics]", by: str | None, *, highest: bool) -> None:
    names = sorted({one.name for task in tasks for one in task.series}, key=lambda name: (name != by, name))
    made = table("task", "state", *(f"{'highest' if highest else 'lowest'} {name}" for name in names))
    for task in tasks:
        best = {one.name: _text(_best(one, highest=highest)) for one in task.series}
        made.add_row(*cells(task.index, task.state, *(best.get(name, "") for name in names)))
    show_table(made)


def _text(value: float) -> str:
    return f"{value:.6g}"
