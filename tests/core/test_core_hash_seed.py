"""The same input gives the same bytes under other hash seeds and collection orders."""

import os
import subprocess
import sys
from pathlib import Path

import core_plan_probe
from aliquot.core.scheduler.decide import decide
from aliquot_schema.reasons import Reason
from core_cluster import NOW_US
from core_plan_probe import digest, large_snapshot, some_policies


def test_the_plan_does_not_depend_on_hashes_or_order() -> None:
    state = large_snapshot()
    plans = [decide(state, policy, now_us=NOW_US, seed=0) for policy in some_policies()]
    reasons = {verdict.reason for plan in plans for verdict in plan.verdicts.values()}
    assert {Reason.BEHIND_HEAD, Reason.NOT_BEFORE, Reason.DEPENDENCY, Reason.RESERVED, Reason.MAKING_ROOM} < reasons
    assert any(plan.placements for plan in plans)
    assert {_elsewhere(hash_seed) for hash_seed in ("0", "1", "4711")} == {digest(state)}


def _elsewhere(hash_seed: str) -> str:
    program = Path(core_plan_probe.__file__)
    environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(program), hash_seed]
    return subprocess.run(
        command, env=environment, check=True, capture_output=True, text=True, timeout=120
    ).stdout.strip()
