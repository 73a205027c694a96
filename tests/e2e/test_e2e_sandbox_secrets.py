"""Secrets and the sandbox on a real server: a value is visible to its job only."""

import asyncio
import os
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from aliquot.cli.acceptance.processes import OwnServer
from aliquot.client.generated.audit import AuditFilterInput
from aliquot.client.generated.inputs import ChangeSessionInput
from aliquot.execution.agent.isolation.sandbox import sandbox_fault
from aliquot.execution.agent.job_user import JobUserPolicy, resolve_user
from e2e_sessions import output_of, submit, until, until_state

pytestmark = pytest.mark.anyio

VALUE = "a value that nobody else may see: 7d1f0c"
SET = """
mutation ($name: String!, $value: String!) {
  set_secret(name: $name, value: $value) {
    __typename ... on SetSecretSuccess { secret { name } } ... on Error { message }
  }
}
"""
FAILURE = "query ($id: ID!) { session(id: $id) { failure { message } } }"
CAPABILITIES = """
{ agents { edges { node { id capabilities { sandbox sandbox_note enforced { memory processes cpu wall_time } } } } } }
"""
WHY_NOT = sandbox_fault(resolve_user(JobUserPolicy(), asked=None, uid=os.geteuid(), environment=os.environ))


def holding(folder: Path) -> list[str]:
    """Files in a folder that contain the value. Files that disappear meanwhile are skipped."""
    found = []
    for root, _, names in os.walk(folder):
        for path in (Path(root, name) for name in names):
            with suppress(FileNotFoundError):
                if path.is_file() and not path.is_symlink() and VALUE.encode() in path.read_bytes():
                    found.append(str(path.relative_to(folder)))
    return found


def is_there(path: str) -> bool:
    return os.path.lexists(path)


def on_command_lines() -> list[str]:
    """Processes with the value in an argument."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            try:
                told = (process / "cmdline").read_bytes()
            except OSError:
                continue
            if VALUE.encode() in told:
                found.append(process.name)
    return found


async def test_a_secret_is_visible_only_to_its_job(two_gpus: OwnServer) -> None:
    async with two_gpus.client() as client:
        done = (await client.execute(SET, {"name": "token", "value": VALUE}))["set_secret"]
        assert done == {"__typename": "SetSecretSuccess", "secret": {"name": "token"}}
        listed = await client.execute("{ secrets { name created_at changed_at } }")
        assert [secret["name"] for secret in listed["secrets"]] == ["token"]
        said = 'test "$TOKEN" = "$(cat "$ALIQUOT_SECRETS_DIR/it")" && printf %s "$TOKEN" | wc -c && ls -l '
        said += '"$ALIQUOT_SECRETS_DIR"; while [ ! -e go ]; do sleep 0.05; done; echo $ALIQUOT_SECRETS_DIR; pwd'
        uses = [{"name": "token", "as_env": "TOKEN", "as_file": "it"}]
        asked = await submit(client, said, {"cpu": "1"}, secrets=uses, max_retries=1)
        await until_state(client, asked, "running")
        [work] = await until_work(two_gpus, asked)
        assert holding(two_gpus.data_folder) == []
        assert on_command_lines() == []
        # The restarted server still has the secrets, under a new key, and the job is not affected.
        await two_gpus.stop()
        assert holding(two_gpus.data_folder) == []
        keys = (two_gpus.data_folder / "server" / "secrets.key").read_text()
        said = await rotated(two_gpus.data_folder)
        assert said.startswith("encrypted 1 secret with a new key")
        assert (two_gpus.data_folder / "server" / "secrets.key").read_text() != keys
        await two_gpus.start()
    async with two_gpus.client() as client:
        (work / "go").touch()
        await until_state(client, asked, "completed")
        printed = (await output_of(client, asked)).splitlines()
        assert printed[0] == str(len(VALUE))
        assert "-rw-------" in "\n".join(printed)
        assert not is_there(printed[-2])
        again = await submit(client, 'printf %s "$TOKEN" | wc -c', {"cpu": "1"}, secrets=uses)
        await until_state(client, again, "completed")
        assert (await output_of(client, again)).strip() == str(len(VALUE))
        with pytest.raises(Exception, match="has no secret other"):
            await submit(client, "true", {"cpu": "1"}, secrets=[{"name": "other", "as_env": "OTHER"}])
        waits = await submit(client, "true", {"cpu": "1"}, secrets=uses, held=True)
        await client.delete_secret("token")
        await client.release_session(ChangeSessionInput(id=waits))
        await until_state(client, waits, "failed")
        failed = await client.execute(FAILURE, {"id": waits})
        assert "was deleted" in failed["session"]["failure"]["message"]
        changes = (await client.audit(filter=AuditFilterInput(kind="secrets.set"))).edges
        assert len(changes) == 1
        assert "token" in repr(changes)
        assert VALUE not in repr(changes)
    assert VALUE not in two_gpus.log_tail()
    assert holding(two_gpus.data_folder) == []


async def rotated(data_folder: Path) -> str:
    """Output of `aliquot db rotate-secrets`."""
    words = ("-m", "aliquot", "db", "rotate-secrets", "--data-folder", str(data_folder))
    process = await asyncio.create_subprocess_exec(
        sys.executable, *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    return (await process.communicate())[0].decode()


async def until_work(server: OwnServer, session_id: str) -> list[Path]:
    """The work folders of a session's kernels, once they exist."""

    async def look() -> list[Path]:
        return sorted((server.data_folder / "agents").glob(f"*/kernels/{session_id}.*/work"))

    return await until(look)


QUOTA = """
group=$(grep -E '^[0-9]+:([^:]*,)?cpu(,[^:]*)?:' /proc/self/cgroup | cut -d: -f3)
mount=$(awk '/ - cgroup / && $NF ~ /(^|,)cpu(,|$)/ {print $5; exit}' /proc/self/mountinfo)
cat "$mount$group/cpu.cfs_quota_us"
"""


@pytest.mark.skipif(WHY_NOT is not None, reason=f"no sandbox: {WHY_NOT}")
async def test_the_sandbox_and_limits_that_an_agent_reports_are_enforced(two_gpus: OwnServer) -> None:
    async with two_gpus.client() as client:
        [agent] = (await client.execute(CAPABILITIES))["agents"]["edges"]
        told = agent["node"]["capabilities"]
        assert (told["sandbox"], told["sandbox_note"]) == ("standard", "")
        assert told["enforced"]["wall_time"] == "shim"
        folder = two_gpus.data_folder
        text = f"ls -A {folder} {folder}/server; cat {folder}/token; touch /usr/x; ls /proc | grep -c '^[0-9]'"
        inside = await submit(client, text, {"cpu": "1"}, sandbox="standard")
        await until_state(client, inside, "completed", "failed")
        printed = await output_of(client, inside)
        assert two_gpus.token not in printed
        assert "aliquot.db" not in printed
        assert "Read-only file system" in printed
        if told["enforced"]["cpu"] == "cgroup_v1":
            held = await submit(client, QUOTA, {"cpu": "2"})
            await until_state(client, held, "completed", "failed")
            assert (await output_of(client, held)).strip() == "200000"


async def test_requests_that_the_operator_forbids_are_refused_at_submission(anyio_backend: str) -> None:
    """Without a sandbox, a session that requires it would wait forever."""
    settings = {"ALIQUOT_SANDBOX": "off", "ALIQUOT_COMMAND_DENY": "rm -rf /( |$)", "ALIQUOT_JOB_OPEN_FILES_MAX": "64"}
    files = Path(__file__).parents[1] / "data" / "accelerators" / "two_gpus.toml"
    async with OwnServer("--accelerators", str(files), environment=settings) as server, server.client() as client:
        with pytest.raises(Exception, match=r"sandbox: no registered agent has a sandbox"):
            await submit(client, "true", {"cpu": "1"}, sandbox="standard")
        with pytest.raises(Exception, match="must not match"):
            await submit(client, "rm -rf / --no-preserve-root", {"cpu": "1"})
