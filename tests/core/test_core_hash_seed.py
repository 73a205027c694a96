"""The same input gives the same bytes in another process, with other hashes and the collections in another order."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import core_plan_probe
from aliquot.core.decide import decide
from aliquot.core.policy import Policy
from aliquot_schema.reasons import Reason
from core_cluster import NOW_US
from core_plan_probe import encoded, large_snapshot


def test_the_plan_does_not_depend_on_hashes_or_order() -> None:
    plan = decide(large_snapshot(), Policy(), now_us=NOW_US, seed=0)
    reasons = {verdict.reason for verdict in plan.verdicts.values()}
    assert plan.placements
    assert {Reason.BEHIND_HEAD, Reason.NOT_BEFORE, Reason.DEPENDENCY} < reasons
    here = hashlib.sha256(encoded(plan)).hexdigest()
    assert {_elsewhere(hash_seed) for hash_seed in ("0", "1", "4711")} == {here}


def _elsewhere(hash_seed: str) -> str:
    program = Path(core_plan_probe.__file__)
    environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(program), hash_seed]
    return subprocess.run(
        command, env=environment, check=True, capture_output=True, text=True, timeout=120
    ).stdout.strip()
