"""Scenario of the living demo: five invented users in three projects, their kinds of work, and when they submit it.

Everything is drawn from a seeded generator, so that one seed is one week. No job computes anything: the commands print
steps and sleep, and use just enough CPU time to be seen as busy by the synthetic readings.
"""

from collections.abc import Iterator
from random import Random
from typing import Final

from msgspec import Struct

from aliquot_schema.identity.accounts import Role
from aliquot_schema.ids import ProjectId, UserId
from aliquot_schema.requests import Caller, NewSession

TAG: Final = "demo"
"""Tag of every session that the demo submits."""
HOUR_US: Final = 3_600_000_000
MINUTE_S: Final = 60.0
HOUR_S: Final = 3600.0
WEEKEND: Final = (5, 6)
TRIAL_PART: Final = 1 / 60
"""Hours become minutes."""


class Person(Struct, frozen=True, kw_only=True):
    """An invented user."""

    name: UserId
    projects: tuple[ProjectId, ...]
    role: Role = Role.USER

    @property
    def caller(self) -> Caller:
        """The user as the sender of a request."""
        return Caller(user=self.name, request_id="req_demo", role=self.role, projects=self.projects)


def _person(name: str, *projects: str, role: Role = Role.USER) -> Person:
    return Person(name=UserId(name), projects=tuple(map(ProjectId, projects)), role=role)


PEOPLE: Final = (
    _person("mia", "language", "vision", role=Role.OPERATOR),
    _person("jonas", "language"),
    _person("priya", "vision"),
    _person("tomas", "robotics", "vision"),
    _person("lena", "robotics"),
)
PROJECTS: Final = {"language": ("12", 3000), "vision": ("10", 2000), "robotics": ("5", 1000)}
"""By name: most GPUs held at a time, and weight in fair share; a project without a quota has 1000."""


class JobKind(Struct, frozen=True, kw_only=True):
    """A kind of job."""

    name: str
    project: str
    owners: tuple[str, ...]
    slot: tuple[str, str]
    hours: tuple[float, float]
    """Shortest and longest run time in the week of history."""
    per_day: float
    """Submissions per day; fewer at night and at the weekend."""
    trials_per_day: float = 2.0
    """Submissions of trials per day; they run for `TRIAL_PART` of the time."""
    cluster_size: int = 1
    tasks: int = 0
    """Tasks of a job array; 0 = a single session."""
    preemptible: bool = False
    is_idle: bool = False
    """Whether it holds its GPUs without using them."""
    fails_pct: int = 4
    priority: str = "normal"


KINDS: Final = (
    JobKind(
        name="pretrain",
        project="language",
        owners=("jonas", "mia"),
        slot=("cuda.device", "4"),
        hours=(6.0, 13.0),
        per_day=3.6,
    ),
    JobKind(
        name="finetune",
        project="language",
        owners=("mia", "jonas"),
        slot=("cuda.device", "2"),
        hours=(2.0, 7.0),
        per_day=5.5,
    ),
    JobKind(
        name="allreduce",
        project="vision",
        owners=("priya",),
        slot=("cuda.device", "2"),
        hours=(3.0, 6.0),
        per_day=2.0,
        cluster_size=2,
    ),
    JobKind(
        name="detector",
        project="vision",
        owners=("priya", "tomas"),
        slot=("cuda.device", "1"),
        hours=(3.0, 10.0),
        per_day=5.0,
    ),
    JobKind(
        name="sweep",
        project="vision",
        owners=("priya", "mia"),
        slot=("cuda.shares", "0.5"),
        hours=(0.6, 2.2),
        per_day=1.3,
        tasks=6,
        fails_pct=8,
    ),
    JobKind(
        name="rollouts",
        project="robotics",
        owners=("lena", "tomas"),
        slot=("cuda.device", "1"),
        hours=(4.0, 11.0),
        per_day=5.0,
        preemptible=True,
    ),
    JobKind(
        name="evaluate",
        project="robotics",
        owners=("lena", "tomas"),
        slot=("cuda.shares", "0.25"),
        hours=(0.2, 0.9),
        per_day=4.0,
        fails_pct=10,
        priority="low",
    ),
    JobKind(
        name="notebook",
        project="vision",
        owners=("tomas",),
        slot=("cuda.device", "1"),
        hours=(3.0, 6.0),
        per_day=1.0,
        trials_per_day=0.0,
        is_idle=True,
        fails_pct=0,
    ),
)


class Submission(Struct, frozen=True, kw_only=True):
    """A request of the scenario, and what becomes of it."""

    at_us: int
    person: Person
    work: JobKind
    request: NewSession
    runs_s: tuple[float, ...]
    """Run time of the session, or of each task of the array, in seconds."""
    fails: tuple[bool, ...]
    """Whether it ends with an error; as `runs_s`."""


def submissions(random: Random, *, since_us: int, until_us: int) -> Iterator[Submission]:
    """The submissions of a period, in order of time; more of them by day (UTC) and on working days."""
    counts = dict.fromkeys((work.name for work in KINDS), 0)
    for hour_us in range(since_us, until_us, HOUR_US):
        drawn: list[tuple[int, JobKind, bool]] = []
        for work in KINDS:
            for per_day, is_trial in ((work.per_day, False), (work.trials_per_day, True)):
                for _ in range(_count(random, per_day * _part_of_day(hour_us))):
                    drawn.append((hour_us + random.randrange(HOUR_US), work, is_trial))
        for at_us, work, is_trial in sorted(drawn, key=lambda one: (one[0], one[1].name)):
            counts[work.name] += 1
            if at_us < until_us:
                yield submission(random, work, at_us=at_us, number=counts[work.name], is_trial=is_trial)


def submission(random: Random, work: JobKind, *, at_us: int, number: int, is_trial: bool) -> Submission:
    """One submission of a kind of work.

    Args:
        number: counts those of this kind; part of the name.
        is_trial: whether it runs for minutes instead of hours, under a name of its own: the load of the living demo,
            which its week of history lets the server predict.
    """
    owner = random.choice(work.owners)
    person = next(one for one in PEOPLE if one.name == owner)
    tasks = max(1, work.tasks)
    full_s = HOUR_S * (TRIAL_PART if is_trial else 1)
    runs_s = tuple(random.uniform(*work.hours) * full_s for _ in range(tasks))
    fails = tuple(random.randrange(100) < work.fails_pct for _ in range(tasks))
    limit_s = max(MINUTE_S, 1.4 * work.hours[1] * full_s)
    program = f"try_{work.name}" if is_trial else work.name
    request = NewSession(
        argv=None,
        shell=command(program, max(runs_s), is_idle=work.is_idle, fails=fails[0] and not work.tasks),
        slots=[work.slot],
        cluster_size=work.cluster_size,
        name=f"{work.name}-trial-{number}" if is_trial else f"{work.name}-{number}",
        project=work.project,
        priority=work.priority,
        preemptible=work.preemptible,
        time_limit=None if random.random() < 0.2 and not is_trial else limit_s,
        array=f"0-{work.tasks - 1}" if work.tasks else None,
        tags=((TAG, ""), ("kind", work.name)),
    )
    return Submission(at_us=at_us, person=person, work=work, request=request, runs_s=runs_s, fails=fails)


def command(program: str, runs_s: float, *, is_idle: bool, fails: bool) -> str:
    """The shell command of a job: it prints a step per second, or sleeps if it is idle.

    It is a function of the program's name, by which run times are predicted.
    """
    head = f"{program}() {{\n  # Synthetic load of the demo: no model is trained, and the GPUs are mock devices.\n"
    if is_idle:
        return f"{head}  echo 'a notebook without a running cell'; exec sleep {round(runs_s)}\n}}\n{program}"
    end = "echo 'ValueError: loss is not finite' >&2; exit 1" if fails else f"echo '{program}: done'"
    return (
        f"{head}  step=0\n  while [ $step -lt {round(runs_s)} ]; do\n"
        "    step=$((step + 1)); n=0; while [ $n -lt 6000 ]; do n=$((n + 1)); done\n"
        f'    echo "step $step of {round(runs_s)}, loss 0.$((100 + 8000 / (step + 9)))"; sleep 1\n  done\n'
        f"  {end}\n}}\n{program}"
    )


def _part_of_day(at_us: int) -> float:
    """The part of a day's submissions that falls into the hour."""
    hour, day = at_us // HOUR_US % 24, at_us // (24 * HOUR_US)
    share = 0.05 if 8 <= hour < 20 else 0.0333
    is_weekend = (day + 3) % 7 in WEEKEND  # 1970-01-01 was a Thursday
    return share * (0.85 if is_weekend else 1.06)


def _count(random: Random, mean: float) -> int:
    """A whole number with this mean, which is below 1."""
    return int(mean) + (random.random() < mean % 1)
