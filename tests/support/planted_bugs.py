"""Bugs that were fixed, planted back by patches into a copy of the packages, and the tests that find them again.

    .venv/bin/python tests/support/planted_bugs.py NAME     plant one, and run its test: exit code 0 when it is found
    .venv/bin/python tests/support/planted_bugs.py          print the table of tests/simulation/README.md

The patches are in tests/simulation/planted. The work tree is never changed.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PATCHES: Final = ROOT / "tests" / "simulation" / "planted"
README: Final = ROOT / "tests" / "simulation" / "README.md"
FIND_S_MAX: Final = 120
PACKAGES: Final = {"server": "aliquot", "schema": "aliquot_schema"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedBug:
    """One bug."""

    name: str
    """Of its patch."""
    was: str
    """What was wrong, as a user saw it."""
    fixed: str
    """The commit that repaired it, or the release notes that name it."""
    test: str
    """Finds it."""
    is_short: bool = True
    """Whether the normal suite plants it; the others need `scripts/test --long`."""

    @property
    def patch(self) -> Path:
        return PATCHES / f"{self.name}.patch"


BUGS: Final = (
    PlantedBug(
        name="clock-goes-back",
        was="After the machine's clock was set back, times went back with it",
        fixed="020a9dcf",
        test="tests/simulation/test_simulation_clock.py::"
        "test_a_clock_set_back_runs_at_half_speed_until_the_wall_clock_catches_up",
    ),
    PlantedBug(
        name="overdue-ends-now",
        was="A session past its planned end was expected to end at that moment, so small sessions passed a wide one",
        fixed="af135548",
        test="tests/core/ordering/test_ordering_backfill.py::"
        "test_an_overdue_session_is_expected_to_run_on_for_as_long_as_it_has_overrun",
    ),
    PlantedBug(
        name="array-placements-outdated",
        was="Tasks of an array that ended during a pass had the placements of its other tasks refused",
        fixed="8520a520",
        test="tests/service/test_service_concurrent_changes.py::"
        "test_tasks_of_an_array_that_end_during_a_pass_do_not_outdate_the_placements_of_the_others",
    ),
    PlantedBug(
        name="refused-batch-charged",
        was="A refused batch of sessions counted by its length in the rate limit",
        fixed="8130cfa3",
        test="tests/service/test_service_queue_full.py::test_a_refused_batch_is_charged_as_one_submission",
    ),
    PlantedBug(
        name="zeros-of-a-hole",
        was="Output that a job had truncated to a larger size was followed with zero bytes",
        fixed="956b2460",
        test="tests/execution/agent/test_agent_logs.py::test_an_output_with_a_huge_hole_is_followed_across_the_hole",
    ),
    PlantedBug(
        name="takeover-after-a-leap",
        was="After the clock jumped ahead, a server that took over removed history that was not old",
        fixed="e988e47b",
        test="tests/service/test_service_clock_jumps.py::test_a_new_leader_after_a_clock_jump_waits_for_the_rest_of_the_day",
    ),
    PlantedBug(
        name="remainders-of-a-quota",
        was="Sessions that one quota held back named different remainders",
        fixed="118a1bf7",
        test="tests/core/rules/test_rules_quota.py::test_rows_refused_before_and_after_a_start_name_the_same_remainder",
    ),
    PlantedBug(
        name="metadata-of-the-cloud",
        was="Notices were sent to link-local hosts, where clouds serve the credentials of a machine",
        fixed="e988e47b",
        test="tests/attacks/test_attacks_outgoing.py::test_notices_to_host_names_with_link_local_addresses_are_refused",
        is_short=False,
    ),
    PlantedBug(
        name="compressed-keys",
        was="A small compressed answer of an identity provider was decoded to many times its size",
        fixed="e988e47b",
        test="tests/attacks/test_attacks_outgoing.py::test_a_compressed_provider_response_is_refused",
        is_short=False,
    ),
    PlantedBug(
        name="cancelled-with-its-caller",
        was="Work that must end was cancelled with its caller, and left a PostgreSQL session open",
        fixed="83e4fd71",
        test="tests/schema/test_schema_async_tasks.py::test_a_caller_cancelled_twice_does_not_cancel_the_work",
    ),
    PlantedBug(
        name="job-allocated-twice",
        was="Of two calls that allocated GPUs to one job at the same moment, the second was refused",
        fixed="e0456791",
        test="tests/service/test_service_external_allocations.py::"
        "test_a_second_request_is_not_refused_while_the_first_one_is_being_placed",
        is_short=False,
    ),
    PlantedBug(
        name="lagging-replica",
        was="A server wrote into a promoted PostgreSQL replica that lacked events which it had read",
        fixed="78193a33",
        test="tests/store/test_store_events.py::test_a_database_behind_the_events_a_server_has_read_refuses_commits",
    ),
    PlantedBug(
        name="end-meets-grant",
        was="A job that ended while devices were granted to another kept its own for up to a second on a quiet server",
        fixed="4fe8c022",
        test="tests/service/test_service_concurrent_changes.py::"
        "test_the_end_of_a_session_during_a_grant_waits_only_for_the_commit_of_the_grant",
    ),
    PlantedBug(
        name="ledger-without-medians",
        was="Ledgers of 0.1.0 could not be replayed",
        fixed="0.2.0",
        test="tests/ledger/test_ledger_old_releases.py::"
        "test_every_pass_of_an_earlier_release_is_repeated_and_differences_name_the_versions",
        is_short=False,
    ),
)


class NotPlanted(Exception):
    """A patch does not fit the code any more; the message has what `patch` printed."""


def find(bug: PlantedBug) -> tuple[bool, str]:
    """Plant a bug into a copy of the packages, and run its test with the copy.

    Returns:
        Whether the test failed by an assertion or an error of the code under test, and what pytest printed.

    Raises:
        NotPlanted: the patch does not apply.
    """
    with tempfile.TemporaryDirectory(prefix="aliquot-planted-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # jobs of tests may run under another account
        for place, package in PACKAGES.items():
            shutil.copytree(
                ROOT / place / package,
                folder / place / package,
                ignore=shutil.ignore_patterns("__pycache__", "dashboard_dist"),
            )
        done = subprocess.run(
            ["patch", "--strip=1", "--fuzz=0", "--batch", "--input", str(bug.patch)],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise NotPlanted(f"{bug.patch.name} does not apply: bring it up to date\n{done.stdout}{done.stderr}")
        paths = [str(folder / place) for place in PACKAGES] + [str(ROOT / "tests" / "support")]
        tested = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", bug.test],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=FIND_S_MAX,
            check=False,
        )
        # 1: tests failed. Anything else, such as 2 or 4, is an error of the test itself.
        return tested.returncode == 1 and "1 failed" in tested.stdout, tested.stdout + tested.stderr


def table() -> str:
    """Rows of the README."""
    rows = [
        f"| {bug.was} | {bug.fixed} | `.venv/bin/python tests/support/planted_bugs.py {bug.name}` |" for bug in BUGS
    ]
    return "\n".join(["| what was wrong | repaired in | found again by |", "|---|---|---|", *rows])


def main(*names: str) -> int:
    """Print the table, or find a bug."""
    if not names:
        print(table())
        return 0
    (bug,) = (bug for bug in BUGS if bug.name == names[0])
    is_found, printed = find(bug)
    print(printed)
    print(f"{bug.name}: {'found' if is_found else 'NOT FOUND'} by {bug.test}")
    return int(not is_found)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
