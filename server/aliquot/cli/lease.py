"""`aliquot lease`: holds GPUs while a command runs on this machine, outside the queue."""

import os
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer
from typer import Argument, Option

from aliquot.cli.connection.output import printable
from aliquot.cli.connection.server import AtServer, InCluster, TokenFile, connected
from aliquot.cli.session.options import Pool, Project

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aliquot.client import BlockingClient
    from aliquot.client.generated.external_allocations import GpusAllocated


NOT_STARTED: Final = 127
"""Exit code of a command that could not be started, as in a shell."""
Command = Annotated[
    list[str] | None, Argument(metavar="-- COMMAND...", help="Runs with CUDA_VISIBLE_DEVICES; default: hold and wait.")
]
Gpus = Annotated[float, Option(min=0.01, help="Whole GPUs, or a share of one like 0.5.")]
GpuMemory = Annotated[float | None, Option(metavar="GB", help="Minimum memory per GPU, in 10^9 bytes.")]
Name = Annotated[str | None, Option("--name", help="A name of your choice; default: a random one.")]


def lease(
    command: Command = None,
    gpus: Gpus = 1.0,
    gpu_memory: GpuMemory = None,
    name: Name = None,
    project: Project = None,
    pool: Pool = None,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
) -> None:
    """Hold GPUs while a command runs on this machine. They are granted at once or refused; nothing is queued.

    Without a command they are held until Ctrl-C. The exit code is that of the command.
    """
    with (
        connected(cluster=cluster, server=server, token_file=token_file) as client,
        client.lease(shares=gpus, job_id=name, memory_gb=gpu_memory, project=project, pool=pool) as held,
    ):
        _print_held(client, held)
        code = _run(command, held.gpu_ids) if command else _wait(held.gpu_ids)
    raise typer.Exit(code)


def _print_held(client: "BlockingClient", held: "GpusAllocated") -> None:
    """Print on stderr where the GPUs are, and whether that is another machine."""
    nodes = {one.node_id for one in held.gpus}
    hosts = sorted({node.hostname for node in client.cluster().nodes if node.node_id in nodes})
    print(f"aliquot: holding {', '.join(map(printable, held.gpu_ids))} on {', '.join(hosts)}", file=sys.stderr)
    own = socket.gethostname()
    others = [host for host in hosts if not f"{host}-".startswith(f"{own}-")]  # mock nodes are named after their host
    if others:
        words = f"warning: this is {own}, and the GPUs are on {', '.join(others)}: start the command there"
        print(f"aliquot: {words}, or choose a pool with --pool", file=sys.stderr)


def _run(argv: "Sequence[str]", gpu_ids: "Sequence[str]") -> int:
    """Run a command with the GPUs; its exit code, 128 + N if signal N ended it."""
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ",".join(gpu_ids), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    try:
        process = subprocess.Popen(argv, env=environment)
    except OSError as error:
        print(f"aliquot: {argv[0]}: {error.strerror}", file=sys.stderr)
        return NOT_STARTED
    before = signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    try:
        while True:
            try:
                code = process.wait()
                return code if code >= 0 else 128 - code
            except KeyboardInterrupt:  # the command has received it too, and decides
                continue
    finally:
        signal.signal(signal.SIGTERM, before)


def _wait(gpu_ids: "Sequence[str]") -> int:
    """Hold the GPUs until Ctrl-C or SIGTERM."""
    print(f"export CUDA_VISIBLE_DEVICES={','.join(gpu_ids)}", flush=True)
    print("aliquot: held until Ctrl-C", file=sys.stderr)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    while True:
        try:
            signal.pause()
        except KeyboardInterrupt:
            return 0
