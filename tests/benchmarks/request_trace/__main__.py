"""Modules entered by a request: `scripts/trace-request [--json]`.

Starts a real server on SQLite with one local agent and mock GPUs, submits sessions through the GraphQL field
`create_session` one after the other, and prints the project's own modules whose functions run for one, in the order in
which they are first entered:

- from the resolver to the answer: from the call of the field's resolver until the answer is passed to the HTTP library.
  Other work of that time is left out: tasks and threads are followed from the request on.
- from the socket to the shim: from the bytes of the request until the job's program is executed; in the server until
  the order is written to the spawner, then in the spawner, the shim and the job's own process.

Not counted: libraries, generated code, what runs at import. The first sessions only warm the server up. Loops
(heartbeats, samplers, flushes) are left out in two ways: tasks that run while the idle server is watched count for no
request, and a module has to run for each of the requests. A loop that only the request wakes counts.
"""

import argparse
import http.client
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[3]
ACCELERATORS: Final = ROOT / "tests" / "data" / "accelerators" / "two_gpus.toml"
WARM: Final = 3
TRACED: Final = 15
WAIT_S_MAX: Final = 60.0
POLL_S: Final = 0.02
WATCHES: Final = 3
WATCH_S: Final = 1.2
"""Longer than the period of the frequent loops."""
CREATE: Final = """
mutation { create_session(input: {
  command: { argv: ["/bin/true"] }, slots: [{ slot: "cuda.device", amount: "1" }]
}) { __typename ... on CreateSessionSuccess { session { id } } ... on Error { code message } } }
"""
STATE: Final = "query ($id: ID!) { session(id: $id) { state } }"
AGENTS: Final = "{ agents(first: 2) { edges { node { state } } } }"


class Way(NamedTuple):
    """The modules that one request entered, each with the time from the request's begin to its first entry."""

    answer: dict[str, int]
    shim: dict[str, int]


class TracedServer:
    """A server under the trace, from outside."""

    def __init__(self, *, port: int, token: str, commands: Any, answers: Any, spawner_trace: Path) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S_MAX)
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._commands, self._answers = commands, answers
        self._spawner_trace = spawner_trace

    def ask(self, query: str, **variables: str) -> Any:
        """The data of a GraphQL request's answer."""
        body = json.dumps({"query": query, "variables": variables})
        self._connection.request("POST", "/graphql", body, self._headers)
        found = json.loads(self._connection.getresponse().read())
        assert "errors" not in found, found
        return found["data"]

    def watch_idle(self) -> None:
        """Let it record which of its tasks run without a request."""
        for _ in range(WATCHES):
            self._command("idle")
            time.sleep(WATCH_S)

    def run_session(self) -> Way:
        """Submit a session, wait for its end, and return its modules."""
        self._command("begin")
        before = self._spawner_trace.stat().st_size
        made = self.ask(CREATE)["create_session"]
        assert made["__typename"] == "CreateSessionSuccess", made
        _until(lambda: b" execve\n" in self._spawner_trace.read_bytes()[before:])
        noted = self._command("report")
        lines = self._spawner_trace.read_text(encoding="utf-8")[before:].splitlines()
        _until(lambda: self.ask(STATE, id=made["session"]["id"])["session"]["state"] == "completed")
        return _way(noted, [(int(at), what) for at, _, what in (line.partition(" ") for line in lines)])

    def _command(self, name: str) -> Any:
        print(name, file=self._commands, flush=True)
        return json.loads(self._answers.readline())


def main() -> None:
    """Trace, and print."""
    parser = argparse.ArgumentParser(prog="scripts/trace-request", description="Print the way of one create_session.")
    parser.add_argument("--json", action="store_true", help="print the two counts alone, as one object")
    options = parser.parse_args()
    with _served() as server:
        for _ in range(WARM):
            server.run_session()
        server.watch_idle()
        ways = [server.run_session() for _ in range(TRACED)]
    answer, shim = _common([way.answer for way in ways]), _common([way.shim for way in ways])
    if options.json:
        print(json.dumps({"resolver_to_answer": len(answer), "socket_to_shim": len(shim)}))
        return
    for title, modules in (("From the resolver to the answer", answer), ("From the socket to the shim", shim)):
        print(f"{title}:\n", *(f"{number:4}  {name}\n" for number, name in enumerate(modules, 1)))
    print(f"resolver to answer: {len(answer)} modules\nsocket to shim: {len(shim)} modules")


def _way(noted: dict[str, dict[str, int]], spawned: list[tuple[int, str]]) -> Way:
    """
    Args:
        noted: what `server` reports.
        spawned: the lines of `spawner`.
    """
    times = noted["times"]
    assert {"resolver", "answer", "order"} <= times.keys(), f"the trace missed a point of the way: {times}"
    executed = next(at for at, what in spawned if what == "execve")
    began = min(noted["modules"].values())
    whole = {path: at for path, at in noted["modules"].items() if at <= times["order"]}
    for path, at in [*noted["way"].items(), *((path, at) for at, path in spawned if at <= executed)]:
        whole[path] = min(at, whole.get(path, at))
    whole.pop("execve", None)
    return Way(
        answer={_module(path): at - began for path, at in noted["way"].items()},
        shim={_module(path): at - began for path, at in whole.items()},
    )


def _common(ways: list[dict[str, int]]) -> list[str]:
    """The modules common to all requests, by the median position of each."""
    places: dict[str, list[int]] = {}
    for way in ways:
        for place, name in enumerate(sorted(way, key=lambda name: way[name])):
            places.setdefault(name, []).append(place)
    common = {name: statistics.median(found) for name, found in places.items() if len(found) == len(ways)}
    return sorted(common, key=lambda name: (common[name], name))


def _module(path: str) -> str:
    place = Path(path).relative_to(ROOT).with_suffix("")
    return ".".join(place.parts[1:]).removesuffix(".__init__")


@contextmanager
def _served() -> Iterator[TracedServer]:
    with tempfile.TemporaryDirectory(prefix="aliquot-trace-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o711)  # jobs may run as another account
        spawner_trace = folder / "spawner.trace"
        spawner_trace.touch()
        spawner_trace.chmod(0o666)
        port = _free_port()
        (read_command, commands), (answers, write_answer) = os.pipe(), os.pipe()
        words = [str(read_command), str(write_answer), str(spawner_trace), "serve", "--port", str(port)]
        words += ["--data-folder", str(folder / "data"), "--accelerators", str(ACCELERATORS)]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("ALIQUOT_")}
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, Path(__file__).with_name("server.py"), *words, "--log-level", "warning"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                pass_fds=(read_command, write_answer),
                start_new_session=True,
            )
        os.close(read_command)
        os.close(write_answer)
        try:
            _until(lambda: _is_ready(port, process, folder / "log"))
            token = (folder / "data" / "token").read_text(encoding="utf-8").strip()
            with os.fdopen(commands, "w") as out, os.fdopen(answers) as lines:
                server = TracedServer(port=port, token=token, commands=out, answers=lines, spawner_trace=spawner_trace)
                _until(lambda: [one["node"]["state"] for one in server.ask(AGENTS)["agents"]["edges"]] == ["alive"])
                yield server
        finally:
            process.terminate()
            process.wait(WAIT_S_MAX)


def _is_ready(port: int, process: "subprocess.Popen[bytes]", log: Path) -> bool:
    if process.poll() is not None:
        raise SystemExit(f"the server ended with {process.returncode}:\n{log.read_text(errors='replace')[-4000:]}")
    probe = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S_MAX)
    try:
        probe.request("GET", "/readyz")
        return probe.getresponse().status == http.client.OK
    except OSError:
        return False
    finally:
        probe.close()


def _until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_S_MAX
    while not is_so():
        if time.monotonic() > end:
            raise SystemExit(f"the server did not get there in {WAIT_S_MAX:g} s")
        time.sleep(POLL_S)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


if __name__ == "__main__":
    main()
