"""`aliquot lease`: holds GPUs while a command runs on this machine, outside the queue."""

import os
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Annotated, Final

import typer
from typer import Argument, Option

from aliquot.cli.connection.output import printable
from aliquot.cli.connection.server import AtServer, InCluster, TokenFile, connected
from aliquot.cli.session.options import Pool, Project, seconds_of
from aliquot_schema.resources.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aliquot.client import BlockingClient
    from aliquot.client.generated.external_allocations import GpusAllocated


NOT_STARTED: Final = 127
"""Exit code of a command that could not be started, as in a shell."""
TIMED_OUT: Final = 124
"""Exit code of a command that was stopped at the time limit, as of `timeout`."""
STOP_S: Final = 10.0
"""Time from SIGTERM to SIGKILL at the time limit. The GPUs are held until then."""
GRANT_S: Final = 5.0
"""Added to the limit of the lease, which counts from its request, while that of the command counts from its start."""
Command = Annotated[
    list[str] | None, Argument(metavar="-- COMMAND...", help="Runs with CUDA_VISIBLE_DEVICES; default: hold and wait.")
]
Gpus = Annotated[float, Option(min=0.01, help="Whole GPUs, or a share of one like 0.5.")]
GpuMemory = Annotated[float | None, Option(metavar="GB", help="Minimum memory per GPU, in 10^9 bytes.")]
TimeLimit = Annotated[
    str | None,
    Option(
        "--time-limit",
        "-t",
        metavar="DURATION",
        help="Stop the command after this, like 2h30m. With it, GPUs reserved for a later session may be used.",
    ),
]
Name = Annotated[str | None, Option("--name", help="A name of your choice; default: a random one.")]


def lease(
    command: Command = None,
    gpus: Gpus = 1.0,
    gpu_memory: GpuMemory = None,
    time_limit: TimeLimit = None,
    name: Name = None,
    project: Project = None,
    pool: Pool = None,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
) -> None:
    """Hold GPUs while a command runs on this machine. They are granted immediately or refused; nothing is queued.

    Without a command they are held until Ctrl-C. The exit code is that of the command.
    """
    limit_s = seconds_of(time_limit, option="--time-limit")
    longest_s = None if limit_s is None else limit_s + STOP_S + GRANT_S
    options = {"job_id": name, "memory_gb": gpu_memory, "project": project, "pool": pool}
    with (
        connected(cluster=cluster, server=server, token_file=token_file) as client,
        client.lease(shares=gpus, time_limit_s=longest_s, **options) as held,
    ):
        _print_held(client, held)
        ends = None if limit_s is None else time.monotonic() + limit_s
        code = _run(command, held.gpu_ids, ends=ends) if command else _wait(held.gpu_ids, limit_s=limit_s)
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


def _run(argv: "Sequence[str]", gpu_ids: "Sequence[str]", *, ends: float | None) -> int:
    """Run a command with the GPUs, until `ends` in monotonic seconds; its exit code, 128 + N if signal N ended it."""
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
                code = process.wait(None if ends is None else max(0.0, ends - time.monotonic()))
                return code if code >= 0 else 128 - code
            except KeyboardInterrupt:  # the command has received it too, and decides
                continue
            except subprocess.TimeoutExpired:
                return _stop(process)
    finally:
        signal.signal(signal.SIGTERM, before)


def _stop(process: "subprocess.Popen[bytes]") -> int:
    print("aliquot: the time limit is over, the command is stopped", file=sys.stderr)
    process.terminate()
    try:
        process.wait(STOP_S)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        process.kill()
        process.wait()
    return TIMED_OUT


def _wait(gpu_ids: "Sequence[str]", *, limit_s: float | None) -> int:
    """Hold the GPUs until Ctrl-C, SIGTERM or the time limit."""
    print(f"export CUDA_VISIBLE_DEVICES={','.join(gpu_ids)}", flush=True)
    longest = "" if limit_s is None else f", at most {format_duration(limit_s)}"
    print(f"aliquot: held until Ctrl-C{longest}", file=sys.stderr)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        while limit_s is None:
            signal.pause()
        time.sleep(limit_s)
    except KeyboardInterrupt:
        return 0
    return TIMED_OUT
