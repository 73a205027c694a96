"""Runs `scripts/walk-installation` on two nodes, and makes its page: text, commands, and their output.

A node is a set of Linux namespaces (network, mounts, processes, host name) with its own /etc, /opt, /root and
/var/lib over those of this machine, and `systemd_stand_in` as its process 1. The two are joined by a virtual cable.
"""

import os
import re
import secrets
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
SCRIPT: Final = ROOT / "scripts" / "walk-installation"
PAGE: Final = ROOT / "server" / "docs" / "operating" / "installation.md"
WALK_S_MAX: Final = 1800
MARK: Final = "\x1e"
NODES: Final = {"gpu01": "10.73.41.1", "gpu02": "10.73.41.2"}
PLACES: Final = ("/etc", "/opt", "/root", "/var/lib")
HEAD: Final = """\
# An installation, walked through

From wheels to two nodes with TLS, systemd units, PostgreSQL, users, a backup that is restored, an upgrade while jobs
run, and a node that dies. This page is the transcript of `scripts/walk-installation`, which `scripts/test --long` runs
and compares with this page; times and ids are shown as `...`. `on NODE` runs a command on that node: on real machines,
log in there instead. In the test a node is a set of Linux namespaces (network, mounts, processes) with eight mock GPUs,
`power_off` kills all its processes, and a stand-in runs the units, because systemd cannot be process 1 there. systemd
itself checks the units.

"""
PRELUDE: Final = r"""
set -euo pipefail
on() {
  local node=$1
  shift
  nsenter --target "$(cat "$WALK/$node.pid")" --mount --uts --net --pid --wd=/ env -i HOME=/root LANG=C.UTF-8 \
    TERM=dumb COLUMNS=120 PATH="$WALK/bin:/opt/aliquot/bin:/usr/sbin:/usr/bin:/sbin:/bin" WALK_ID="$WALK_ID" "$@"
}
power_off() { kill -KILL "$(cat "$WALK/$1.pid")"; }
"""
MASKS: Final = (
    (r"ses_[0-9a-f-]{36}", "ses_..."),
    (r"req_[0-9a-f-]{36}", "req_..."),
    (r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d\S*", "..."),
    (r"\d+ events, \d+ passes of the ledger, \d+ holdings", "... events, ... passes of the ledger, ... holdings"),
    (r"aliquot_available_ratio .*", "aliquot_available_ratio ..."),
    (r"event \d+\b", "event ..."),
    (r"\b[0-9a-f]{16,64}\b", "..."),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A text, and the commands after it."""

    text: str
    commands: str


def parts() -> list[Part]:
    """The parts of the script: each begins with text, and ends at a blank line."""
    _, _, body = SCRIPT.read_text(encoding="utf-8").partition("set -euo pipefail\n")
    found = []
    for block in re.split(r"\n\n+", body.strip("\n")):
        lines = block.splitlines()
        text = [line.removeprefix("#:").removeprefix(" ") for line in lines if line.startswith("#:")]
        commands = [line for line in lines if not line.startswith("#:")]
        found.append(Part(text="\n".join(text), commands="\n".join(commands)))
    return found


class WalkFailed(Exception):
    """A command of the script failed; the message has its output."""


class Walk:
    """The nodes, and the shell for the script."""

    def __init__(self, folder: Path, *, old: Path, new: Path, postgres: Path, programs: Path) -> None:
        """
        Args:
            folder: a new folder, readable for all accounts.
            old: the wheels of the release before.
            new: the wheels of this one.
            postgres: the folder of PostgreSQL's socket.
            programs: the folder of its programs.
        """
        self._folder = folder
        self._id = secrets.token_hex(4)
        self._variables = {
            "WALK": str(folder),
            "WALK_ID": self._id,
            "OLD": str(old),
            "NEW": str(new),
            "BACKUP": str(folder / "backup"),
            "UNITS": str(ROOT / "docker" / "systemd"),
            "PGHOST": str(postgres),
            "PGUSER": "postgres",
            "PATH": f"{programs}:{os.environ['PATH']}",
        }
        self._nodes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> "Walk":
        (self._folder / "backup").mkdir()
        bin_folder = self._folder / "bin"
        bin_folder.mkdir()
        for name in ("systemctl", "journalctl"):
            stand_in = Path(__file__).with_name("systemd_stand_in.py")
            (bin_folder / name).write_text(f'#!/bin/sh\nexec /usr/bin/python3 {stand_in} {name} "$@"\n')
            (bin_folder / name).chmod(0o755)
        (bin_folder / "uv").symlink_to(Path(sys.executable).with_name("uv"))
        for name in NODES:
            self._power_on(name)
        self._connect()
        return self

    def __exit__(self, *_: object) -> None:
        for node in self._nodes:
            node.kill()
            node.wait()
        for flag in Path("/tmp").glob(f"go-*-{self._id}"):
            flag.unlink()

    def run(self) -> list[str]:
        """Run all parts in one shell, and return their outputs.

        Raises:
            WalkFailed: a command failed, or the walk took longer than `WALK_S_MAX`.
        """
        text = PRELUDE + "".join(f"printf '{MARK}'\n{part.commands}\n" for part in parts())
        try:
            done = subprocess.run(
                ["bash", "-c", text],
                env=self._variables,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=WALK_S_MAX,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise WalkFailed(f"longer than {WALK_S_MAX} s: {error.output!r}\n{self._logs()}") from None
        if done.returncode != 0:
            raise WalkFailed(f"exit code {done.returncode}:\n{done.stdout}\n{self._logs()}")
        return done.stdout.split(MARK)[1:]

    def page(self, printed: list[str]) -> str:
        """The page; values that vary between runs are masked."""
        known = {
            value: f"${name}" for name, value in self._variables.items() if value.startswith("/") and name != "PATH"
        }
        blocks = []
        for part, output in zip(parts(), printed, strict=True):
            for value in sorted(known, key=len, reverse=True):
                output = output.replace(value, known[value])
            for pattern, mask in MASKS:
                output = re.sub(pattern, mask, output)
            output = "\n".join(line.rstrip() for line in output.strip().splitlines())
            shown = f"\n\n```text\n{output}\n```" if output else ""
            why = "<!-- not run: tests/e2e/test_e2e_installation.py runs it on nodes of its own -->\n"
            blocks.append(f"{part.text}\n\n{why}```bash\n{part.commands}\n```{shown}\n")
        return HEAD + "\n".join(blocks)

    def _power_on(self, name: str) -> None:
        node = self._folder / name
        mounts = []
        for place in PLACES:
            upper, work = node / f"upper{place}", node / f"work{place}"
            upper.mkdir(parents=True)
            work.mkdir(parents=True)
            mounts.append(f"mount -t overlay overlay -o lowerdir={place},upperdir={upper},workdir={work} {place}")
        hosts = "".join(f"{address} {host}\n" for host, address in {"localhost": "127.0.0.1", **NODES}.items())
        (node / "upper/etc/hosts").write_text(hosts)
        (node / "upper/etc/hostname").write_text(f"{name}\n")
        (node / "upper/etc/machine-id").write_text(f"{secrets.token_hex(16)}\n")
        stand_in = Path(__file__).with_name("systemd_stand_in.py")
        script = "\n".join(
            ["set -e", *mounts, f"hostname {name}", "ip link set lo up", f"exec /usr/bin/python3 {stand_in} init"]
        )
        with (self._folder / f"{name}.log").open("wb") as log:
            unshare = subprocess.Popen(
                [
                    "unshare",
                    "--net",
                    "--mount",
                    "--uts",
                    "--pid",
                    "--fork",
                    "--kill-child",
                    "--mount-proc",
                    "sh",
                    "-c",
                    script,
                ],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._nodes.append(unshare)
        children = Path(f"/proc/{unshare.pid}/task/{unshare.pid}/children")
        while not (found := children.read_text().split()):
            if unshare.poll() is not None:
                raise WalkFailed(self._logs())
        (self._folder / f"{name}.pid").write_text(found[0])

    def _connect(self) -> None:
        first, second = ((self._folder / f"{name}.pid").read_text() for name in NODES)
        command = ["ip", "link", "add", "eth0", "netns", first, "type", "veth", "peer", "name", "eth0", "netns", second]
        subprocess.run(command, check=True)
        for name, address in NODES.items():
            pid = (self._folder / f"{name}.pid").read_text()
            (other,) = (each for host, each in NODES.items() if host != name)
            # The cable disappears with either node; a node keeps its address.
            for words in (
                ["addr", "add", f"{address}/32", "dev", "lo"],
                ["link", "set", "eth0", "up"],
                ["route", "add", other, "dev", "eth0", "src", address],
            ):
                subprocess.run(["nsenter", "--target", pid, "--net", "ip", *words], check=True)

    def _logs(self) -> str:
        files = [*self._folder.glob("*.log"), *self._folder.glob("*/upper/var/lib/journal/*.log")]
        return "\n".join(f"== {file}\n{file.read_text(errors='replace')[-3000:]}" for file in files)


def can_make_nodes() -> bool:
    """Whether this account may create namespaces and mounts."""
    if os.geteuid() != 0:
        return False
    words = ["unshare", "--net", "--mount", "--uts", "--pid", "--fork", "--mount-proc", "ip", "link", "set", "lo", "up"]
    try:
        return subprocess.run(words, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def wheels(tree: Path, folder: Path) -> Path:
    """Build the wheel of a source tree, and download its dependencies to the folder. Returns it."""
    environment = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
    build = [sys.executable, "-m", "uv", "build", "--quiet", "--wheel", "--out-dir", str(folder), str(tree)]
    subprocess.run(build, env=environment | {"UV_SYSTEM_CERTS": "1"}, check=True, capture_output=True)
    (folder / ".gitignore").unlink(missing_ok=True)
    (wheel,) = folder.glob("aliquot-*.whl")
    fetch = [sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(folder), str(wheel)]
    subprocess.run(fetch, env=environment, check=True, capture_output=True)
    return folder
