"""`aliquot agent check`: whether an agent would start and work here."""

import asyncio
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import urlsplit

import typer

if TYPE_CHECKING:
    from aliquot.execution.remote.node_checks import CheckResult

COLOURS: Final = {"ok": "green", "warn": "yellow", "fail": "red"}


def check(
    server: Annotated[
        str | None, typer.Option(help="The server's address; without it, only the node is looked at.")
    ] = None,
    key_file: Annotated[Path | None, typer.Option(help="The file with this agent's key.")] = None,
    data_folder: Annotated[Path | None, typer.Option(help="Where job files will be.")] = None,
    accelerators: Annotated[Path | None, typer.Option(help="A file of mock accelerators.")] = None,
    agent_id: Annotated[str | None, typer.Option("--id", help="The agent's name.", show_default="the host's")] = None,
    ca_file: Annotated[Path | None, typer.Option(help="Certificates to trust instead of the system's.")] = None,
    demo_node: Annotated[int | None, typer.Option(min=1, help="Be node N of a demo cluster.")] = None,
    job_user: Annotated[str | None, typer.Option(help="The Unix account that jobs run as.")] = None,
    allow_root_jobs: Annotated[bool, typer.Option("--allow-root-jobs", help="Let jobs run as root.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list instead of a table.")] = False,
) -> None:
    """Look at driver, devices, control groups, accounts, folder, and the way to the server. Starts nothing.

    The exit code is 1 when the agent would not start or not work.
    """
    from aliquot.cli.agent_options import agent_options
    from aliquot.clock import SystemClock
    from aliquot.errors import ConfigurationError
    from aliquot.execution.remote.agent_setup import agent_node
    from aliquot.execution.remote.node_checks import Grade, check_node
    from aliquot.execution.remote.server_checks import check_server
    from aliquot.settings import read_settings

    try:
        settings = read_settings(data_folder=data_folder, job_user=job_user, allow_root_jobs=allow_root_jobs)
        options = agent_options(
            settings,
            accelerators=accelerators,
            agent_id=agent_id,
            demo_node=demo_node,
            dials=urlsplit(server or "").hostname or "",
            hidden=(),
        )
    except ConfigurationError as error:
        print(f"aliquot agent cannot start: {error}", file=sys.stderr)
        raise typer.Exit(1) from None
    results = check_node(options)
    if server is not None:
        try:
            id = agent_node(options).agent_id
            now_us = SystemClock().now_us
            reached = check_server(server, key_file=key_file, ca_file=ca_file, agent_id=id, now_us=now_us)
            results += asyncio.run(reached)
        except ConfigurationError:
            pass  # the check of the devices said so
    if as_json:
        print(json.dumps([asdict(result) for result in results], indent=2))
    else:
        _print(results)
    raise typer.Exit(1 if any(result.grade is Grade.FAIL for result in results) else 0)


def _print(results: "list[CheckResult]") -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("check", "", "seen", "what to do")
    for result in results:
        table.add_row(result.name, f"[{COLOURS[result.grade]}]{result.grade}[/]", result.seen, result.to_do)
    Console().print(table)
