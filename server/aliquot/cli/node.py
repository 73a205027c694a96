"""`aliquot node`: makes this host a node of a Ray cluster, with its agents."""

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from msgspec import Struct
from msgspec.structs import replace

from aliquot.cli.agent import (
    DemoNode,
    GpuMemoryPolicy,
    LogLevel,
    RendezvousPorts,
    ReservedCpu,
    ReservedMem,
    agent_options,
    begin_log,
    stop_on_signals,
)

if TYPE_CHECKING:
    from aliquot.execution.ray.node.raylet import RayNodeOptions
    from aliquot.execution.remote.agent_setup import AgentOptions


RayHead = Annotated[
    str,
    typer.Option(metavar="HOST:PORT", envvar="RESEARCH_AGENT_RAY_HEAD_NODE", help="The head of the Ray cluster."),
]
RayTokenFile = Annotated[
    Path | None, typer.Option(help="The file with Ray's token; a head creates it.", show_default="Ray's own location")
]

node: Final = typer.Typer(no_args_is_help=True, help="Join this host to a Ray cluster.")


@node.callback()
def describe() -> None:
    """Join this host to a Ray cluster."""


@node.command("start", context_settings={"allow_extra_args": True})
def start(
    context: typer.Context,
    ray_head: RayHead,
    head: Annotated[bool, typer.Option("--head", help="Be the head: run Ray's control store here.")] = False,
    no_agent: Annotated[bool, typer.Option("--no-agent", help="Run no agent and no jobs here.")] = False,
    agent_id: Annotated[str | None, typer.Option("--id", help="The agent's name.", show_default="the host's")] = None,
    data_folder: Annotated[Path | None, typer.Option(help="The folder of job files, in agents/ID.")] = None,
    accelerators: Annotated[Path | None, typer.Option(help="A file of mock accelerators.")] = None,
    demo_node: DemoNode = None,
    reserved_cpu: ReservedCpu = None,
    reserved_mem: ReservedMem = None,
    job_user: Annotated[str | None, typer.Option(help="The Unix account that jobs run as.")] = None,
    allow_root_jobs: Annotated[bool, typer.Option("--allow-root-jobs", help="Let jobs run as root.")] = False,
    gpu_memory_policy: GpuMemoryPolicy = None,
    rendezvous_ports: RendezvousPorts = None,
    ray_token_file: RayTokenFile = None,
    address: Annotated[str | None, typer.Option(help="The address of this host for the other nodes.")] = None,
    temp_folder: Annotated[Path | None, typer.Option(help="The folder of Ray's logs and sockets.")] = None,
    log_level: LogLevel = None,
) -> None:
    """Run a Ray node until SIGTERM or Ctrl-C, and restart it when it ends. Jobs keep running without it.

    Arguments after -- are passed to `ray start`.
    """
    from aliquot.errors import ConfigurationError
    from aliquot.execution.ray.node.raylet import RayNodeOptions
    from aliquot.settings import read_settings
    from aliquot_schema.errors import AliquotError

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
            rendezvous_ports=rendezvous_ports,
            log_level=log_level,
        )
        begin_log(settings)
        options = agent_options(
            settings,
            accelerators=accelerators and accelerators.absolute(),
            agent_id=agent_id,
            demo_node=demo_node,
            dials=ray_head.rpartition(":")[0],
            hidden=_hidden(ray_token_file),
        )
        ray_options = RayNodeOptions(
            head=ray_head, is_head=head, with_agent=not no_agent, address=address, temp_folder=temp_folder
        )
        ray_options = replace(ray_options, extra=tuple(context.args))
        asyncio.run(_run(_Node(agents=options, ray=ray_options, token_file=ray_token_file)))
    except (ConfigurationError, AliquotError) as error:
        print(f"aliquot node cannot start: {error}", file=sys.stderr)
        raise typer.Exit(2) from None


def _hidden(token_file: Path | None) -> list[Path]:
    from aliquot.settings import settings_file

    token = None if token_file is None else token_file.absolute()
    return [path for path in (token, settings_file()) if path is not None]


class _Node(Struct, frozen=True, kw_only=True):
    agents: "AgentOptions"
    ray: "RayNodeOptions"
    token_file: Path | None


async def _run(chosen: _Node) -> None:
    from aliquot.execution.ray.node.raylet import Raylet, prepared_environment

    environment = prepared_environment(os.environ, agents=chosen.agents, ray=chosen.ray, token_file=chosen.token_file)
    await Raylet(chosen.ray, environment=environment).run(stop_on_signals())
