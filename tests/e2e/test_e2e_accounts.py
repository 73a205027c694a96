"""Several users on one server, with keys and Unix accounts of their own, also after a restart."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from aliquot.cli.acceptance.processes import OwnServer
from aliquot.client import Client
from aliquot_schema.errors import Unauthenticated
from e2e_sessions import output_of, submit, until, until_state

pytestmark = pytest.mark.anyio

DETAILS = "query ($id: ID!) { session(id: $id) { owner command exit_code hidden waits { reason message } attempt } }"
FLAGS = ("--accelerators", str(Path(__file__).parents[1] / "data" / "accelerators" / "two_gpus.toml"))
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")


async def aliquot(server: OwnServer, *words: str) -> tuple[int, str]:
    """Run a command as the server's admin; (exit code, output)."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "aliquot", *words),
        *("--server", server.url, "--token-file", str(server.data_folder / "token")),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    printed, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, printed.decode()


async def new_user(server: OwnServer, name: str, *more: str) -> str:
    """Create a user with a key, and return the output."""
    code, said = await aliquot(server, "user", "add", name, *more)
    assert code == 0, said
    return await new_key(server, name)


async def new_key(server: OwnServer, name: str) -> str:
    code, secret = await aliquot(server, "key", "new", name, "--scope", "admin", "--expires", "1d")
    assert code == 0, secret
    return secret.strip()


async def looked_at(client: Client, session_id: str) -> dict[str, Any]:
    return dict((await client.execute(DETAILS, {"id": session_id}))["session"])


@as_root
async def test_the_jobs_of_each_user_run_as_the_users_own_account(anyio_backend: str) -> None:
    async with OwnServer(*FLAGS) as server:
        anna = await new_user(server, "anna", "--unix", "games")
        ben = await new_user(server, "ben", "--unix", "daemon")
        async with Client(server.url, anna) as annas, Client(server.url, ben) as bens:
            hers = await submit(annas, "umask 077; id -un; id -Gn; echo hers > mine; pwd", {"cpu": "1"})
            await until_state(annas, hers, "completed")
            name, groups, folder = (await output_of(annas, hers)).split("\n")[:3]
            assert (name, groups) == ("games", "games")

            his = await submit(bens, f"id -un; cat {folder}/mine; echo {folder}/*", {"cpu": "1"})
            await until_state(bens, his, "completed")
            printed = await output_of(bens, his)
            assert printed.startswith("daemon\n")
            assert "hers" not in printed

            seen = await looked_at(bens, hers)
            assert (seen["owner"], seen["command"], seen["exit_code"]) == ("anna", [], None)
            assert {"command", "environment", "exit_code"} <= set(seen["hidden"])
            with pytest.raises(Exception, match="only its owner and admins may read its output"):
                await output_of(bens, hers)


@as_root
@pytest.mark.parametrize("unix", ["no-such-account"])
async def test_an_account_missing_on_the_host_is_reported(anyio_backend: str, unix: str) -> None:
    async with OwnServer(*FLAGS) as server:
        anna = await new_user(server, "anna", "--unix", unix)
        code, said = await aliquot(server, "user", "set", "anna", "--unix", unix)
        assert (code, f"has no account {unix}, so jobs of anna fail there; create it (useradd {unix})" in said) == (
            0,
            True,
        )
        async with Client(server.url, anna) as annas:
            hers = await submit(annas, "id -un", {"cpu": "1"})
            ended = await until_state(annas, hers, "failed")
            assert f"there is no account '{unix}' on host" in ended["failure"]["message"]
            assert "aliquot user set anna --unix NAME" in ended["failure"]["message"]
            assert (ended["failure"]["code"], ended["attempt"]) == ("no_account", 1)


@as_root
async def test_in_a_demo_everybodys_jobs_run_as_the_job_user(anyio_backend: str) -> None:
    async with OwnServer(*FLAGS, "--demo", "--job-user", "daemon") as server:
        code, said = await aliquot(server, "user", "add", "anna", "--unix", "no-such-account")
        words = "jobs of anna run as daemon (the job user), and --unix no-such-account is not used"
        assert (code, words in said) == (0, True)
        for key in (await new_key(server, "anna"), await new_user(server, "ben")):
            async with Client(server.url, key) as client:
                theirs = await submit(client, "id -un", {"cpu": "1"})
                await until_state(client, theirs, "completed")
                assert await output_of(client, theirs) == "daemon\n"


@as_root
async def test_a_user_without_a_unix_account_cannot_submit(anyio_backend: str) -> None:
    async with OwnServer(*FLAGS) as server:
        code, said = await aliquot(server, "user", "add", "eve", "--unix", "root")
        assert (code != 0, "root" in said) == (True, True)
        vera = await new_user(server, "vera")
        async with Client(server.url, vera) as client:
            with pytest.raises(Exception, match="has no Unix account"):
                await submit(client, "true", {"cpu": "1"})


async def test_users_and_keys_survive_a_restart_and_revoked_keys_stay_revoked(anyio_backend: str) -> None:
    async with OwnServer(*FLAGS, "--single-trust-domain") as server:
        anna, ben = await new_user(server, "anna"), await new_user(server, "ben")
        code, listed = await aliquot(server, "key", "list", "--json")
        bens = next(key["id"] for key in json.loads(listed) if key["user"] == "ben")
        assert (code, "secret" in listed) == (0, False)
        assert (await aliquot(server, "key", "revoke", bens))[0] == 0
        assert (await aliquot(server, "user", "set", "anna", "--role", "operator", "--project", "vision"))[0] == 0
        await server.stop()
        await server.start()
        async with Client(server.url, anna) as client:
            me = (await client.execute("{ me { name role projects } }"))["me"]
            assert me == {"name": "anna", "role": "operator", "projects": ["vision"]}
        async with Client(server.url, ben) as client:
            with pytest.raises(Unauthenticated):
                await client.execute("{ me { name } }")
        code, table = await aliquot(server, "user", "list")
        assert (code, "anna" in table, "operator" in table) == (0, True, True)
        assert (await aliquot(server, "user", "disable", "anna"))[0] == 0

        async def is_out() -> bool:
            async with Client(server.url, anna) as client:
                try:
                    await client.execute("{ me { name } }")
                except Unauthenticated:
                    return True
                return False

        await until(is_out)
        assert anna not in server.log_tail()
