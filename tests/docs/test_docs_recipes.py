"""Recipes that need a folder which jobs can reach: uv environments, experiment logs, and PyTorch on two nodes."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from aliquot.cli.acceptance.processes import OwnServer
from docs_blocks import Block, blocks, matches
from docs_running import RUN_S_MAX, shell_environment
from docs_tree import DOCS
from long_tests import LONG
from machine_lacks import MachineLacks

pytestmark = pytest.mark.anyio

RECIPES: Final = DOCS / "using" / "recipes.md"
PYTHON: Final = "/usr/bin/python3"
"""Every account can run it."""


def _block(words: str) -> Block:
    return next(block for block in blocks(RECIPES) if words in block.text)


@pytest.fixture
def project(demo: OwnServer) -> Iterator[Path]:
    """A folder that job accounts can read, unlike pytest's own folders."""
    folder = demo.folder / "project"
    folder.mkdir()
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def _run(block: Block, server: OwnServer, folder: Path, **variables: str) -> str:
    environment = shell_environment(server, folder) | variables
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.text],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=4 * RUN_S_MAX,
        check=False,
    )
    if done.returncode:
        ended = ["aliquot", "session", "logs", "@last"]
        log = subprocess.run(ended, env=environment, capture_output=True, text=True, timeout=RUN_S_MAX, check=False)
        pytest.fail(f"{done.stdout}\n{done.stderr}\n{log.stdout}")
    return done.stdout


def test_a_job_runs_in_an_environment_of_uv(demo: OwnServer, project: Path) -> None:
    if not (Path(sys.executable).parent / "uv").exists() and shutil.which("uv") is None:
        raise MachineLacks("uv is not installed")
    block = _block("uv init")
    said = _run(block, demo, project, UV_PYTHON=PYTHON, UV_OFFLINE="1", UV_CACHE_DIR=str(project / "cache"))
    assert matches(block.results["text"], said)
    assert str(project) in said


def _with_package(project: Path, package: str) -> None:
    """An environment of the project with a package and the page's programs."""
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if uv is None:
        raise MachineLacks("uv is not installed")
    for command in (["venv", "-p", PYTHON, ".venv"], ["pip", "install", package]):
        done = subprocess.run([uv, "-q", *command], cwd=project, capture_output=True, text=True, check=False)
        if done.returncode:
            raise MachineLacks(f"{package} cannot be installed: {done.stderr.strip()[-300:]}")
    for block in blocks(RECIPES):
        if block.file and block.file.startswith("log_"):
            (project / block.file).write_text(block.text, encoding="utf-8")


def _result_of(said: str, words: str) -> Path:
    """The folder that a job printed after this prefix."""
    return Path(next(line.partition(words)[2].strip() for line in said.splitlines() if line.startswith(words)))


@LONG
def test_weights_and_biases_logs_without_a_network(demo: OwnServer, project: Path) -> None:
    _with_package(project, "wandb")
    block = _block("-- .venv/bin/python log_wandb.py")
    said = _run(block, demo, project)
    assert matches(block.results["text"], said)
    [run] = _result_of(said, "to upload:").glob("*.wandb")
    assert run.stat().st_size > 100


@LONG
def test_tensorboard_reads_what_a_job_logged(demo: OwnServer, project: Path) -> None:
    _with_package(project, "tensorboard")
    block = _block("-- .venv/bin/python log_tensorboard.py")
    said = _run(block, demo, project)
    assert matches(block.results["text"], said)
    folder = _result_of(said, "tensorboard --logdir")
    look = [project / ".venv" / "bin" / "tensorboard", "--inspect", "--logdir", folder]
    seen = subprocess.run(look, capture_output=True, text=True, timeout=RUN_S_MAX, check=True).stdout
    assert "num_steps            10" in seen


@LONG
def test_torchrun_runs_over_two_nodes(demo: OwnServer, project: Path) -> None:
    if subprocess.run([PYTHON, "-c", "import torch"], capture_output=True, check=False).returncode:
        raise MachineLacks("python3-torch is not installed; scripts/test --long installs it where it can")
    for block in blocks(RECIPES):
        if block.file in ("all_reduce.py", "two_nodes.sh"):
            (project / block.file).write_text(block.text, encoding="utf-8")
    # Debian's PyTorch 1.13 has no default for these two options with Python 3.11.
    script = project / "two_nodes.sh"
    script.write_text(script.read_text().replace("distributed.run", "distributed.run --tee 1 --redirects 1"))
    command = _block("two_nodes.sh")
    command.text = command.text.replace("session create", "session create -e PROCESSES=2")
    said = _run(command, demo, project)
    assert "rank 0 of 4: the ranks add up to 6" in said
