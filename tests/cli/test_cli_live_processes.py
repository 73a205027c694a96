"""Reading real processes from /proc."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aliquot.cli.acceptance.checks import kill_mentioning, live_kernels

WAIT = "import sys; print('up', flush=True); sys.stdin.read()"


@contextmanager
def running(**environment: str) -> Iterator[subprocess.Popen[str]]:
    """A process with only this environment; ended on exit."""
    process = subprocess.Popen(
        [sys.executable, "-c", WAIT],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout
        assert process.stdout.readline() == "up\n"
        yield process
        process.kill()


def test_a_kernel_is_found_by_its_environment(tmp_path: Path) -> None:
    shares = json.dumps({"GPU-1": "0.60", "GPU-2": "1.00"})
    with running(
        ALIQUOT_KERNEL_ID="ses_a.1.0",
        ALIQUOT_RESOURCE_FILE=f"{tmp_path}/agents/spec.json",
        ALIQUOT_GPU_SHARES=shares,
        CUDA_VISIBLE_DEVICES="GPU-1,GPU-2",
    ) as process:
        found = live_kernels(tmp_path)["ses_a.1.0"]
    assert found.pid == process.pid
    assert found.visible == ("GPU-1", "GPU-2")
    assert found.shares == {"GPU-1": 600, "GPU-2": 1000}


def test_a_kernel_without_devices_has_no_shares(tmp_path: Path) -> None:
    with running(
        ALIQUOT_KERNEL_ID="ses_b.1.0", ALIQUOT_RESOURCE_FILE=f"{tmp_path}/agents/spec.json", CUDA_VISIBLE_DEVICES=""
    ):
        found = live_kernels(tmp_path)["ses_b.1.0"]
    assert found.visible == ()
    assert found.shares == {}


def test_a_zombie_is_not_live(tmp_path: Path) -> None:
    with running(ALIQUOT_KERNEL_ID="ses_c.1.0", ALIQUOT_RESOURCE_FILE=f"{tmp_path}/agents/spec.json") as process:
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert Path(f"/proc/{process.pid}").exists()
        assert "ses_c.1.0" not in live_kernels(tmp_path)


def test_a_kernel_of_another_server_is_not_ours(tmp_path: Path) -> None:
    with running(ALIQUOT_KERNEL_ID="ses_e.1.0", ALIQUOT_RESOURCE_FILE=f"{tmp_path}2/agents/spec.json"):
        assert live_kernels(tmp_path) == {}
        assert live_kernels(Path(f"{tmp_path}2")).keys() == {"ses_e.1.0"}


def test_processes_of_a_folder_are_killed_and_others_are_not(tmp_path: Path) -> None:
    with running(ALIQUOT_KERNEL_ID="ses_d.1.0", HOME=f"{tmp_path}/job") as own, running(HOME="/nowhere") as other:
        assert kill_mentioning(str(tmp_path)) == 1
        assert own.wait(timeout=30) == -9
        assert other.poll() is None
