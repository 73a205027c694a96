"""`aliquot session logs` without -f: the output so far of a running session, or its last lines."""

from pathlib import Path

import pytest
from anyio import to_thread

from aliquot.cli.acceptance.processes import OwnServer
from cli_users import CliUser

pytestmark = pytest.mark.anyio

LINES = 3000
LOOKS = 100


async def test_the_logs_command_prints_the_output_or_its_last_lines_while_a_session_runs(
    two_gpus: OwnServer, tmp_path: Path
) -> None:
    person = CliUser.at(two_gpus, home=tmp_path)

    def course() -> None:
        script = f"seq 1 {LINES}; exec sleep 3600"
        session_id = person.run("session", "create", "--json", "--", "sh", "-c", script).json["id"]
        logs = ("session", "logs", session_id)
        whole = next(out for _ in range(LOOKS) if (out := person.run(*logs).out).endswith(f"\n{LINES}\n"))
        assert whole.split() == [str(number) for number in range(1, LINES + 1)]
        assert person.run(*logs, "--tail", "2").out == f"{LINES - 1}\n{LINES}\n"
        piece = person.run(*logs, "--json").json
        assert (piece["next_offset"], piece["has_more"], piece["at_end"]) == (piece["length"], False, False)
        assert "--tail" in person.run(*logs, "--tail", "2", "--follow", code=2).err
        person.run("session", "cancel", session_id)

    await to_thread.run_sync(course)
