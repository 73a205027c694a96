"""The in-memory kernel table of an agent: it refuses older attempts and does not grow with ended jobs."""

from pathlib import Path

import pytest

from aliquot.execution.agent import kernels
from aliquot.execution.agent.agent_folder import AgentFolder
from aliquot.execution.agent.kernels import KernelHandle, KernelTable
from aliquot_schema.ids import SessionId, kernel_id


@pytest.fixture
def folder(tmp_path: Path) -> AgentFolder:
    return AgentFolder(tmp_path)


def new_handle(folder: AgentFolder, session: str, *, attempt: int = 1, rank: int = 0) -> KernelHandle:
    return KernelHandle(folder=folder.kernel(kernel_id(SessionId(session), attempt=attempt, rank=rank)))


def test_the_number_of_remembered_attempts_of_ended_sessions_is_limited(
    folder: AgentFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "ATTEMPTS_KEPT", 3)
    table = KernelTable()
    for number in range(100):
        ended = new_handle(folder, f"sess_{number}", attempt=2)
        table.add(ended)
        table.remove(ended.kernel_id)
    assert [table.attempt_seen(SessionId(f"sess_{number}")) for number in (0, 96, 97, 98, 99)] == [0, 0, 2, 2, 2]
    assert len(table._attempts) + len(table._past) == 3


def test_the_attempt_of_a_present_session_is_never_forgotten(
    folder: AgentFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "ATTEMPTS_KEPT", 1)
    table = KernelTable()
    first, second = new_handle(folder, "sess_a", attempt=3), new_handle(folder, "sess_a", attempt=3, rank=1)
    table.add(first)
    table.add(second)
    table.remove(first.kernel_id)
    for number in range(5):
        other = new_handle(folder, f"sess_{number}")
        table.add(other)
        table.remove(other.kernel_id)
    assert table.attempt_seen(SessionId("sess_a")) == 3
    table.remove(second.kernel_id)
    assert table.attempt_seen(SessionId("sess_a")) == 3
    late = new_handle(folder, "sess_a", attempt=2)
    table.add(late)
    assert table.attempt_seen(SessionId("sess_a")) == 3
