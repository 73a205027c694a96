"""Failover of notices: the new leader sends those pending at the killed one, under the same id."""

import os
from pathlib import Path

import pytest

from failover_cluster import QUICK, failover_cluster
from notices_receivers import HANG, http_receiver

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


async def test_a_new_leader_delivers_notices_the_previous_leader_could_not(database_url: str, tmp_path: Path) -> None:
    url = database_url
    config = tmp_path / "aliquot.toml"
    async with http_receiver(HANG) as hook:
        receiver = (
            f'name = "hook"\nkind = "webhook"\nurl = "{hook.url}"\ntells = ["alerts", "owners"]\ntimeout-s = 60\n'
        )
        config.write_text(f"[[receivers]]\n{receiver}")
        os.chmod(tmp_path, 0o755)
        async with failover_cluster(url, url, environment=QUICK | {"ALIQUOT_CONFIG": str(config)}) as on:
            failed = await on.submit("exit 3", key="fails")
            assert (await on.ended(failed))["exit_code"] == 3
            (first,) = await hook.wait_for_requests(1)
            leader = await on.leader()
            await leader.kill()
            accepted = await hook.wait_for_notices("session_failed", "leader_changed")
            again = [one for one in accepted if one.headers["idempotency-key"] == first.headers["idempotency-key"]]
            assert [one.document for one in again] == [first.document]
            assert first.document["notices"][0]["subject"] == failed
