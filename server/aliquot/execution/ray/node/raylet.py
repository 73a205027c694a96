"""Raylet: checks the prerequisites of a Ray node, starts it with `ray start`, and restarts it whenever it ends."""

import asyncio
import ctypes
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from msgspec import Struct

from aliquot.errors import ConfigurationError
from aliquot.execution.ray.node.token_file import checked_token, made_token
from aliquot.execution.ray.node_options import VARIABLE, each_agent, node_environment, write_options
from aliquot.execution.ray.supervisor import Unreachable, reach
from aliquot.execution.remote.agent_setup import AgentOptions, agent_node
from aliquot.execution.remote.client import WAIT_S_MAX, Backoff

AGENT_LABEL: Final = "aliquot.io/agent"
NO_AGENT: Final = "no"


def wants_agent(labels: Mapping[str, str]) -> bool:
    """Whether a node with these Ray labels gets an actor with agents."""
    return labels.get(AGENT_LABEL) != NO_AGENT


OBJECT_STORE_BYTES: Final = 100 * 1024 * 1024
"""Close to Ray's minimum; its default would be 30 % of the memory."""


class RayNodeOptions(Struct, frozen=True, kw_only=True):
    """The Ray flags of `aliquot node start`."""

    head: str
    """`HOST:PORT` of Ray's control store."""
    is_head: bool = False
    """Whether the control store runs on this host."""
    with_agent: bool = True
    address: str | None = None
    """Address of this host for the other nodes; None = detected by Ray."""
    temp_folder: Path | None = None
    extra: Sequence[str] = ()
    """Further flags of `ray start`."""


def start_command(options: RayNodeOptions) -> list[str]:
    """The command that runs a node; it ends when a part of the node ends."""
    host, _, port = options.head.rpartition(":")
    command = [sys.executable, "-P", "-m", "ray.scripts.scripts", "start", "--block"]
    if options.is_head:
        command += ["--head", f"--port={port}", "--no-monitor", "--include-dashboard=false"]
        command += [f"--node-ip-address={options.address or _resolved(host)}"]
    else:
        command += [f"--address={options.head}"]
        command += [f"--node-ip-address={options.address}"] if options.address else []
    if not options.with_agent:
        command += ["--labels", f"{AGENT_LABEL}={NO_AGENT}"]
    if options.temp_folder is not None:
        command += [f"--temp-dir={options.temp_folder}"]
    command += ["--num-gpus=0", f"--object-store-memory={OBJECT_STORE_BYTES}"]
    return [*command, "--disable-usage-stats", "--include-log-monitor=false", *options.extra]


def _resolved(host: str) -> str:
    """IP address of a host name, as Ray requires for its own node; Ray rejects unresolvable names itself."""
    try:
        return socket.gethostbyname(host)
    except OSError:
        return host


def prepared_environment(
    environment: Mapping[str, str], *, agents: AgentOptions, ray: RayNodeOptions, token_file: Path | None
) -> dict[str, str]:
    """Check all prerequisites, write the actor's options file, and return the environment of the Ray node.

    Raises:
        ConfigurationError: Ray is not installed, or a flag or a file is invalid.
    """
    check_ray_installed()
    check_address(ray.head)
    token = token_file
    if token is not None:
        token = made_token(token) if ray.is_head else checked_token(token)
    result = node_environment(environment, token_file=token)
    if not ray.with_agent:
        return result
    for options in each_agent(agents):
        agent_node(options)
    try:
        agents.data_folder.mkdir(mode=0o711, parents=True, exist_ok=True)
        return result | {VARIABLE: str(write_options(agents))}
    except OSError as error:
        message = f"data-folder: {agents.data_folder} cannot be used ({error.strerror}); choose another one"
        raise ConfigurationError(message) from None


def check_ray_installed() -> None:
    """Raises:
    ConfigurationError: Ray is not installed.
    """
    if find_spec("ray") is None:
        raise ConfigurationError("Ray is not installed here (pip install 'ray[default]')")


def check_address(head: str) -> None:
    """Raises:
    ConfigurationError: `head` is not `HOST:PORT`.
    """
    host, _, port = head.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65_536:
        raise ConfigurationError(f"ray-head: {head!r} is not an address like 10.0.0.1:6379")


STOP_S_MAX: Final = 20.0
STEADY_S: Final = 300.0
"""A node that runs for so long was up; `ray start` gives up earlier when it cannot reach its head."""
_PR_SET_PDEATHSIG: Final = 1

log: Final = logging.getLogger("aliquot.node")


class Raylet:
    """A Ray node in the foreground. Kernels started by agents on it outlive it."""

    def __init__(self, options: RayNodeOptions, *, environment: Mapping[str, str]) -> None:
        self._options = options
        self._environment = dict(environment)
        self._logged = ""
        self._is_quiet = False
        """Whether the last start failed; that was said, and the next attempts are silent."""

    async def run(self, stop: asyncio.Event) -> None:
        """Keep the node running until `stop` is set."""
        running = asyncio.create_task(self._run_for_ever())
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
        for task in (running, stopping):
            task.cancel()
        await asyncio.gather(running, stopping, return_exceptions=True)

    async def _run_for_ever(self) -> None:
        backoff = Backoff()
        while True:
            began = time.monotonic()
            try:
                if not self._options.is_head:
                    await reach(self._options.head)
                code = await self._run_once()
                self._note_end(code, lasted_s=time.monotonic() - began)
            except Unreachable as error:
                self._log_status(
                    f"this node cannot join Ray yet: {error}. The head is the host and port of `aliquot node start "
                    "--head`; the node joins by itself when it answers",
                    level=logging.WARNING,
                )
            if time.monotonic() - began > WAIT_S_MAX:
                backoff = Backoff()
            await asyncio.sleep(backoff.next_s())

    async def _run_once(self) -> int:
        process = await asyncio.create_subprocess_exec(
            *start_command(self._options),
            env=self._environment,
            cwd="/",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL if self._is_quiet else sys.stderr,
            stderr=asyncio.subprocess.DEVNULL if self._is_quiet else None,
            start_new_session=True,
            preexec_fn=_end_with_parent,
        )
        if not self._is_quiet:
            self._log_status(f"starting a Ray node (pid {process.pid}) of the cluster at {self._options.head}")
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(STEADY_S):
                    return await process.wait()
            if self._is_quiet:
                self._is_quiet = False
                self._log_status(f"the Ray node (pid {process.pid}) is up")
            return await process.wait()
        finally:
            await _end(process)

    def _note_end(self, code: int, *, lasted_s: float) -> None:
        if lasted_s >= STEADY_S:
            self._log_status(f"the Ray node has ended with exit code {code}; restarting it")
        elif not self._is_quiet:
            self._is_quiet = True
            self._log_status(
                f"the Ray node ended with exit code {code} after {lasted_s:.0f} s; Ray's own messages are above. Check "
                f"that {self._options.head} is the head's address and that all nodes have the same token file. It is "
                "started again until it stays up, without further messages",
                level=logging.WARNING,
            )

    def _log_status(self, message: str, *, level: int = logging.INFO) -> None:
        """Log the status if it has changed."""
        if message != self._logged:
            self._logged = message
            log.log(level, "%s", message)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Terminate Ray, and kill the rest of its process group; kernels have process groups of their own."""
    if process.returncode is None:
        process.terminate()
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_S_MAX):
                await process.wait()
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def _end_with_parent() -> None:
    """Terminate `ray start` when this process dies; Ray itself ends the node with its `ray start`."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
