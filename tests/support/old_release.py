"""The release before, built from the repository's history: its files by `git archive`, its packages by its own lock."""

import os
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from machine_lacks import MachineLacks

ROOT: Final = Path(__file__).parents[2]
COMMIT: Final = "9f0fe7e"
"""0.1.0."""
INSTALL_S_MAX: Final = 600
NO_ANSWER: Final = ("dns error", "connect", "timed out", "Network is unreachable")


@dataclass(frozen=True)
class OldRelease:
    """An environment in which `aliquot` is the release before."""

    tree: Path
    """Its files."""
    python: Path

    @property
    def program(self) -> tuple[str, ...]:
        """Its command line."""
        return (str(self.python), "-m", "aliquot")

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of it, in no folder that holds another version."""
        return self._run(*self.program, *words)

    def script(self, text: str, *words: str) -> str:
        """Run Python code that imports it, and return what it printed."""
        done = self._run(str(self.python), "-c", text, *words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _run(self, *command: str) -> subprocess.CompletedProcess[str]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("ALIQUOT_", "PYTHON"))}
        return subprocess.run(
            command, cwd="/", env=environment, capture_output=True, text=True, timeout=120, check=False
        )


def old_tree(folder: Path) -> Path:
    """Write its files into a new folder.

    Raises:
        MachineLacks: the history has no such commit.
    """
    folder.mkdir()
    archive = folder.with_suffix(".tar")
    made = subprocess.run(
        ["git", "-C", str(ROOT), "archive", "--output", str(archive), COMMIT],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode != 0:
        raise MachineLacks(f"the repository has no commit {COMMIT}; fetch its whole history ({made.stderr.strip()})")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    return folder


def old_release(folder: Path) -> OldRelease:
    """Build it.

    Raises:
        MachineLacks: the history has no such commit, or the registry of packages does not answer.
    """
    tree = old_tree(folder / "tree")
    environment = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
    more = {"UV_PROJECT_ENVIRONMENT": str(tree / ".venv"), "UV_PYTHON_DOWNLOADS": "never", "UV_SYSTEM_CERTS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "uv", "sync", "--frozen", "--no-dev", "--quiet", "--python", sys.executable],
        cwd=tree,
        env=environment | more,
        capture_output=True,
        text=True,
        timeout=INSTALL_S_MAX,
        check=False,
    )
    if done.returncode != 0 and any(text in done.stderr for text in NO_ANSWER):
        raise MachineLacks("the registry of packages does not answer: the release before cannot be installed")
    assert done.returncode == 0, done.stderr
    for each in (folder, tree):  # jobs may run under another account, and their spawner reads these files
        each.chmod(0o755)
    return OldRelease(tree, tree / ".venv" / "bin" / "python")
