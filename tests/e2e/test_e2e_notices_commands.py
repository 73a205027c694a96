"""`aliquot notices` against a real server with a real receiver."""

import asyncio
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from aliquot.cli import main
from aliquot.cli.acceptance.processes import OwnServer
from aliquot.cli.connection.server import REFUSED, USAGE
from notices_receivers import http_receiver

pytestmark = pytest.mark.anyio


async def test_notice_commands_change_rules_test_receivers_and_set_preferences(tmp_path: Path) -> None:
    async with http_receiver(200, 500) as hook:
        config = tmp_path / "aliquot.toml"
        config.write_text(f'[[receivers]]\nname = "hook"\nkind = "webhook"\nurl = "{hook.url}"\n')
        async with OwnServer("--no-local-agents", environment={"ALIQUOT_CONFIG": str(config)}) as server:
            assert await notices(server, "list") == (0, "no alert is open\n", "")
            assert "agent_lost" in (await notices(server, "rules"))[1]
            code, printed, _ = await notices(server, "set", "queue_backlog", "--above", "7", "--for", "60", "--json")
            (rule,) = json.loads(printed)
            assert (code, rule["threshold"], rule["for_s"], rule["version"]) == (0, 7, 60, 1)
            assert "20" in (await notices(server, "mute", "disk_low", "--for", "60"))[1]
            assert (await notices(server, "mute", "disk"))[0] == USAGE
            assert await notices(server, "test", "hook") == (0, "hook accepted the notification\n", "")
            code, _, error = await notices(server, "test", "hook")
            assert (code, "hook did not accept the notification: HTTP status 500" in error) == (REFUSED, True)
            assert "configured receivers: hook" in (await notices(server, "test", "pager"))[2]
            assert "HTTP status 500" in (await notices(server, "deliveries"))[1]
            assert (await notices(server, "me"))[1].startswith("this server sends no mail; an admin can set it up\n")
            code, printed, _ = await notices(server, "me", "--email", "ann@example.org", "--hear", "session_completed")
            assert printed.startswith("your address is ann@example.org, but this server sends no mail;")
            assert printed.endswith("\nyou are notified of session_completed\n")
            assert (await notices(server, "me", "--email", "no address"))[0] == REFUSED


async def notices(server: OwnServer, *arguments: str) -> tuple[int, str, str]:
    """Run a command in this process; (exit code, stdout, stderr)."""
    asking = ("--server", server.url, "--token-file", str(server.data_folder / "token"))
    done = await asyncio.to_thread(CliRunner().invoke, main, ["notices", *arguments, *asking])
    return done.exit_code, done.stdout, done.stderr
