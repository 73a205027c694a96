"""Records a data folder of an earlier commit, with jobs that still run. It made tests/data/data_folder_9f0fe7e.tar.xz:

    git archive 9f0fe7e | tar x -C /tmp/old
    .venv/bin/python tests/support/old_folder_recorder.py /tmp/old tests/data/data_folder_9f0fe7e.tar.xz

It needs that commit's files and nothing of the present version. It starts the server of that commit with the two mock
nodes of `--demo`, gives it users, keys, quotas, a policy, a secret, alert rules, an external allocation and sessions,
waits until the history has readings, and kills the server with SIGKILL. Then it packs:

    data/           the data folder as the kill left it, write-ahead log included
    spawner/        the spawner and shim of that commit, which need only the standard library
    recorded.json   what a test needs to know: ids, ann's key, the time of the kill

Folders of the running kernels are packed without what their shims wrote; the test starts them again with the recorded
spawner. Keys and the secret were made for this recording and open nothing else.
"""

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any, Final

PORT: Final = 18_437
WAIT_S_MAX: Final = 120.0
HISTORY_S: Final = 45.0
"""Long enough for several steps of 10 seconds to be written."""
LONG: Final = "echo began; while [ ! -e go-on ]; do sleep 0.05; done; exit {code}"
"""Waits for a file in its own working directory, so that the command has no path in it."""
OF_SHIMS: Final = ("claim", "pid.json", "request.json", "exit.json")
ALLOCATE: Final = """mutation { allocate_gpus(input: { job_id: "notebook", gpu_count: 0.5, lease: 86400 }) {
  ... on GpusAllocated { session_id } } }"""


class OldServer:
    """The server of another commit, started from its files."""

    def __init__(self, tree: Path, folder: Path) -> None:
        self.data = folder / "data"
        self._env = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{tree}/server:{tree}/schema", "HOME": str(folder)}
        self._log = (folder / "log").open("wb")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "aliquot", "serve", "--port", str(PORT), "--data-folder", str(self.data), "--demo"],
            env=self._env,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )

    def run(self, *words: str, text: str = "", key: Path | None = None) -> str:
        """Run a command of that commit against the server, and return what it printed."""
        known = ("--server", f"http://127.0.0.1:{PORT}", "--token-file", str(key or self.data / "token"))
        place = words.index("--") if "--" in words else len(words)
        command = (sys.executable, "-m", "aliquot", *words[:place], *known, *words[place:])
        return subprocess.run(command, env=self._env, input=text, stdout=subprocess.PIPE, text=True, check=True).stdout

    def run_offline(self, *words: str) -> None:
        """Run a command of that commit that needs no server."""
        subprocess.run((sys.executable, "-m", "aliquot", *words), env=self._env, check=True)

    def ask(self, query: str) -> dict[str, Any]:
        """One GraphQL request as the admin."""
        token = (self.data / "token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        body = json.dumps({"query": query}).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{PORT}/graphql", data=body, headers=headers)
        with urllib.request.urlopen(request) as answer:
            return dict(json.load(answer))

    def until_state(self, session_id: str, state: str) -> None:
        """Wait until a session is in a state."""
        _until(lambda: self.ask(f'{{ session(id: "{session_id}") {{ state }} }}')["data"]["session"]["state"] == state)

    def until_ready(self) -> None:
        """Wait until both agents have joined."""

        def is_ready() -> bool:
            try:
                return len(self.ask("{ agents { edges { node { id } } } }")["data"]["agents"]["edges"]) == 2
            except (OSError, ValueError):
                return False

        _until(is_ready)

    def kill(self) -> None:
        """End it as a crash would; what its agents started keeps running."""
        self._process.kill()
        self._process.wait()


def _until(holds: Any) -> None:
    given_up = time.monotonic() + WAIT_S_MAX
    while not holds():
        if time.monotonic() > given_up:
            raise TimeoutError("the old server did not get there")
        time.sleep(0.1)


def used(server: OldServer, folder: Path) -> dict[str, Any]:
    """Use the server as several people would; what a test needs to know of it."""
    server.run("user", "add", "ann", "--role", "user", "--project", "vision")
    server.run("user", "add", "ben", "--role", "operator")
    server.run("user", "disable", "ben")
    key = server.run("key", "new", "ann", "--scope", "submit").strip()
    server.run("quota", "set", "project:vision", "--max", "cuda.device=8", "--own", "cuda.device=4", "--weight", "3")
    server.run("policy", "set", "weights.age=2", "preemption.victims=nobody", "half_life=259200")
    server.run("notices", "set", "queue_backlog", "--above", "77")
    (folder / "ann.key").write_text(key)
    server.run("secret", "set", "HUB_TOKEN", text="a stored value\n", key=folder / "ann.key")

    def submit(*words: str) -> str:
        return str(json.loads(server.run("session", "create", "--json", *words))["id"])

    done = submit("--project", "vision", "-r", "cuda.device=2", "--", "sh", "-c", "echo done")
    failed = submit("-r", "cuda.shares=0.25", "--", "sh", "-c", "exit 3")
    array = submit("-r", "cuda.shares=0.5", "--array", "0-3", "--", "sh", "-c", "exit $((ALIQUOT_ARRAY_INDEX / 3))")
    for session_id, state in ((done, "completed"), (failed, "failed"), (array, "failed")):
        server.until_state(session_id, state)
    running = {
        submit("--project", "vision", "-r", "cuda.device=2", "--", "sh", "-c", LONG.format(code=code)): code
        for code in (0, 7)
    }
    shared = submit("-r", "cuda.shares=0.2", "--", "sleep", "100000")
    waiting = submit("-r", "cuda.device=1", "--after", next(iter(running)), "--", "sh", "-c", "exit 5")
    held = submit("-r", "cuda.device=1", "--hold", "--", "true")
    for session_id in (*running, shared):
        server.until_state(session_id, "running")
    allocated = server.ask(ALLOCATE)["data"]["allocate_gpus"]
    time.sleep(HISTORY_S)
    return {
        "key": key,
        "done": done,
        "failed": failed,
        "array": array,
        "running": running,
        "shared": shared,
        "waiting": waiting,
        "held": held,
        "external": allocated["session_id"],
        "at_us": time.time_ns() // 1000,
    }


def end_jobs(data: Path) -> None:
    """Kill the shims and jobs, whose pids the shims wrote down."""
    for file in data.glob("agents/*/kernels/*/pid.json"):
        fields = json.loads(file.read_text())
        for pid in (fields["shim_pid"], fields["pid"]):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


def pack(tree: Path, folder: Path, target: Path) -> None:
    """Write the archive."""

    def cleaned(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
        info.uid = info.gid = 0
        info.uname = info.gname = ""
        return None if info.name.endswith(("-shm", ".pyc", "__pycache__")) else info

    with tarfile.open(target, "w:xz", preset=9) as archive:
        archive.add(folder / "data", "data", filter=cleaned)
        archive.add(tree / "server" / "aliquot" / "execution" / "agent" / "spawner", "spawner", filter=cleaned)
        text = (folder / "recorded.json").read_bytes()
        info = tarfile.TarInfo("recorded.json")
        info.size = len(text)
        archive.addfile(info, io.BytesIO(text))


def main(tree: Path, target: Path) -> None:
    """Record."""
    folder = Path(tempfile.mkdtemp(prefix="aliquot-old-"))
    folder.chmod(0o711)
    server = OldServer(tree, folder)
    try:
        server.until_ready()
        facts = used(server, folder)
    finally:
        server.kill()
        end_jobs(folder / "data")
    for name in facts["running"] | {facts["shared"]: 0}:
        for kernel in (folder / "data").glob(f"agents/*/kernels/*{name.removeprefix('ses_')}*"):
            for written in OF_SHIMS:
                (kernel / written).unlink(missing_ok=True)
    (folder / "recorded.json").write_text(json.dumps(facts, indent=1))
    pack(tree, folder, target)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
