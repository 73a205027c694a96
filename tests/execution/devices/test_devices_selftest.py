"""`aliquot selftest --real` against libraries compiled here: none of our tests has a real card."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PID_NAMESPACE = """
import os
import aliquot.execution.devices.nvml_devices as readings
readings.in_initial_pid_namespace = lambda proc: os.environ["TEST_PROCESSES_ARE_TOLD"] == "yes"
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler to build the stand-ins for NVIDIA's libraries")
    folder = tmp_path_factory.mktemp("libraries")
    for source, library in (("fake_nvml.c", "libnvidia-ml.so.1"), ("fake_cuda.c", "libcuda.so.1")):
        command = [compiler, "-shared", "-fPIC", "-o", folder / library, Path(__file__).with_name(source), "-ldl"]
        subprocess.run(command, check=True, timeout=120)
    return folder


@pytest.fixture
def machine(compiled: Path) -> Iterator[Path]:
    """A folder with the libraries of a machine with two GPUs."""
    folder = Path(tempfile.mkdtemp(prefix="aliquot-gpus-"))
    for library in compiled.iterdir():
        shutil.copy(library, folder)
    for gpu in "01":
        (folder / "holders" / gpu).mkdir(parents=True)
    (folder / "sitecustomize.py").write_text(PID_NAMESPACE)
    yield folder
    shutil.rmtree(folder)


def selftest(machine: Path, *options: str, processes_are_told: bool = True) -> tuple[int, str]:
    environment = {
        "LD_LIBRARY_PATH": str(machine),
        "PYTHONPATH": str(machine),
        "TEST_PROCESSES_ARE_TOLD": "yes" if processes_are_told else "no",
    }
    command = [sys.executable, "-m", "aliquot", "selftest", *options]
    done = subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout + done.stderr


def findings(printed: str) -> dict[str, dict[str, Any]]:
    return {finding["name"]: finding for finding in json.loads(printed)["findings"]}


def test_the_selftest_passes_on_two_gpus(machine: Path) -> None:
    code, printed = selftest(machine, "--real", "--json")
    found = findings(printed)
    assert code == 0, printed
    assert {finding["outcome"] for finding in found.values()} == {"ok"}, printed
    access = {name for name in found if name.startswith("device_access: ")}
    assert len(access) == 1
    assert found.keys() - access == {
        "cuda0 is healthy",
        "cuda1 is healthy",
        "discovery: CUDA sees what NVML reports",
        "a job with cuda0 sees only it",
        "a job with cuda1 sees only it",
        "a job without a GPU sees none",
        "two half shares of cuda0",
        "two half shares of cuda1",
    }
    assert found["a job with cuda1 sees only it"]["seen"] == '["11111111-bbbb-0000-0000-000000000000"]'
    seen = found["two half shares of cuda0"]["seen"]
    assert "uses 47.79 GiB" in seen
    assert "was granted 39.82 GiB" in seen
    assert "ended by signal 15; the job with 25 % keeps running" in seen


def test_the_selftest_can_check_a_single_gpu(machine: Path) -> None:
    code, printed = selftest(machine, "--real", "--json", "--device", "GPU-11111111-bbbb-0000-0000-000000000000")
    found = findings(printed)
    assert code == 0, printed
    assert {name for name in found if "cuda" in name} == {
        "cuda1 is healthy",
        "a job with cuda1 sees only it",
        "two half shares of cuda1",
    }
    code, printed = selftest(machine, "--real", "--device", "cuda7")
    assert (code, "no GPU is called cuda7" in printed) == (2, True)


def test_a_driver_that_shows_jobs_every_gpu_fails_the_selftest(machine: Path) -> None:
    (machine / "careless").touch()
    code, printed = selftest(machine, "--real", "--json")
    found = findings(printed)
    assert code == 1
    assert found["a job with cuda0 sees only it"]["outcome"] == "fail"
    assert found["a job without a GPU sees none"]["outcome"] == "fail"
    assert found["discovery: CUDA sees what NVML reports"]["outcome"] == "ok"


def test_the_selftest_skips_the_share_test_on_gpus_in_use_or_without_process_attribution(machine: Path) -> None:
    code, printed = selftest(machine, "--real", "--json", processes_are_told=False)
    shared = findings(printed)["two half shares of cuda0"]
    assert (code, shared["outcome"]) == (0, "unknown")
    assert "cannot be attributed here" in shared["seen"]
    (machine / "holders" / "0" / str(os.getpid())).write_text("1000")
    code, printed = selftest(machine, "--real", "--json")
    found = findings(printed)
    assert (code, found["two half shares of cuda0"]["outcome"]) == (0, "unknown")
    assert "in use by other processes" in found["two half shares of cuda0"]["seen"]
    assert found["two half shares of cuda1"]["outcome"] == "ok"


def test_the_selftest_fails_with_a_message_when_cuda_is_missing(machine: Path) -> None:
    (machine / "libcuda.so.1").write_bytes(b"no library")
    code, printed = selftest(machine, "--real", "--json")
    assert code == 1
    assert "CUDA: " in findings(printed)["discovery: CUDA sees what NVML reports"]["seen"]


def test_the_selftest_reports_that_there_is_no_gpu(machine: Path) -> None:
    (machine / "libnvidia-ml.so.1").write_bytes(b"no library")
    code, printed = selftest(machine, "--real")
    assert code == 2
    assert "no NVIDIA GPU to check: " in printed
    code, printed = selftest(machine)
    assert code == 2
    assert "needs --real" in printed
