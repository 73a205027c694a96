"""`aliquot agent`: runs the agent of a node, and `aliquot agent check`: tests whether it would work there."""

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal
from urllib.parse import urlsplit

import typer
from msgspec import to_builtins

from aliquot.cli.agent_keys import key
from aliquot.cli.suggestions import SuggestingGroup

if TYPE_CHECKING:
    from aliquot.execution.remote.agent_setup import AgentOptions
    from aliquot.execution.remote.checks import CheckResult
    from aliquot.settings import Settings


COLOURS: Final = {"ok": "green", "warn": "yellow", "fail": "red"}


def check(
    server: Annotated[
        str | None, typer.Option(metavar="URL", help="The server's address; without it, only the node is checked.")
    ] = None,
    key_file: Annotated[Path | None, typer.Option(help="The file with this agent's key.")] = None,
    data_folder: Annotated[Path | None, typer.Option(help="The folder for job files.")] = None,
    accelerators: Annotated[Path | None, typer.Option(help="A file of mock accelerators.")] = None,
    agent_id: Annotated[str | None, typer.Option("--id", help="The agent's name.", show_default="the host's")] = None,
    ca_file: Annotated[Path | None, typer.Option(help="Certificates to trust instead of the system's.")] = None,
    demo_node: Annotated[int | None, typer.Option(min=1, help="Act as node N of a demo cluster.")] = None,
    job_user: Annotated[str | None, typer.Option(help="The Unix account that jobs run as.")] = None,
    allow_root_jobs: Annotated[bool, typer.Option("--allow-root-jobs", help="Let jobs run as root.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list instead of a table.")] = False,
) -> None:
    """Check driver, devices, control groups, accounts, the data folder and the connection to the server.

    Nothing is started. The exit code is 1 when an agent would not start or not work.
    """
    from aliquot.clock import SystemClock
    from aliquot.errors import ConfigurationError
    from aliquot.execution.remote.agent_setup import agent_node
    from aliquot.execution.remote.checks import CheckSeverity, check_node, check_server
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
            pass  # reported by the check of the devices
    if as_json:
        print(json.dumps([to_builtins(result) for result in results], indent=2))
    else:
        _print(results)
    raise typer.Exit(1 if any(result.grade is CheckSeverity.FAIL for result in results) else 0)


def _print(results: "list[CheckResult]") -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("check", "result", "found", "what to do")
    for result in results:
        table.add_row(result.name, f"[{COLOURS[result.grade]}]{result.grade}[/]", result.seen, result.to_do)
    Console().print(table)


def begin_log(settings: "Settings", *, quiet: tuple[str, ...] = ()) -> None:
    """Set up the log of this process, and report deprecated settings in it.

    Args:
        quiet: see `set_up_logs`.
    """
    from aliquot.app.logging import set_up_logs
    from aliquot.settings import warn_of_deprecated_settings

    set_up_logs(level=settings.log_level, form=settings.log_format, quiet=quiet)
    warn_of_deprecated_settings()


def agent_options(
    settings: "Settings",
    *,
    accelerators: Path | None,
    agent_id: str | None,
    demo_node: int | None,
    dials: str,
    hidden: Sequence[Path],
) -> "AgentOptions":
    """The options of an agent, from the settings and the command line.

    Args:
        dials: the host of the server; without `agent_address`, the agent is reached at the address of that route.
        hidden: files that are not visible to jobs in the sandbox.
    Raises:
        ConfigurationError: tables of the settings contradict each other, or the port range is wrong.
    """
    from aliquot.execution.agent.config import NodeEndpoint, own_address
    from aliquot.execution.remote.agent_setup import AgentOptions

    return AgentOptions(
        data_folder=settings.data_folder,
        accelerators=accelerators,
        id=agent_id,
        demo_node=demo_node,
        reserved_cpu=settings.reserved_cpu,
        reserved_mem=settings.reserved_mem,
        job_user=settings.job_user,
        allow_root_jobs=settings.allow_root_jobs,
        division=settings.division,
        gate_devices=settings.device_access == "auto",
        disk=settings.disk_rules,
        confinement=settings.confinement_rules(*hidden),
        memory_policy=settings.gpu_memory_policy,
        readings_interval_s=settings.readings_interval_s,
        health=settings.health_rules,
        notices=settings.node_notices,
        reach=NodeEndpoint.of(address=settings.agent_address or own_address(dials), ports=settings.rendezvous_ports),
    )


Servers = Annotated[
    list[str] | None,
    typer.Option(metavar="URL", help="The server's address, like https://host:8090; repeat it for several servers."),
]
KeyFile = Annotated[
    Path | None, typer.Option(help="The file with this agent's key; only the agent's account may read it.")
]
DemoNode = Annotated[int | None, typer.Option(min=1, help="Act as node N of a demo cluster, with eight mock H100.")]
Address = Annotated[
    str | None,
    typer.Option(help="The address of this node for other nodes.", show_default="that of the route to the server"),
]
NodeLabels = Annotated[
    str | None,
    typer.Option("--labels", metavar="NAME=VALUE,...", help="Labels of this node, like switch=s3,spot=true."),
]
RendezvousPorts = Annotated[
    str | None, typer.Option(help="Ports for MASTER_PORT of gangs, FIRST-LAST.", show_default="29500-30499")
]
GpuMemoryPolicy = Annotated[
    Literal["off", "flag", "stop"] | None,
    typer.Option(help="The reaction to jobs that use more of a GPU's memory than their share.", show_default="flag"),
]
ReservedCpu = Annotated[
    int | None, typer.Option(min=0, help="CPUs of this host that jobs never get.", show_default="0")
]
ReservedMem = Annotated[
    str | None, typer.Option(metavar="SIZE", help="Memory of this host that jobs never get.", show_default="512m")
]
LogLevel = Annotated[str | None, typer.Option(help="debug, info, warning or error.", show_default="info")]

agent: Final = typer.Typer(
    invoke_without_command=True,
    no_args_is_help=True,
    help="Run an agent on a node, check a node, and manage agent keys.",
)
agent.command("check")(check)
agent.add_typer(key, name="key", cls=SuggestingGroup)


@agent.command("return")
def return_device(
    device: Annotated[str, typer.Argument(help="The id of the device.")],
    agent_id: Annotated[str | None, typer.Option("--id", help="The agent's name.", show_default="the host's")] = None,
    data_folder: Annotated[Path | None, typer.Option(help="The folder of job files, in agents/ID.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object instead of a sentence.")] = False,
) -> None:
    """Return a device of this node's agent from quarantine to service, without a check."""
    from aliquot.errors import ConfigurationError
    from aliquot.execution.agent.device_health import RETURN_FILE
    from aliquot.execution.devices.node import node_identity
    from aliquot.settings import read_settings

    try:
        settings = read_settings(warns=False, data_folder=data_folder)
    except ConfigurationError as error:
        print(f"aliquot agent: {error}", file=sys.stderr)
        raise typer.Exit(2) from None
    folder = settings.data_folder / "agents" / (agent_id or node_identity().hostname)
    try:
        with (folder / RETURN_FILE).open("a", encoding="utf-8") as file:
            file.write(f"{device}\n")
            if os.geteuid() == 0:  # the agent may run as another account
                os.fchown(file.fileno(), folder.stat().st_uid, folder.stat().st_gid)
    except FileNotFoundError:
        print(f"there is no agent with the folder {folder}; give its --id and --data-folder", file=sys.stderr)
        raise typer.Exit(2) from None
    except OSError as error:
        words = f"{folder / RETURN_FILE} cannot be written: {error.strerror}"
        print(f"{words}; run this as root or as the agent's Unix account", file=sys.stderr)
        raise typer.Exit(2) from None
    if as_json:
        print(json.dumps({"device_id": device, "folder": str(folder)}))
    else:
        print(f"{device} returns to service within a few seconds, if it is in quarantine")


@agent.callback()
def run(
    context: typer.Context,
    server: Servers = None,
    key_file: KeyFile = None,
    data_folder: Annotated[Path | None, typer.Option(help="The folder of job files, in agents/ID.")] = None,
    accelerators: Annotated[Path | None, typer.Option(help="A file of mock accelerators.")] = None,
    agent_id: Annotated[str | None, typer.Option("--id", help="The agent's name.", show_default="the host's")] = None,
    ca_file: Annotated[Path | None, typer.Option(help="Certificates to trust instead of the system's.")] = None,
    demo_node: DemoNode = None,
    reserved_cpu: ReservedCpu = None,
    reserved_mem: ReservedMem = None,
    job_user: Annotated[str | None, typer.Option(help="The Unix account that jobs run as.")] = None,
    allow_root_jobs: Annotated[bool, typer.Option("--allow-root-jobs", help="Let jobs run as root.")] = False,
    address: Address = None,
    labels: NodeLabels = None,
    rendezvous_ports: RendezvousPorts = None,
    gpu_memory_policy: GpuMemoryPolicy = None,
    log_level: LogLevel = None,
) -> None:
    """Run an agent until SIGTERM or Ctrl-C; it reconnects to the server by itself. Jobs keep running without it.

    SIGUSR1 tells it that its node is about to be taken away: sessions save their work and are queued again.
    """
    if context.invoked_subcommand is not None:
        return
    from aliquot.errors import ConfigurationError
    from aliquot.settings import read_settings, settings_file
    from aliquot_schema.errors import AliquotError

    if not server or key_file is None:
        print("aliquot agent needs --server and --key-file; see `aliquot agent --help`", file=sys.stderr)
        raise typer.Exit(2)
    try:
        settings = read_settings(
            warns=False,
            data_folder=data_folder,
            reserved_cpu=reserved_cpu,
            reserved_mem=reserved_mem,
            job_user=job_user,
            allow_root_jobs=allow_root_jobs,
            gpu_memory_policy=gpu_memory_policy,
            agent_address=address,
            node_labels=labels,
            rendezvous_ports=rendezvous_ports,
            log_level=log_level,
        )
        begin_log(settings, quiet=("websockets",))
        options = agent_options(
            settings,
            accelerators=accelerators,
            agent_id=agent_id,
            demo_node=demo_node,
            dials=urlsplit(server[0]).hostname or "",
            hidden=[path for path in (key_file.absolute(), settings_file()) if path is not None],
        )
        asyncio.run(_serve(options, servers=server, key_file=key_file, ca_file=ca_file))
    except (ConfigurationError, AliquotError) as error:
        print(f"aliquot agent cannot start: {error}", file=sys.stderr)
        raise typer.Exit(2) from None


async def _serve(options: "AgentOptions", *, servers: list[str], key_file: Path, ca_file: Path | None) -> None:
    from aliquot.clock import SystemClock
    from aliquot.execution.remote.agent_setup import agent_core
    from aliquot.execution.remote.client import RemoteAgent
    from aliquot.execution.remote.dialing import CurrentKey, server_address
    from aliquot.service.metrics.log_context import logging_with

    addresses = [server_address(server, ca_file=ca_file) for server in servers]
    for address in addresses:
        if not address.has_tls and address.host not in ("127.0.0.1", "::1", "localhost"):
            logging.getLogger("aliquot.agent").warning("the key is sent to %s unencrypted; use https", address.host)
    core = agent_core(options, now_us=SystemClock().now_us)
    stop = stop_on_signals()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, core.note_eviction, "SIGUSR1")
    with logging_with(agent_id=core.config.id):
        await RemoteAgent(core, addresses=addresses, key=CurrentKey(key_file)).run(stop)


def stop_on_signals() -> asyncio.Event:
    """An event that is set by SIGTERM, Ctrl-C and a terminal that is closed; under `nohup`, terminals do not count."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop
