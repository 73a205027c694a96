"""A whole server in a process of its own, for tests of its REST face."""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from own_processes import end

START_S = 120
ADDRESS = re.compile(r"GraphQL\s+(http://127\.0\.0\.1:\d+)/graphql")


@dataclass(frozen=True)
class RestServer:
    """Where it is, and how to come in."""

    address: str
    token: str
    pid: int

    @property
    def headers(self) -> dict[str, str]:
        """Of every request."""
        return {"authorization": f"Bearer {self.token}"}

    def client(self) -> httpx.Client:
        """One that has the token."""
        return httpx.Client(verify=False, base_url=self.address, headers=self.headers, timeout=60)


@contextmanager
def rest_server(folder: Path, *flags: str, settings: Mapping[str, str] | None = None) -> Iterator[RestServer]:
    """Start one with the demo cluster, or go on with what is in the folder; stop it at the end.

    Args:
        settings: by the names of their variables.
    """
    command = [sys.executable, "-m", "aliquot", "serve", "--demo", "--port", "0", "--allow-root-jobs", *flags]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("ALIQUOT_", "RESEARCH_"))}
    environment |= settings or {}
    process = subprocess.Popen(
        [*command, "--data-folder", str(folder)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment
    )
    assert process.stdout is not None
    lines: list[str] = []
    try:
        deadline = threading.Timer(START_S, process.kill)
        deadline.start()
        found = None
        for line in process.stdout:
            lines.append(line.decode())
            found = ADDRESS.search(lines[-1])
            if found is not None:
                break
        deadline.cancel()
        assert found is not None, "".join(lines)
        rest = threading.Thread(target=process.stdout.read, daemon=True)
        rest.start()
        yield RestServer(address=found[1], token=(folder / "token").read_text().strip(), pid=process.pid)
    finally:
        end(process)
        process.stdout.close()
