"""Group commit alone: which callers share a transaction, and which get a failure."""

import asyncio
from collections.abc import Sequence

import pytest

import store_records as make
from aliquot.service.ports import Batch, StoreUnavailable
from aliquot.store import commit
from aliquot.store.commit import GroupCommits, Outcome

pytestmark = pytest.mark.anyio


class Writer:
    """Writes nothing, when so configured."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.groups: list[Sequence[Batch]] = []
        self.may_go_on = asyncio.Event()
        self.error: Exception | None = None

    async def write(self, batches: Sequence[Batch]) -> Sequence[Outcome]:
        self.groups.append(batches)
        self.began.set()
        await self.may_go_on.wait()
        if self.error is not None:
            raise self.error
        return [()] * len(batches)

    @property
    def sizes(self) -> list[int]:
        return [len(group) for group in self.groups]


async def test_batches_that_arrive_during_a_write_form_the_next_group() -> None:
    writer = Writer()
    commits = GroupCommits(writer.write)
    batches = [make.batch(make.session()) for _ in range(8)]
    first = asyncio.create_task(commits.commit(batches[0]))
    await writer.began.wait()
    others = [asyncio.create_task(commits.commit(batch)) for batch in batches[1:]]
    await asyncio.sleep(0)
    writer.may_go_on.set()
    await asyncio.gather(first, *others)
    assert [batch for group in writer.groups for batch in group] == batches
    assert writer.sizes == [1, 7]


async def test_the_size_of_a_commit_group_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit, "GROUP_WRITES_MAX", 5)
    writer = Writer()
    writer.may_go_on.set()
    commits = GroupCommits(writer.write)
    pairs = [make.batch(make.session(), make.session()) for _ in range(7)]
    await asyncio.gather(*map(commits.commit, pairs))
    assert writer.sizes == [3, 3, 1]


@pytest.mark.parametrize("error", [StoreUnavailable("away"), RuntimeError("a bug")])
async def test_a_failed_group_write_fails_all_callers_and_the_next_write_is_tried(error: Exception) -> None:
    writer = Writer()
    writer.may_go_on.set()
    writer.error = error
    commits = GroupCommits(writer.write)
    outcomes = await asyncio.gather(*(commits.commit(make.batch()) for _ in range(3)), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [type(error)] * 3
    writer.error = None
    assert await commits.commit(make.batch()) == ()


async def test_draining_waits_for_accepted_commits() -> None:
    writer = Writer()
    commits = GroupCommits(writer.write)
    await commits.drain()
    callers = [asyncio.create_task(commits.commit(make.batch())) for _ in range(3)]
    await asyncio.sleep(0)
    draining = asyncio.create_task(commits.drain())
    await asyncio.sleep(0)
    assert not draining.done()
    callers[1].cancel()
    writer.may_go_on.set()
    await draining
    assert [caller.cancelled() for caller in callers] == [False, True, False]
