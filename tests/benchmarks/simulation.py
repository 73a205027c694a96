"""Simulated waits of jobs of public logs under each policy."""

import os
import sys
from asyncio import gather, get_running_loop
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from statistics import median
from typing import Final

from msgspec.structs import replace
from policy_logs import LOGS, drawn
from policy_page import by_length, by_width, group_waits, with_policies
from registry import Key, scenario

from aliquot.cli.trace_files import read_jobs
from aliquot.core.model.policy import Policy
from aliquot.core.placement.scoreboard import split_mix_64
from aliquot.core.simulation.cluster import Estimates, SimulationSettings, pool
from aliquot.core.simulation.report import Outcome, Report, report
from aliquot.core.simulation.run import simulate
from aliquot.core.simulation.trace import Job, numbered, window
from aliquot_schema.policies import Backfill, PolicyDocument, Preemption

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = Path(os.environ.get("ALIQUOT_TRACES") or ROOT.parent / "shared" / "traces") / "jobs"
ABSENT: Final = "no traces: set ALIQUOT_TRACES to a folder with jobs/philly_vc.parquet and jobs/kth_sp2.parquet"
PHILLY_GPUS: Final = 533
"""Load 0.9 in the window."""
PHILLY_S: Final = (4_752_000, 9_590_400)
KTH_GPUS: Final = 100
RUNS: Final = 5
RESTARTS_S: Final = (60, 300)
CHECKPOINT_MS: Final = 600_000
OFTEN: Final = Preemption(preemptions_max=100, run_ms_min=120_000)
"""Limits for jobs that lose ten minutes of work at most. Jobs that reach them block shorter ones from then on."""
MOVED_US_MAX: Final = 300_000_000
JITTER_PERMILLE: Final = 1
"""Noise moves one run by a few per cent."""

# Any device of a pool will do, so the strategy does not matter and the cheapest is used.
FCFS: Final = Policy(order="fcfs", placement="first_fit")
EASY: Final = replace(FCFS, backfill=Backfill.EASY)
SJF: Final = replace(EASY, order="sjf")
FAIR_SHARE: Final = replace(Policy.of(PolicyDocument()), placement="first_fit")
"""The policy of a new server."""
SETTINGS: Final = {
    "FCFS": SimulationSettings(policy=FCFS),
    "EASY, exact limits": SimulationSettings(policy=EASY, estimates=Estimates.EXACT),
    "SJF, exact estimates": SimulationSettings(policy=SJF, estimates=Estimates.EXACT),
    "EASY": SimulationSettings(policy=EASY),
    "SJF": SimulationSettings(policy=SJF),
    **{
        f"fair share, run {seed}": SimulationSettings(policy=FAIR_SHARE, jitter_permille=JITTER_PERMILLE, seed=seed)
        for seed in range(RUNS)
    },
}
COMPARED: Final = {
    "fcfs": SETTINGS["EASY"],
    "fair_share": SimulationSettings(policy=FAIR_SHARE),
    "relative_age": SimulationSettings(policy=replace(FAIR_SHARE, order="relative_age")),
    "sjf": SimulationSettings(policy=replace(FAIR_SHARE, order="sjf")),
    "fcfs, no backfill": SETTINGS["FCFS"],
    "sjf, exact run times": SETTINGS["SJF, exact estimates"],
}
"""The page's policies, by their name there."""
PAGE: Final = ROOT / "server" / "docs" / "concepts" / "policies.md"
_compared: dict[tuple[str, str], Outcome] = {}
"""Runs of this process."""
PHILLY: Final = ("FCFS", "EASY, exact limits", "SJF, exact estimates")
FAIR_RUNS: Final = tuple(name for name in SETTINGS if name.startswith("fair share"))


@scenario(
    Key(name="philly_jct_s", what="Philly at load 0.9, default policy: mean completion time", reach="<= 22500"),
    Key(name="philly_p95_s", what="the same, 95th percentile", reach="<= 66000"),
    Key(name="peak_util_pct", what="the same, GPU time held while somebody waits", reach=">= 95"),
)
async def philly() -> dict[str, float]:
    """The median of five runs, beside policies with less or more information than a scheduler."""
    if not is_present():
        return {}
    found = await _reports("philly_vc", (*FAIR_RUNS, *PHILLY))
    fair = [found[name] for name in FAIR_RUNS]
    return {
        "philly_jct_s": median(one.jct.mean_s for one in fair),
        "philly_p95_s": median(one.jct.p95_s for one in fair),
        "peak_util_pct": median(one.utilization_pct for one in fair),
    }


@scenario(
    Key(
        name="philly_preempt_60_jct_s",
        what="Philly at load 0.9, las with checkpoints every 10 min and a restart of 60 s: mean completion time",
        reach="<= 13000",
    ),
    Key(name="philly_preempt_60_p95_s", what="the same, 95th percentile", reach="<= 45000"),
    Key(name="philly_preempt_300_jct_s", what="the same with a restart of 300 s: mean", reach="<= 14500"),
    Key(name="philly_preempt_300_lost_pct", what="the same, GPU time lost, % of the work", reach="< 1"),
)
async def philly_preemptive() -> dict[str, float]:
    """All jobs are preemptible; `srtf` is printed beside. The log has no users, which prediction would need."""
    if not is_present():
        return {}
    runs = [(order, restart_s) for order in ("las", "srtf") for restart_s in RESTARTS_S]
    with ProcessPoolExecutor() as workers:
        loop = get_running_loop()
        made = await gather(*(loop.run_in_executor(workers, preemptive, *one) for one in runs))
    found = dict(zip(runs, made, strict=True))
    for (order, restart_s), (one, lost_pct) in found.items():
        print(
            f"  philly_vc | {order:4} restart {restart_s:3} s | "
            f"jct mean {one.jct.mean_s:8,.0f} p95 {one.jct.p95_s:8,.0f} | "
            f"wait max {one.wait.max_s / 86_400:5.1f} d | lost {lost_pct:.2f} % | {one.preemptions:,} preemptions",
            file=sys.stderr,
            flush=True,
        )
    (short, _), (long, lost_pct) = found["las", RESTARTS_S[0]], found["las", RESTARTS_S[1]]
    return {
        "philly_preempt_60_jct_s": short.jct.mean_s,
        "philly_preempt_60_p95_s": short.jct.p95_s,
        "philly_preempt_300_jct_s": long.jct.mean_s,
        "philly_preempt_300_lost_pct": lost_pct,
    }


def preemptive(order: str, restart_s: int) -> tuple[Report, float]:
    """The report of Philly under a preemptive order, and the lost GPU time in percent of the work."""
    jobs = tuple(replace(job, preemptible=True) for job in log_jobs("philly_vc"))
    policy = replace(FAIR_SHARE, order=order, preemption=replace(OFTEN, restart_ms=restart_s * 1000))
    settings = SimulationSettings(policy=policy, checkpoint_ms=CHECKPOINT_MS, restart_ms=restart_s * 1000)
    made = report(simulate(jobs, pool(PHILLY_GPUS), settings))
    work_gpu_hours = sum(job.milli * job.duration_ms for job in jobs) / 3.6e9
    return made, 100 * made.lost_gpu_hours / work_gpu_hours


@scenario(
    Key(name="kth_easy_bsld", what="KTH, EASY by the users' limits: bounded slowdown", reach="= 90.7 +- 4.535"),
    Key(name="kth_sjf_jct_s", what="KTH, SJF with age and the predictor: mean completion time", reach="<= 14400"),
    Key(name="kth_jct_s", what="KTH, default policy: mean completion time", reach="<= 14000"),
)
async def kth() -> dict[str, float]:
    """At its natural load, with the users' limits."""
    if not is_present():
        return {}
    found = await _reports("kth_sp2", ("EASY", "SJF", *FAIR_RUNS))
    return {
        "kth_easy_bsld": found["EASY"].slowdown_mean,
        "kth_sjf_jct_s": found["SJF"].jct.mean_s,
        "kth_jct_s": median(found[name].jct.mean_s for name in FAIR_RUNS),
    }


@scenario(
    Key(
        name="policy_worst_jct_vs_easy",
        what="default policy, worst log: mean completion time / EASY's",
        reach="<= 1.05",
    ),
    Key(name="policy_worst_wait_vs_easy", what="the same, longest wait / EASY's", reach="<= 1.3"),
)
async def policies() -> dict[str, float]:
    """Medians of five runs with submissions moved by up to 5 min. Synthetic logs are printed, not judged."""
    await _ratios(tuple(LOGS), seeds=range(1))
    if not is_present():
        return {}
    found = await _ratios(("philly_vc", "kth_sp2"), seeds=range(RUNS))
    return {
        "policy_worst_jct_vs_easy": max(jct for jct, _ in found),
        "policy_worst_wait_vs_easy": max(wait for _, wait in found),
    }


@scenario(
    Key(
        name="policy_wide_wait_vs_easy",
        what="default policy, worst log: mean wait of the widest group of jobs / EASY's",
        reach="<= 1.3",
    ),
    Key(name="policy_long_wait_vs_easy", what="the same, of the longest jobs", reach="<= 2"),
)
async def who_pays() -> dict[str, float]:
    """Waits by width and by run time; with `--page` also the page that compares the policies."""
    if not is_present():
        return {}
    with ProcessPoolExecutor() as workers:
        loop = get_running_loop()
        runs = [(log, policy) for log in ("philly_vc", "kth_sp2") for policy in COMPARED]
        made = await gather(*(loop.run_in_executor(workers, _compare, *one) for one in runs))
    _compared.update(zip(runs, made, strict=True))
    ratios: dict[str, list[float]] = {"policy_wide_wait_vs_easy": [], "policy_long_wait_vs_easy": []}
    for log in ("philly_vc", "kth_sp2"):
        for key, groups in zip(ratios, (by_width, by_length), strict=True):
            easy, fair = (
                list(group_waits(_compared[log, policy], groups).values()) for policy in ("fcfs", "fair_share")
            )
            ratios[key].append(fair[-1] / easy[-1])
    return {key: max(found) for key, found in ratios.items()}


def keep_page() -> None:
    """Write the page that compares policies, if they were compared in this run."""
    if _compared:
        PAGE.write_text(with_policies(PAGE, _compared), encoding="utf-8")


def _compare(log: str, policy: str) -> Outcome:
    return simulate(log_jobs(log), pool(PHILLY_GPUS if log == "philly_vc" else KTH_GPUS), COMPARED[policy])


async def _ratios(logs: tuple[str, ...], *, seeds: range) -> list[tuple[float, float]]:
    """Mean completion time and longest wait of the default policy against EASY's, per log."""
    with ProcessPoolExecutor() as workers:
        loop = get_running_loop()
        runs = [(log, policy, seed) for log in logs for policy in ("EASY", FAIR_RUNS[0]) for seed in seeds]
        made = await gather(*(loop.run_in_executor(workers, _moved, *one) for one in runs))
    found = dict(zip(runs, made, strict=True))
    ratios = []
    for log in logs:
        easy, fair = ([found[log, policy, seed] for seed in seeds] for policy in ("EASY", FAIR_RUNS[0]))
        jct = median(one.jct.mean_s for one in fair) / median(one.jct.mean_s for one in easy)
        wait = median(one.wait.max_s for one in fair) / max(median(one.wait.max_s for one in easy), 1.0)
        print(f"  {log:22} | jct {jct:5.2f} x | longest wait {wait:5.2f} x", file=sys.stderr, flush=True)
        ratios.append((jct, wait))
    return ratios


def _moved(log: str, policy: str, seed: int) -> Report:
    """A run with submissions moved by up to 5 min; seed 0 moves none."""
    jobs = drawn(LOGS[log]) if log in LOGS else log_jobs(log)
    if seed:
        later = ((job, split_mix_64(seed, int(job.id)) % MOVED_US_MAX) for job in jobs)
        jobs = numbered(replace(job, submit_us=job.submit_us + more_us) for job, more_us in later)
    gpus = LOGS[log].gpus if log in LOGS else PHILLY_GPUS if log == "philly_vc" else KTH_GPUS
    return report(simulate(jobs, pool(gpus), SETTINGS[policy]))


async def _reports(trace: str, names: tuple[str, ...]) -> dict[str, Report]:
    """The rows of a trace's table, computed in parallel on all cores; each is printed when ready."""
    with ProcessPoolExecutor() as workers:
        loop = get_running_loop()
        found = await gather(*(loop.run_in_executor(workers, _row, trace, name) for name in names))
    return dict(zip(names, found, strict=True))


def _row(trace: str, name: str) -> Report:
    gpus = PHILLY_GPUS if trace == "philly_vc" else KTH_GPUS
    made = report(simulate(log_jobs(trace), pool(gpus), SETTINGS[name]))
    cells = (
        f"{trace:9} | {name:20}",
        f"jct mean {made.jct.mean_s:8,.0f} p95 {made.jct.p95_s:8,.0f} max {made.jct.max_s:10,.0f}",
        f"wait mean {made.wait.mean_s:7,.0f}",
        f"slowdown {made.slowdown_mean:7.2f}",
        f"used {made.utilization_pct:5.1f} %",
    )
    print("  " + " | ".join(cells), file=sys.stderr, flush=True)
    return made


@cache
def log_jobs(trace: str) -> tuple[Job, ...]:
    """The jobs of a log; of Philly, those of its window."""
    jobs = read_jobs(FOLDER / f"{trace}.parquet")
    first_s, last_s = PHILLY_S
    return numbered(window(jobs, from_s=first_s, until_s=last_s)) if trace == "philly_vc" else jobs


def is_present() -> bool:
    """Whether the logs are here; reports if not."""
    found = all((FOLDER / f"{trace}.parquet").is_file() for trace in ("philly_vc", "kth_sp2"))
    if not found:
        print(f"  skipped: {ABSENT}", file=sys.stderr, flush=True)
    return found
