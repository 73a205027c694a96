"""Metrics in the output of real jobs: by lines, by patterns, downsampled, and of array tasks."""

import asyncio
import json
import os
import subprocess
import sys

import pytest

from aliquot.cli.acceptance.processes import OwnServer
from aliquot.client import Client
from e2e_sessions import submit, until, until_state

pytestmark = pytest.mark.anyio

TRAINS = """
i=0; while [ $i -lt 5000 ]; do echo "::metric loss=$((5000 - i)).5 step=$((i * 10)) lr=1e-3 bad=nan"; i=$((i + 1)); done
echo "epoch 3  accuracy: 0.875 (best)"; echo "accuracy: none"; echo "::metric loss=7 step=x"
"""


async def cli(server: OwnServer, *words: str) -> str:
    """Output of a command."""
    place = {"ALIQUOT_SERVER": server.url, "ALIQUOT_TOKEN_FILE": str(server.data_folder / "token")}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "aliquot", *words), stdout=subprocess.PIPE, env={**os.environ, **place}
    )
    printed, _ = await process.communicate()
    assert process.returncode == 0
    return printed.decode()


async def check_one(client: Client) -> str:
    patterns = [{"name": "acc", "pattern": "epoch {step} accuracy: {value} ("}]
    id = await submit(client, TRAINS, {"cpu": "1"}, metrics=patterns)
    await until_state(client, id, "completed")
    found = await client.session_metrics(id)
    by_name = {one.name: one for one in found.series}
    assert list(by_name) == ["acc", "loss", "lr"]
    loss = by_name["loss"]
    assert (loss.count, loss.last, loss.low, loss.high, loss.high_step) == (5001, 7.0, 1.5, 5000.5, 0)
    assert len(loss.steps) == len(loss.values) <= 400
    assert (loss.steps[0], loss.values[0], loss.values[-1]) == (0, 5000.5, 7.0)
    assert (by_name["acc"].steps, by_name["acc"].values) == ((3,), (0.875,))
    assert await client.session_metrics(id) == found
    return id


async def test_metrics_are_read_from_output_by_lines_and_patterns(two_gpus: OwnServer) -> None:
    async with two_gpus.client() as client:
        id = await check_one(client)
        assert "loss" in await cli(two_gpus, "session", "metrics", id)
        array = await submit(
            client,
            'echo "::metric loss=$(( (ALIQUOT_ARRAY_INDEX * 7) % 5 )) step=1"',
            {"cpu": "1"},
            array="0-4",
        )
        await until_state(client, array, "completed")
        told = json.loads(await cli(two_gpus, "session", "metrics", array, "--sort", "loss", "--json"))
        assert [(one["index"], one["series"][0]["low"]) for one in told] == [(0, 0), (3, 1), (1, 2), (4, 3), (2, 4)]
        assert (await cli(two_gpus, "session", "metrics", array, "--sort", "loss", "--highest")).splitlines()[1][
            0
        ] == "2"


async def test_metrics_grow_with_the_output_and_survive_a_restart(two_gpus: OwnServer) -> None:
    async with two_gpus.client() as client:
        id = await submit(client, 'echo "::metric loss=3"; printf "::metric loss=2"; read x; sleep 1000', {"cpu": "1"})
        await until_state(client, id, "running")

        async def seen() -> bool:
            return [one.count for one in (await client.session_metrics(id)).series] == [1]

        await until(seen)
        await two_gpus.kill()
        await two_gpus.start()
        [loss] = (await client.session_metrics(id)).series
        assert (loss.count, loss.last, loss.steps) == (1, 3.0, (0,))
