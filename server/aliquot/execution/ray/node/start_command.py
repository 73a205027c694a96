"""How Ray itself is asked to start a node."""

import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aliquot.execution.ray.node.labels import AGENT_LABEL, NO_AGENT

OBJECT_STORE_BYTES: Final = 100 * 1024 * 1024
"""Ray would take 30 % of the memory; a little is the least that it starts with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RayNodeOptions:
    """The flags of `aliquot node start` that speak of Ray."""

    head: str
    """`HOST:PORT` of Ray's control store."""
    is_head: bool = False
    """Whether the control store is to run here."""
    with_agent: bool = True
    address: str | None = None
    """This host's, as the others reach it; None = Ray finds it."""
    temp_folder: Path | None = None
    extra: Sequence[str] = ()
    """Further flags of `ray start`."""


def start_command(options: RayNodeOptions) -> list[str]:
    """The command that starts a node, and ends when a part of it has."""
    host, _, port = options.head.rpartition(":")
    command = [sys.executable, "-P", "-m", "ray.scripts.scripts", "start", "--block"]
    if options.is_head:
        command += ["--head", f"--port={port}", "--no-monitor", "--include-dashboard=false"]
        command += [f"--node-ip-address={options.address or _number(host)}"]
    else:
        command += [f"--address={options.head}"]
        command += [f"--node-ip-address={options.address}"] if options.address else []
    if not options.with_agent:
        command += ["--labels", f"{AGENT_LABEL}={NO_AGENT}"]
    if options.temp_folder is not None:
        command += [f"--temp-dir={options.temp_folder}"]
    command += ["--num-gpus=0", f"--object-store-memory={OBJECT_STORE_BYTES}"]
    return [*command, "--disable-usage-stats", "--include-log-monitor=false", *options.extra]


def _number(host: str) -> str:
    """The address behind a name, which Ray wants of its own node; what cannot be resolved is left for Ray to refuse."""
    try:
        return socket.gethostbyname(host)
    except OSError:
        return host
