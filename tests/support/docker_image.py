"""Carries out a Dockerfile in folders: its commands are tested where no container engine runs."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from dockerfile_parse import DockerfileParser

from machine_lacks import check_npm_registry

ROOT: Final = Path(__file__).resolve().parents[2]
DOCKERFILE: Final = ROOT / "docker" / "Dockerfile"
FOLDERS: Final = ("/opt/aliquot", "/var/lib/aliquot", "/etc/aliquot")
"""Folders of an image named by its commands; they are moved below the stage's own."""
COMMAND_S_MAX: Final = 600


@dataclass(kw_only=True)
class Stage:
    """One `FROM`, with the folder of its file system."""

    root: Path
    words: dict[str, Any] = field(default_factory=dict)
    """ENTRYPOINT, CMD and HEALTHCHECK, as lists."""
    environment: dict[str, str] = field(default_factory=dict)
    work: str = "/"

    def at(self, path: str) -> Path:
        """The local path of an image path."""
        return self.root / (Path(self.work) / path).relative_to("/")

    def moved(self, text: str) -> str:
        """A text of the image with its folders replaced by local ones."""
        for folder in FOLDERS:
            text = re.sub(rf"{folder}(?![\w-])", f"{self.root}{folder}", text)
        return text

    def variables(self) -> dict[str, str]:
        """The environment of the image's commands."""
        kept = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
        path = f"{python_folder(self.root)}:{os.environ['PATH']}"
        found = kept | {"PATH": path, "UV_SYSTEM_CERTS": "1"}
        for name, value in self.environment.items():
            found[name] = self.moved(value).replace("$PATH", path)
        return found


def python_folder(root: Path) -> Path:
    """A folder whose `python` is the running one, outside of environments."""
    folder = root / "python"
    folder.mkdir(exist_ok=True, parents=True)
    real = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
    (folder / "python").write_text(f'#!/bin/sh\nexec {real} "$@"\n', encoding="ascii")
    (folder / "python").chmod(0o755)
    return folder


class Building:
    """Builds the stages of the Dockerfile, one after the other."""

    def __init__(self, folder: Path, *, leaves_out: frozenset[str] = frozenset()) -> None:
        """`leaves_out`: prefixes of commands that this machine cannot run."""
        self._folder = folder
        self._leaves_out = tuple(leaves_out)
        self._present = Stage(root=folder)
        self.stages: dict[str, Stage] = {}

    def build(self) -> None:
        """Run all its instructions in order."""
        with DOCKERFILE.open("rb") as file:
            lines = DockerfileParser(fileobj=file).structure
        for line in lines:
            do = getattr(self, f"_{line['instruction'].lower()}", None)
            if do is not None:
                do(line["value"])

    def _from(self, value: str) -> None:
        base, _, name = value.partition(" AS ")
        made = Stage(root=self._folder / name)
        if base in self.stages:
            before = self.stages[base]
            made = Stage(
                root=before.root, environment=dict(before.environment), words=dict(before.words), work=before.work
            )
        made.root.mkdir(exist_ok=True)
        self.stages[name] = self._present = made

    def _workdir(self, value: str) -> None:
        self._present.work = value
        self._present.at(".").mkdir(parents=True, exist_ok=True)

    def _env(self, value: str) -> None:
        self._present.environment |= dict(word.split("=", 1) for word in shlex.split(value))

    def _copy(self, value: str) -> None:
        words = value.split()
        if words[0].startswith("--from="):
            other = self.stages[words.pop(0).removeprefix("--from=")]
            source, target = words
            if source not in FOLDERS:  # an environment depends on its own path and cannot be moved
                shutil.copytree(other.at(source), self._present.at(target))
            elif not (there := self._present.root / source[1:]).exists():
                there.parent.mkdir(parents=True, exist_ok=True)
                there.symlink_to(other.root / source[1:])
            return
        *sources, target = words
        for name in tracked(*sources):
            goes_to = self._present.at(target) / (name if target == "./" else Path(name).relative_to(sources[0]))
            goes_to = self._present.at(target) if name == sources[0] and target != "./" else goes_to
            goes_to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, goes_to)

    def _run(self, value: str) -> None:
        if value.startswith(self._leaves_out):
            return
        stage = self._present
        command = stage.moved(value if os.geteuid() == 0 else value.replace("-o 10001 -g 10001 ", ""))
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            cwd=stage.at("."),
            env=stage.variables(),
            capture_output=True,
            text=True,
            timeout=COMMAND_S_MAX,
        )
        printed = f"{command}\n{done.stdout}\n{done.stderr}"
        if done.returncode != 0 and command.startswith("npm "):
            check_npm_registry(printed)
        assert done.returncode == 0, printed

    def _entrypoint(self, value: str) -> None:
        self._present.words["ENTRYPOINT"] = value

    def _cmd(self, value: str) -> None:
        self._present.words["CMD"] = value

    def _healthcheck(self, value: str) -> None:
        self._present.words["HEALTHCHECK"] = value.partition(" CMD ")[2]


def tracked(*names: str) -> list[str]:
    """The files tracked by git below these names."""
    listed = subprocess.run(["git", "ls-files", "-z", "--", *names], cwd=ROOT, capture_output=True, check=True).stdout
    return [name for name in listed.decode().split("\0") if name]
