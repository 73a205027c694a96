"""`aliquot once`: runs the acceptance run, and reports whether every promise was kept."""

import asyncio
import json
import sys
from collections.abc import Iterator
from typing import Annotated, Final, Literal

import typer

RUN_S_MAX: Final = 180.0


def once(
    agents: Annotated[int, typer.Option(min=0, max=2, help="2 = run each node as an agent process that dials in.")] = 0,
    executor: Annotated[
        Literal["local", "ray"], typer.Option(help="ray = run the nodes on a Ray cluster, which is started too.")
    ] = "local",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """Run twelve sessions on a demo cluster of two nodes with eight mock H100 each, and check every step.

    The server has its own folder and port, and is removed afterwards. The exit code is 0 when every promise was kept.
    """
    # Imported here: `aliquot serve` starts faster without a client.
    from aliquot.cli.acceptance.processes import ServerFailed
    from aliquot.client import ClientFailure

    reasons: list[str] = []
    kept = False
    try:
        kept = asyncio.run(_run(agents=agents, ray=executor == "ray", as_json=as_json))
    except* (ServerFailed, ClientFailure) as failures:
        reasons = [str(failure) or type(failure).__name__ for failure in _leaves(failures)]
    for reason in reasons:
        print(f"The acceptance run failed: {reason}", file=sys.stderr)
    raise typer.Exit(0 if kept else 1)


async def _run(*, agents: int, ray: bool, as_json: bool) -> bool:
    from rich.console import Console

    from aliquot.cli.acceptance import report
    from aliquot.cli.acceptance.cluster import own_cluster
    from aliquot.cli.acceptance.jobs import TASKS
    from aliquot.cli.acceptance.processes import ServerFailed
    from aliquot.cli.acceptance.report import findings
    from aliquot.cli.acceptance.run import run_acceptance

    progress = Console(stderr=True)
    progress.print("Starting a server in a temporary folder, with two mock nodes of eight H100 each ...")
    async with own_cluster(agents=agents, ray=ray) as server, server.client() as client:
        kernels = sum(task.cluster_size for task in TASKS)
        progress.print(f"Running {len(TASKS)} sessions ({kernels} processes) on {server.url} ...")
        try:
            async with asyncio.timeout(RUN_S_MAX):
                run = await run_acceptance(client, data_folder=server.folder)
        except TimeoutError:
            raise ServerFailed(f"not done within {RUN_S_MAX:g} s; the server printed:\n{server.log_tail()}") from None
        found = findings(run)
    if as_json:
        print(json.dumps(report.as_json(run=run, findings=found), indent=2))
    else:
        report.print_report(Console(), run=run, findings=found)
    return all(finding.kept for finding in found)


def _leaves(failures: BaseExceptionGroup[Exception]) -> Iterator[Exception]:
    for failure in failures.exceptions:
        if isinstance(failure, BaseExceptionGroup):
            yield from _leaves(failure)
        else:
            yield failure
