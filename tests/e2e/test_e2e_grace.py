"""The configured grace applies at the time limit too: the job has exactly that long to save."""

from signal import SIGKILL
from typing import Final

import pytest

from aliquot.cli.acceptance.processes import OwnServer
from e2e_sessions import output_of, submit, until_state

pytestmark = pytest.mark.anyio

JOB: Final = (
    "exec 2> /dev/null; trap 'echo stopping; sleep {saving}; echo saved; exit 0' TERM;"
    " echo began; while :; do sleep 0.1; done"
)
"""Saves for this many seconds after the stop signal."""


@pytest.mark.parametrize(
    ("grace", "saving", "ending", "lines"),
    [
        ("2m", 11, ("completed", None), ["began", "stopping", "saved"]),
        ("300ms", 8, ("failed", SIGKILL), ["began", "stopping"]),
    ],
)
async def test_a_job_at_its_time_limit_has_the_configured_grace(
    grace: str, saving: int, ending: tuple[str, int | None], lines: list[str]
) -> None:
    async with OwnServer("--demo", environment={"ALIQUOT_GRACE_S": grace}) as own, own.client() as client:
        job = await submit(client, JOB.format(saving=saving), {"cpu": "1"}, time_limit=1.0)
        ended = await until_state(client, job, "failed", "completed")
        assert (ended["state"], ended["signal"]) == ending
        assert (await output_of(client, job)).splitlines() == lines
