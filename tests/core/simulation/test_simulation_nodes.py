"""Runs on real node shapes: whole and shared GPUs, CPUs, memory, models."""

import pytest

from aliquot.core.model.agent_index import capacity_milli
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import Request
from aliquot.core.simulation.cluster import Estimates, Machine, SimulationSettings, machines, pool
from aliquot.core.simulation.run import simulate
from aliquot.core.simulation.trace import SECOND_US, Job, fitting, gpu_request, numbered, on_gpus_alone
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.ids import ProjectId, SessionId, SlotName, UserId
from aliquot_schema.policies import Backfill

GIB = 2**30
SMALL = Machine(name="small", cores=8, mem_bytes=32 * GIB, gpus=1, model="T4")
LARGE = Machine(name="large", cores=64, mem_bytes=256 * GIB, gpus=4, model="A10")
CLUSTER = machines([SMALL, LARGE])
EXACT = SimulationSettings(policy=Policy(backfill=Backfill.EASY), estimates=Estimates.EXACT)
CPU, MEM = SlotName("cpu"), SlotName("mem")


def job(request: Request, *, submit_s: int = 0, duration_s: int = 10, kernels: int = 1, models: str = "") -> Job:
    return Job(
        id=SessionId(""),
        user=UserId("ann"),
        project=ProjectId("lab"),
        submit_us=submit_s * SECOND_US,
        duration_ms=duration_s * 1000,
        request=request,
        cluster_size=kernels,
        models=tuple(models.split()),
    )


def starts_s(*jobs: Job) -> list[int]:
    return [started // SECOND_US for started in simulate(numbered(jobs), CLUSTER, EXACT).started_us]


def test_two_shares_run_on_one_gpu_and_a_third_waits_for_a_gpu_of_its_model() -> None:
    half = gpu_request(500)
    assert starts_s(*(job(half, models="T4") for _ in range(3))) == [0, 0, 10]
    assert starts_s(*(job(half, models="T4 A10") for _ in range(3))) == [0, 0, 0]


def test_cores_and_memory_run_out_before_the_gpus_do() -> None:
    hungry = (*((CPU, 40),), *gpu_request(1000))
    assert starts_s(job(hungry), job(hungry)) == [0, 10]
    large = (*gpu_request(1000), (MEM, 200 * GIB))
    assert starts_s(job(large), job(large)) == [0, 10]


def test_a_job_without_gpus_runs_beside_those_that_have_them() -> None:
    assert starts_s(job(gpu_request(4000)), job(((CPU, 60),)), job(((CPU, 60),))) == [0, 0, 10]


def test_a_gang_starts_whole_or_not_at_all() -> None:
    pair = job(gpu_request(2000), kernels=2, submit_s=1)
    assert starts_s(job(gpu_request(1000), models="A10"), pair, job(gpu_request(1000), submit_s=2)) == [0, 10, 2]


def test_jobs_that_fit_the_empty_cluster_are_separated_from_those_that_do_not() -> None:
    fits = [job(gpu_request(4000)), job(gpu_request(1000), kernels=5), job(gpu_request(1000), models="t4")]
    not_fits = [
        job(gpu_request(5000)),
        job(gpu_request(1000), kernels=6),
        job(gpu_request(2000), models="T4"),
        job(gpu_request(1000), models="H100"),
        job(((CPU, 65),)),
    ]
    assert fitting([*fits, *not_fits], CLUSTER, EXACT.policy.allocation) == (tuple(fits), tuple(not_fits))
    with pytest.raises(InvalidRequest, match=r"the first one asks for 1 cuda\.device on H100"):
        simulate(numbered([not_fits[3]]), CLUSTER, EXACT)


def test_requests_to_a_gpu_pool_are_reduced_to_gpus() -> None:
    jobs = [job(((CPU, 500), *gpu_request(500)), models="X"), job(((CPU, 1),)), job(gpu_request(2000), kernels=2)]
    asked = numbered(on_gpus_alone(jobs))
    assert [(one.request, one.milli) for one in asked] == [(gpu_request(500), 500), (gpu_request(2000), 4000)]
    assert simulate(asked, pool(4), EXACT).started_us == (0, 10 * SECOND_US)


def test_capacity_counts_every_gpu_once() -> None:
    assert capacity_milli(CLUSTER) == 5000
    assert capacity_milli(pool(7)) == 7000


@pytest.mark.parametrize("milli", [1500, 2001])
def test_a_request_for_one_gpu_and_a_fraction_is_refused(milli: int) -> None:
    with pytest.raises(ValueError, match="give less than 1, or a whole number"):
        gpu_request(milli)
