"""Following of output whose agent is lost: it goes on when the agent is back, or with the next attempt."""

import json
from collections.abc import AsyncGenerator, Generator, Iterator, Mapping
from contextlib import nullcontext
from typing import Any

import pytest
import typer

from aliquot.cli.session import follow, logs
from aliquot.cli.session.follow import ArrayFollower, Follower
from aliquot.client import BlockingClient, GraphQLFault, task_outputs
from aliquot.client.generated.enums import SessionState
from aliquot.client.generated.queries_types import LogChunk
from aliquot.client.generated.sessions import ArrayTasks, Session, TaskSet
from cli_tables import NOW, filled, session_id

LOST = GraphQLFault([{"message": "agent gpu01 is not connected", "extensions": {"code": "unavailable"}}])
RUNS = {"state": SessionState.RUNNING, "cluster_size": 1, "exit_code": None, "ended_at": None}
ENDED = {"state": SessionState.COMPLETED, "cluster_size": 1, "exit_code": 0, "ended_at": NOW}
KILLED = {**ENDED, "state": SessionState.CANCELED, "exit_code": None, "signal": 15}

Step = str | Exception


class Cluster(BlockingClient):
    """Sessions and outputs by script: a list of steps for each time that the output of an attempt is asked for."""

    def __init__(self, outputs: Mapping[int, list[list[Step]]], sessions: list[Session]) -> None:
        self._outputs = {attempt: iter(asked) for attempt, asked in outputs.items()}
        self._sessions = sessions
        self.offsets: list[int] = []

    def get_session(self, id: str) -> Session:
        return self._sessions.pop(0) if len(self._sessions) > 1 else self._sessions[0]

    def states(self, id: str) -> Iterator[Session]:  # type: ignore[override]
        while True:
            found = self.get_session(id)
            yield found
            if found.ended_at is not None:
                return

    def outputs(self, id: str, *, offsets: Mapping[int, int], attempt: int) -> Iterator[LogChunk]:  # type: ignore[override]
        [(rank, offset)] = offsets.items()
        self.offsets.append(offset)
        for step in next(self._outputs[attempt]):
            if isinstance(step, Exception):
                raise step
            yield filled(LogChunk, rank=rank, offset=offset, next_offset=offset + len(step), text=step)
            offset += len(step)


class Reads:
    """The same cluster for the outputs of an array."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def states(self, id: str) -> AsyncGenerator[Session, None]:
        yield self._cluster.get_session(id)

    async def get_session(self, id: str) -> Session:
        return self._cluster.get_session(id)

    async def outputs(self, id: str, *, offsets: Mapping[int, int], attempt: int) -> AsyncGenerator[LogChunk, None]:
        for chunk in self._cluster.outputs(id, offsets=offsets, attempt=attempt):
            yield chunk


def seen(attempt: int, known: Mapping[str, Any]) -> Session:
    return filled(Session, id=session_id(1), attempt=attempt, **known)


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "CUT_PAUSE_S", 0.0)
    monkeypatch.setattr(task_outputs, "CUT_PAUSE_S", 0.0)


def test_following_goes_on_at_the_same_byte_when_a_lost_agent_is_back(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster({1: [["one ", LOST], [LOST], ["two"]]}, [seen(1, RUNS)] * 4 + [seen(1, ENDED)])
    assert Follower(cluster, session_id(1), raw=False).run().exit_code == 0
    shown = capsys.readouterr()
    assert shown.out == "one two"
    assert shown.err == "aliquot: agent gpu01 is not connected; waiting for it, or for another attempt\n"
    assert cluster.offsets == [0, 4, 4]


def test_following_a_session_of_a_lost_agent_goes_on_with_its_next_attempt(capsys: pytest.CaptureFixture[str]) -> None:
    states = [seen(1, RUNS), seen(1, RUNS), seen(2, RUNS), seen(2, ENDED)]
    cluster = Cluster({1: [["one ", LOST], [LOST]], 2: [["again"]]}, states)
    assert Follower(cluster, session_id(1), raw=False).run().attempt == 2
    assert capsys.readouterr().out == "one again"


@pytest.mark.parametrize(
    ("asked", "printed"),
    [({"rank": [1]}, ["one", "again"]), ({"as_json": True}, [(0, "one\n"), (0, "again\n")])],
    ids=["one rank", "JSON"],
)
def test_following_one_rank_or_as_json_goes_on_with_the_next_attempt(
    asked: dict[str, Any], printed: list[object], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = {**ENDED, "state": SessionState.FAILED, "exit_code": 3}
    states = [seen(1, RUNS), seen(1, RUNS), seen(2, RUNS), seen(2, failed)]
    cluster = Cluster({1: [["one\n"]], 2: [["again\n"]]}, states)
    monkeypatch.setattr(logs, "connected", lambda **_: nullcontext(cluster))
    monkeypatch.setattr(logs, "find_session", lambda _client, id: id)
    with pytest.raises(typer.Exit) as ended:
        logs.logs(session_id(1), follow=True, **asked)
    assert ended.value.exit_code == 1
    lines = capsys.readouterr().out.splitlines()
    assert [_read(line) for line in lines] == printed


def _read(line: str) -> object:
    if not line.startswith("{"):
        return line
    found = json.loads(line)
    return found["rank"], found["text"]


def test_a_session_that_failed_with_its_agent_is_followed_to_its_end() -> None:
    failed = seen(1, {**ENDED, "state": SessionState.FAILED, "exit_code": None, "signal": None})
    cluster = Cluster({1: [["one ", LOST]]}, [seen(1, RUNS), failed])
    assert Follower(cluster, session_id(1), raw=False).run() is failed


@pytest.mark.parametrize("end", [ENDED, KILLED])
def test_output_that_was_cut_is_read_to_its_end_after_the_session_has_ended(
    end: Mapping[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Cluster({1: [["one ", LOST], [LOST], ["two"]]}, [seen(1, RUNS), seen(1, end)])
    assert Follower(cluster, session_id(1), raw=False).run().ended_at == NOW
    assert capsys.readouterr().out == "one two"


def test_output_of_a_completed_session_that_cannot_be_read_is_an_error() -> None:
    cluster = Cluster({1: [[LOST]] * follow.CUT_READS_MAX}, [seen(1, ENDED)])
    with pytest.raises(GraphQLFault, match="not connected"):
        Follower(cluster, session_id(1), raw=False).run()


@pytest.mark.anyio
async def test_following_an_array_goes_on_after_the_agent_of_a_task_was_lost() -> None:
    states = [seen(1, RUNS), seen(1, RUNS), seen(2, RUNS), seen(2, ENDED)]
    cluster = Cluster({1: [["one ", LOST], ["two", LOST]], 2: [["again"]]}, states)
    found = task_outputs._task_output(Reads(cluster), "ses_1", 3, read=None, on_cut=print)
    assert [(one.attempt, one.chunk.text) async for one in found] == [(1, "one "), (1, "two"), (2, "again")]


@pytest.mark.anyio
@pytest.mark.parametrize("end", [ENDED, KILLED])
async def test_the_output_of_an_ended_task_is_read_to_its_end_once_its_agent_is_back(end: Mapping[str, Any]) -> None:
    cluster = Cluster({1: [["one ", LOST], [LOST], ["two"]]}, [seen(1, RUNS), seen(1, end)])
    found = task_outputs._task_output(Reads(cluster), "ses_1", 3, read=None, on_cut=print)
    assert [one.chunk.text async for one in found] == ["one ", "two"]


@pytest.mark.anyio
async def test_the_output_of_a_task_that_failed_with_its_agent_ends() -> None:
    failed = seen(1, {**ENDED, "state": SessionState.FAILED, "exit_code": None, "signal": None})
    cluster = Cluster({1: [["one ", LOST]]}, [failed])
    found = task_outputs._task_output(Reads(cluster), "ses_1", 3, read=None, on_cut=print)
    assert [one.chunk.text async for one in found] == ["one "]


class Tasks(Reads):
    """Tasks 3 and 4 of an array, on one agent that is lost."""

    def __init__(self) -> None:
        self._tasks = {f"ses_1_{index}": Cluster({1: [[LOST], [LOST], ["one\n"]]}, []) for index in (3, 4)}

    async def states(self, id: str) -> AsyncGenerator[Session, None]:
        yield filled(Session, id=id, tasks=filled(ArrayTasks, active=filled(TaskSet, count=2, indices="3-4")))

    async def get_session(self, id: str) -> Session:
        return seen(1, ENDED)

    async def outputs(self, id: str, *, offsets: Mapping[int, int], attempt: int) -> AsyncGenerator[LogChunk, None]:
        for chunk in self._tasks[id].outputs(id, offsets=offsets, attempt=attempt):
            yield chunk


@pytest.mark.anyio
async def test_following_an_array_says_once_for_all_its_tasks_that_an_agent_is_lost() -> None:
    cuts: list[str] = []
    found = [one.chunk.text async for one in task_outputs.task_outputs(Tasks(), "ses_1", read={}, on_cut=cuts.append)]
    assert found == ["one\n", "one\n"]
    assert cuts == ["agent gpu01 is not connected"]


def test_an_incomplete_line_of_a_task_is_not_joined_with_its_next_attempt(capsys: pytest.CaptureFixture[str]) -> None:
    class Array(Cluster):
        def task_outputs(
            self, id: str, *, read: Mapping[int, task_outputs.TaskPosition], on_cut: task_outputs.OnCut | None = None
        ) -> Generator[task_outputs.TaskChunk, None, None]:
            for attempt, text in ((1, "half"), (2, "again\n")):
                chunk = filled(LogChunk, rank=0, offset=0, next_offset=len(text), text=text, at_end=False)
                yield task_outputs.TaskChunk(index=3, attempt=attempt, ranks=1, chunk=chunk)

    ArrayFollower(Array({}, [seen(1, ENDED)]), session_id(1), raw=False).run()
    assert capsys.readouterr().out == "[3] half\n[3] again\n"


def test_following_an_array_prints_why_it_waits(capsys: pytest.CaptureFixture[str]) -> None:
    class Array(Cluster):
        def task_outputs(
            self, id: str, *, read: Mapping[int, task_outputs.TaskPosition], on_cut: task_outputs.OnCut | None = None
        ) -> Generator[task_outputs.TaskChunk, None, None]:
            assert on_cut is not None
            on_cut(str(LOST))
            yield from ()

    ArrayFollower(Array({}, [seen(1, ENDED)]), session_id(1), raw=False).run()
    said = "aliquot: agent gpu01 is not connected; waiting for it, or for another attempt\n"
    assert capsys.readouterr().err == said
