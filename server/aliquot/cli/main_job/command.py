"""`aliquot once`: run the main job and say whether every promise was kept."""

import asyncio
import json
import sys
from collections.abc import Iterator
from typing import Annotated, Final, Literal

import typer

RUN_S_MAX: Final = 180.0


def once(
    agents: Annotated[
        int, typer.Option(min=0, max=2, help="Let the nodes be 2 agents that dial in, each a process of its own.")
    ] = 0,
    executor: Annotated[
        Literal["local", "ray"], typer.Option(help="Let the nodes be those of a Ray cluster, which is brought up too.")
    ] = "local",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """Run twelve sessions on a demo cluster of two nodes with eight mock H100 each, and check every step.

    The server gets a folder and a port of its own, and is gone afterwards. The exit code is 0 when every promise was
    kept.
    """
    # Imported here: `aliquot serve` starts faster without a client.
    from aliquot.cli.main_job.own_server import ServerFailed
    from aliquot.client import ClientFailure

    reasons: list[str] = []
    kept = False
    try:
        kept = asyncio.run(_run(agents=agents, ray=executor == "ray", as_json=as_json))
    except* (ServerFailed, ClientFailure) as failures:
        reasons = [str(failure) or type(failure).__name__ for failure in _leaves(failures)]
    for reason in reasons:
        print(f"The main job failed: {reason}", file=sys.stderr)
    raise typer.Exit(0 if kept else 1)


async def _run(*, agents: int, ray: bool, as_json: bool) -> bool:
    from rich.console import Console

    from aliquot.cli.main_job import report
    from aliquot.cli.main_job.course import run_course
    from aliquot.cli.main_job.findings import findings
    from aliquot.cli.main_job.own_cluster import own_cluster
    from aliquot.cli.main_job.own_server import ServerFailed
    from aliquot.cli.main_job.tasks import TASKS

    progress = Console(stderr=True)
    progress.print("Starting a server with a folder of its own, and two mock nodes with eight H100 each ...")
    async with own_cluster(agents=agents, ray=ray) as server, server.client() as client:
        kernels = sum(task.cluster_size for task in TASKS)
        progress.print(f"Running {len(TASKS)} sessions ({kernels} processes) on {server.url} ...")
        try:
            async with asyncio.timeout(RUN_S_MAX):
                course = await run_course(client, data_folder=server.folder)
        except TimeoutError:
            raise ServerFailed(f"it was not done in {RUN_S_MAX:g} s; the server said:\n{server.log_tail()}") from None
        found = findings(course)
    if as_json:
        print(json.dumps(report.as_json(course=course, findings=found), indent=2))
    else:
        report.print_report(Console(), course=course, findings=found)
    return all(finding.kept for finding in found)


def _leaves(failures: BaseExceptionGroup[Exception]) -> Iterator[Exception]:
    for failure in failures.exceptions:
        if isinstance(failure, BaseExceptionGroup):
            yield from _leaves(failure)
        else:
            yield failure
