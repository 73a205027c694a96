"""Agents with real processes; whatever a test leaves running is killed by its id."""

import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from agent_harness import PATIENCE_S, AgentHarness, agent_config, processes_with_files_in, shim_pids
from aliquot.execution.agent.cgroups import find_groups
from aliquot.execution.agent.kernel_watch import kill_leftovers
from aliquot_schema.ids import KernelId


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def agent_home() -> Iterator[Path]:
    """A folder that job users can reach, which pytest's own is not."""
    home = Path(tempfile.mkdtemp(prefix="aliquot-agent-"))
    home.chmod(0o711)
    folder = home / "agent"
    yield folder
    for path in (path for path in home.iterdir() if (path / "kernels").is_dir()):
        for pid in shim_pids(path):
            _kill(pid)
        for name in os.listdir(path / "kernels"):
            if not (path / "kernels" / name / "exit.json").exists():
                _clean_up(path, KernelId(name))
    for pid in processes_with_files_in(home):
        _kill(pid)
    shutil.rmtree(home)


@pytest.fixture
async def harness(agent_home: Path, anyio_backend: str) -> AsyncIterator[AgentHarness]:
    """An open agent."""
    harness = AgentHarness(agent_config(agent_home))
    await harness.open()
    yield harness
    await harness.close()


def _clean_up(folder: Path, kernel: KernelId) -> None:
    groups = find_groups(folder)
    assert kill_leftovers(kernel, group=groups and groups.of_kernel(kernel), patience_s=PATIENCE_S)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
