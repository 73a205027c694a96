"""Strategies compared: always on a synthetic cluster, and on the openb trace if it is present."""

import dataclasses
import random
from statistics import fmean

import pytest
from msgspec.structs import replace

from aliquot.core.placement.cluster_arrays import NodeRow
from aliquot.core.placement.strategy import RequestClass
from placement_replay import replay
from placement_traces import ABSENT, Job, Trace, is_present, openb, published

with_trace = pytest.mark.skipif(not is_present(), reason=ABSENT)


def made_up(seed: int) -> Trace:
    """Forty nodes of 8 GPUs, and requests for 150% of them: shares with awkward remainders, and whole GPUs."""
    dice = random.Random(seed)
    sizes = [(0, 0, 8), (1, 230, 3), (1, 470, 12), (1, 810, 12), (1, 320, 6), (1, 1000, 40), (8, 1000, 1)]
    jobs: dict[int, Job] = {}
    arrived = 0
    while arrived < 1.5 * 40 * 8000:
        devices, milli, _ = dice.choices(sizes, [weight for _, _, weight in sizes])[0]
        cpu = dice.choice([2000, 6000, 12000])
        request = RequestClass(cpu=cpu, mem=16, devices=devices, milli=milli)
        jobs[len(jobs)] = Job(request=request, models=frozenset())
        arrived += devices * milli
    nodes = [NodeRow(name=f"node{number}", cpu=96_000, mem=10_000, devices=(1000,) * 8) for number in range(40)]
    return Trace(nodes=nodes, model_of={}, jobs=jobs, arrivals={seed: list(jobs)})


def test_least_waste_leaves_less_idle_than_best_fit_and_random_on_a_synthetic_cluster() -> None:
    left: dict[str, list[float]] = {"least_waste": [], "best_fit": [], "random": []}
    for seed in range(4):
        trace = made_up(seed)
        for name, found in left.items():
            found.append(100 - replay(trace, trace.arrivals[seed], strategy=name, seed=seed).pct_at_end)
    assert fmean(left["least_waste"]) < fmean(left["best_fit"]) < fmean(left["random"])


def test_a_replay_places_jobs_only_on_their_device_models() -> None:
    nodes = [NodeRow(name=name, cpu=9000, mem=9, devices=(1000,)) for name in "ab"]
    job = Job(request=RequestClass(cpu=1, mem=1, devices=1, milli=600), models=frozenset({"T4"}))
    trace = Trace(nodes=nodes, model_of={"a": "A10", "b": "T4"}, jobs={0: job}, arrivals={0: [0, 0]})
    outcome = replay(trace, [0, 0], strategy="least_waste")
    assert (outcome.placed, outcome.pct_at_end) == (1, 30.0)


@with_trace
@pytest.mark.parametrize("name", ["random", "dot_product", "pack", "best_fit"])
def test_a_baseline_is_within_a_point_of_what_was_published(name: str) -> None:
    trace = openb()
    seeds = sorted(trace.arrivals)[:3]
    outcomes = [replay(trace, trace.arrivals[seed], strategy=name, seed=seed) for seed in seeds]
    assert abs(fmean(one.pct_at_end for one in outcomes) - published("alloc_pct_at_130")[name]) <= 1
    assert abs(fmean(one.pct_at_100 for one in outcomes) - published("alloc_pct_at_100")[name]) <= 1


@with_trace
@pytest.mark.slow
def test_least_waste_beats_fgd_on_every_order_and_fgd_is_as_published() -> None:
    trace = openb()
    theirs = {seed: replay(trace, order, strategy="fgd").pct_at_end for seed, order in trace.arrivals.items()}
    ours = {seed: replay(trace, order, strategy="least_waste").pct_at_end for seed, order in trace.arrivals.items()}
    assert abs(fmean(theirs.values()) - published("alloc_pct_at_130")["fgd"]) <= 1
    assert fmean(ours.values()) >= 95.9
    assert min(ours[seed] - theirs[seed] for seed in ours) > 0


@with_trace
def test_least_waste_is_no_worse_on_other_orders_of_the_nodes() -> None:
    trace = openb()
    for salt in ("x", "y"):
        # Names determine the order of the rows.
        nodes = [replace(node, name=f"{salt}{node.name}") for node in trace.nodes]
        mixed = dataclasses.replace(
            trace, nodes=nodes, model_of={f"{salt}{name}": model for name, model in trace.model_of.items()}
        )
        assert replay(mixed, trace.arrivals[min(trace.arrivals)], strategy="least_waste").pct_at_end >= 95.9
