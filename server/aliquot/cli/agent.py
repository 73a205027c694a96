"""`aliquot agent`: the process of a node that dials in to a server."""

import asyncio
import logging
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal
from urllib.parse import urlsplit

import typer

from aliquot.cli.agent_checks import check
from aliquot.cli.agent_keys import key
from aliquot.cli.agent_options import agent_options

if TYPE_CHECKING:
    from aliquot.execution.remote.agent_setup import AgentOptions

Servers = Annotated[
    list[str] | None,
    typer.Option(help="The server's address, like https://host:8090; of several servers, all of them."),
]
KeyFile = Annotated[Path | None, typer.Option(help="The file with this agent's key; nobody else may read it.")]
DemoNode = Annotated[int | None, typer.Option(min=1, help="Be node N of a demo cluster, with eight mock H100.")]
Address = Annotated[
    str | None, typer.Option(help="Where other nodes reach this one.", show_default="of the way to the server")
]
RendezvousPorts = Annotated[
    str | None, typer.Option(help="Ports where gangs meet, FIRST-LAST.", show_default="29500-30499")
]
GpuMemoryPolicy = Annotated[
    Literal["off", "flag", "stop"] | None,
    typer.Option(
        help="What is done about jobs that take more of a GPU's memory than their share.", show_default="flag"
    ),
]
ReservedCpu = Annotated[
    int | None, typer.Option(min=0, help="CPUs of this host that are not handed out.", show_default="0")
]
ReservedMem = Annotated[
    str | None, typer.Option(help="Memory of this host that is not handed out.", show_default="512m")
]
LogLevel = Annotated[str | None, typer.Option(help="debug, info, warning or error.", show_default="info")]

agent: Final = typer.Typer(invoke_without_command=True, no_args_is_help=True)
agent.command("check")(check)
agent.add_typer(key, name="key")


@agent.callback()
def run(
    context: typer.Context,
    server: Servers = None,
    key_file: KeyFile = None,
    data_folder: Annotated[Path | None, typer.Option(help="Where job files are, in agents/ID.")] = None,
    accelerators: Annotated[Path | None, typer.Option(help="A file of mock accelerators.")] = None,
    agent_id: Annotated[str | None, typer.Option("--id", help="The agent's name.", show_default="the host's")] = None,
    ca_file: Annotated[Path | None, typer.Option(help="Certificates to trust instead of the system's.")] = None,
    demo_node: DemoNode = None,
    reserved_cpu: ReservedCpu = None,
    reserved_mem: ReservedMem = None,
    job_user: Annotated[str | None, typer.Option(help="The Unix account that jobs run as.")] = None,
    allow_root_jobs: Annotated[bool, typer.Option("--allow-root-jobs", help="Let jobs run as root.")] = False,
    address: Address = None,
    rendezvous_ports: RendezvousPorts = None,
    gpu_memory_policy: GpuMemoryPolicy = None,
    log_level: LogLevel = None,
) -> None:
    """Run an agent until it is told to stop; it dials the server, for ever. Jobs go on without it."""
    if context.invoked_subcommand is not None:
        return
    from aliquot.composition.hidden_files import settings_files
    from aliquot.composition.logs import set_up_logs
    from aliquot.errors import ConfigurationError
    from aliquot.settings import read_settings
    from aliquot_schema.errors import AliquotError

    if not server or key_file is None:
        print("aliquot agent needs --server and --key-file; --help says more", file=sys.stderr)
        raise typer.Exit(2)
    try:
        settings = read_settings(
            data_folder=data_folder,
            reserved_cpu=reserved_cpu,
            reserved_mem=reserved_mem,
            job_user=job_user,
            allow_root_jobs=allow_root_jobs,
            gpu_memory_policy=gpu_memory_policy,
            agent_address=address,
            rendezvous_ports=rendezvous_ports,
            log_level=log_level,
        )
        set_up_logs(level=settings.log_level, form=settings.log_format, quiet=("websockets",))
        options = agent_options(
            settings,
            accelerators=accelerators,
            agent_id=agent_id,
            demo_node=demo_node,
            dials=urlsplit(server[0]).hostname or "",
            hidden=(key_file.absolute(), *settings_files()),
        )
        asyncio.run(_serve(options, servers=server, key_file=key_file, ca_file=ca_file))
    except (ConfigurationError, AliquotError) as error:
        print(f"aliquot agent cannot start: {error}", file=sys.stderr)
        raise typer.Exit(2) from None


async def _serve(options: "AgentOptions", *, servers: list[str], key_file: Path, ca_file: Path | None) -> None:
    from aliquot.clock import SystemClock
    from aliquot.execution.remote.agent_setup import agent_core
    from aliquot.execution.remote.dialing import read_key
    from aliquot.execution.remote.remote_agent import RemoteAgent
    from aliquot.execution.remote.server_address import server_address
    from aliquot.service.measuring.log_fields import logging_with

    addresses = [server_address(server, ca_file=ca_file) for server in servers]
    for address in addresses:
        if address.tls is None and address.host not in ("127.0.0.1", "::1", "localhost"):
            logging.getLogger("aliquot.agent").warning("the key goes to %s unencrypted; use https", address.host)
    core = agent_core(options, now_us=SystemClock().now_us)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    with logging_with(agent_id=core.config.id):
        await RemoteAgent(core, addresses=addresses, key=read_key(key_file)).run(stop)
