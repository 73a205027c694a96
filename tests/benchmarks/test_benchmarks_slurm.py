"""A Slurm started by the benchmarks, where its packages are installed: it runs a job, and leaves nothing."""

import os
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))

from slurm import configuration, daemons, measures, programs  # the path is set above

pytestmark = pytest.mark.skipif(bool(programs.missing_packages()), reason="Slurm is not installed")


@pytest.mark.parametrize("tuning", [configuration.DEFAULT, configuration.TUNED], ids=["default", "tuned"])
def test_a_job_gets_one_gpu_and_nothing_is_left(tuning: str) -> None:
    with daemons.slurm() as cluster:
        cluster.start(tuning=tuning)
        printed = cluster.run("srun", "--gres=gpu:1", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES $SLURM_CONF")
        held = measures.submit(cluster, "sleep 3600")
        assert printed.split() == ["0", str(cluster.folder / "slurm.conf")]
        assert held in cluster.run("squeue", "-h", "-o", "%i").split()
    assert not cluster.folder.exists()
    assert [path for path in Path("/proc").iterdir() if _is_of(path, cluster.folder)] == []


def test_the_slurm_version_is_reported() -> None:
    assert programs.version().startswith("slurm")


def _is_of(process: Path, folder: Path) -> bool:
    if not process.name.isdigit() or int(process.name) == os.getpid():
        return False
    try:
        return os.fsencode(folder) in (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
    except OSError:
        return False
