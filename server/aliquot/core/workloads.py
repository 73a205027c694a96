"""Workloads: what a session runs, as far as its run time depends on it, and the run times learned from earlier ones.

The program of a command is what it runs beneath the wrappers, shells, interpreters and launchers that start it. The
prediction of a waiting session follows every end of a similar run. That of a running session is fixed at its start,
because reservations rely on it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Final, NamedTuple

from aliquot.core.model.snapshot import request_milli, request_of
from aliquot.core.prediction import Prediction, Predictor, RunTimes, WaitingWorkloads, Workload
from aliquot_schema.ids import SessionId, UserId
from aliquot_schema.sessions import Session
from aliquot_schema.states import SessionState

OWN_ENDS: Final = frozenset({"exit_code", "signal", "time_limit"})
"""Failure codes that end a session by itself, so that its run time predicts those of similar sessions."""
NAME_CHARS_MAX: Final = 64
TEXT_CHARS_MAX: Final = 4096
"""Of a shell's text, the part that is looked at."""
DEPTH_MAX: Final = 8
"""Shells inside shells that are looked into for the program; deeper ones are named as programs themselves."""
SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh"})
SHELL_VALUES: Final = frozenset({"--rcfile", "--init-file"})
INTERPRETERS: Final = re.compile(r"(python|pypy|perl|ruby|node|julia|Rscript|php)[0-9.]*")
INTERPRETER_VALUES: Final[Mapping[str, frozenset[str]]] = {
    "python": frozenset({"-W", "-X", "--check-hash-based-pycs"}),
    "pypy": frozenset({"-W", "-X"}),
    "node": frozenset({"-r", "--require", "--import"}),
    "julia": frozenset({"-t", "--threads", "-p", "--procs", "-J", "--sysimage"}),
}
"""Options of interpreters that take the next word as their value."""
LAUNCHERS: Final = frozenset({"torchrun", "accelerate", "deepspeed"})
LAUNCHER_MODULES: Final = frozenset(
    {"torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch", "deepspeed.launcher.runner"}
)
ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z_0-9]*=.*", re.DOTALL)
TOKEN: Final = re.compile(r"""[;&|()\n]+|(?:'[^']*'|"(?:\\.|[^"\\])*"|\\.|[^\s;&|()'"\\])+""", re.DOTALL)
"""Words and separators of a shell's text. `shlex` refuses text with an open quote, and is slower."""
QUOTED: Final = re.compile(r"""'([^']*)'|"((?:\\.|[^"\\])*)"|\\(.)""", re.DOTALL)
_SETUP: Final = (
    ". : [ [[ cd date done echo esac eval exit export false fi for hostname mkdir ml module nvidia-smi popd "
    "printf pushd set shopt source test trap true ulimit umask unset wait }"
)
SETUP: Final = frozenset(_SETUP.split())
"""Commands before the one that a shell is started for."""
KEYWORDS: Final = frozenset({"!", "{", "do", "else", "if", "then", "until", "while"})

INSTALLED: Final = re.compile(r"/.*bin")
"""Folders of programs. `./run` is a program of the owner's."""


class Forecasts:
    """Predictions for sessions that have not ended. Ends must be learned in their order."""

    def __init__(self) -> None:
        self._predictor = Predictor()
        self._workloads = WaitingWorkloads(self._predictor)
        self._waiting: dict[SessionId, Workload] = {}
        self._started: dict[SessionId, Prediction] = {}

    def learn(self, session: Session) -> None:
        """Learn from a session that has ended."""
        self._started.pop(session.id, None)
        duration_ms = ran_ms(session)
        if duration_ms is not None:
            self._workloads.learn(workload_of(session), duration_ms=duration_ms)

    def wait(self, session: Session) -> Workload | None:
        """Predict a session while it waits; returns what its row is predicted by. Its request may have changed."""
        workload = workload_of(session)
        known = self._waiting.get(session.id)
        if known != workload:
            self._waiting[session.id] = workload
            self._workloads.join(workload)
            if known is not None:
                self._workloads.leave(known)
        self._started.pop(session.id, None)
        return workload

    def leave(self, session: Session) -> None:
        """A session waits no longer."""
        workload = self._waiting.pop(session.id, None)
        if workload is not None:
            self._workloads.leave(workload)

    def start(self, session: Session) -> None:
        """Fix the prediction of a session that holds devices; no effect when that was done before."""
        if session.id not in self._started:
            found = self.like(workload_of(session))
            if found is not None:
                self._started[session.id] = found

    def like(self, workload: Workload) -> Prediction | None:
        """Prediction for a session like these; None when too few similar ones have ended."""
        return self._predictor.predict(workload)

    def of(self, session_id: SessionId) -> Prediction | None:
        """The present prediction of a waiting session, or that of a running one at its start; None without one."""
        workload = self._waiting.get(session_id)
        return self._started.get(session_id) if workload is None else self._workloads.prediction(workload)

    def run_times(self) -> Mapping[Workload, RunTimes]:
        """Of all waiting workloads with a prediction; the same object until one of them changes."""
        return self._workloads.run_times()


def workload_of(session: Session) -> Workload:
    """Features of a session that are known before it runs."""
    milli = request_milli(request_of(session)) * session.request.cluster_size
    return _workload(session.owner, program_of(session.spec.argv), milli, session.spec.time_limit_ms)


@lru_cache(maxsize=4096)
def _workload(user: UserId, program: str | None, milli: int, limit_ms: int | None) -> Workload:
    """One object for all sessions that are alike."""
    return Workload(user=user, program=program, milli=milli, limit_ms=limit_ms)


def ran_ms(session: Session) -> int | None:
    """Run time of a session that ended by itself, with what it kept of earlier attempts; None for all others. The end
    may be reported before the start."""
    began_us = session.started_us if session.started_us is not None else session.scheduled_us
    if session.tasks is not None or session.is_external_allocation or began_us is None or session.ended_us is None:
        return None
    is_own = session.state is SessionState.COMPLETED or (
        session.state is SessionState.FAILED and session.failure is not None and session.failure.code in OWN_ENDS
    )
    return session.kept_at_start_ms + max(session.ended_us - began_us, 0) // 1000 if is_own else None


class Wrapper(NamedTuple):
    """A program that runs the command in its arguments."""

    values: Mapping[str, int] = {}
    """Option -> how many of the next words belong to it."""
    positional: int = 0
    """Words before the command."""
    subcommand: str = ""
    """The word after which the program runs a command, as `run` of `uv run`; otherwise it runs none."""


def _wrapper(values: str = "", *, pairs: str = "", positional: int = 0, subcommand: str = "") -> Wrapper:
    counts = dict.fromkeys(values.split(), 1) | dict.fromkeys(pairs.split(), 2)
    return Wrapper(counts, positional, subcommand)


CONDA: Final = _wrapper("-n --name -p --prefix --cwd", subcommand="run")
CONTAINER: Final = _wrapper("-B --bind -H --home -W --workdir --env --env-file --pwd", positional=1, subcommand="exec")
MPI: Final = _wrapper(
    "-np -n -c -N -npernode --npernode -npersocket -x -H -host --host -hosts -hostfile --hostfile -f -machinefile "
    "--machinefile -map-by --map-by -bind-to --bind-to -rank-by --rank-by -wdir --wdir -ppn -tune --tune -rf "
    "--rankfile -genvlist -envlist -launcher -iface --prefix --timeout",
    pairs="-mca --mca -gmca --gmca -genv -env",
)
RUN: Final = _wrapper("-C --directory -P --project -p --env -e --environment --python", subcommand="run")
UV: Final = "--with --extra --group --project --directory --env-file --package --python -p"
SRUN: Final = (
    "-A --account -B -C --constraint -c --cpus-per-task -D --chdir -d -e --error -G --gpus -i --input -J --job-name -L "
    "-m --distribution -n --ntasks -N --nodes -o --output -p --partition -q --qos -r -S -T -t --time -w --nodelist -x "
    "--exclude --container-image --container-mounts --container-name --container-workdir --cpu-bind --cpus-per-gpu "
    "--export --gpu-bind --gpus-per-node --gpus-per-task --gres --jobid --mem --mem-per-cpu --mem-per-gpu --mpi "
    "--ntasks-per-node --reservation --wait"
)
WRAPPERS: Final[Mapping[str, Wrapper]] = {
    "apptainer": CONTAINER,
    "conda": CONDA,
    "env": _wrapper("-u --unset -C --chdir"),
    "exec": _wrapper("-a"),
    "ionice": _wrapper("-c --class -n --classdata"),
    "mamba": CONDA,
    "micromamba": CONDA,
    "mpiexec": MPI,
    "mpirun": MPI,
    "nice": _wrapper("-n --adjustment"),
    "nohup": _wrapper(),
    "numactl": _wrapper("-N -m -C -i -p --cpunodebind --membind --physcpubind --interleave --preferred"),
    "pdm": RUN,
    "pipenv": RUN,
    "pixi": RUN,
    "poetry": RUN,
    "setsid": _wrapper(),
    "singularity": CONTAINER,
    "srun": _wrapper(SRUN),
    "stdbuf": _wrapper("-i --input -o --output -e --error"),
    "taskset": _wrapper(positional=1),
    "time": _wrapper("-f --format -o --output"),
    "timeout": _wrapper("-s --signal -k --kill-after", positional=1),
    "uv": _wrapper(UV, subcommand="run"),
}


def program_of(argv: Sequence[str], *, depth: int = 0) -> str | None:
    """The base name of a command's program, of an interpreter's or launcher's script or module, or of the first command
    of `sh -c` that is more than preparation.

    A script that is passed as text, as by `aliquot session create job.sh`, is named by its file. None if there is none.
    """
    words = _unwrapped(argv)
    if not words:
        return None
    name = _name(words[0])
    if name in SHELLS and depth < DEPTH_MAX:
        return _of_shell(words, depth=depth) or name
    if name in LAUNCHERS:
        return _of_launcher(words[1:]) or name
    if INTERPRETERS.fullmatch(name):
        return _of_interpreter(words, values=INTERPRETER_VALUES.get(name.rstrip("0123456789."), frozenset())) or name
    return name or None


def _unwrapped(argv: Sequence[str]) -> Sequence[str]:
    """The command without the assignments and wrappers before it."""
    start = 0
    while start < len(argv):
        folder, _, name = argv[start].rpartition("/")
        wrapper = WRAPPERS.get(name) if not folder or INSTALLED.fullmatch(folder) else None
        if wrapper is not None:
            command = _after_options(argv, start + 1, wrapper.values)
            if wrapper.subcommand:
                if command >= len(argv) or argv[command] != wrapper.subcommand:
                    break
                command = _after_options(argv, command + 1, wrapper.values)
            start = command + wrapper.positional
        elif ASSIGNMENT.fullmatch(argv[start]):
            start += 1
        else:
            break
    return argv[start:]


def _after_options(words: Sequence[str], start: int, values: Mapping[str, int]) -> int:
    """The place of the first word that is neither an option nor its value."""
    while start < len(words) and words[start].startswith("-"):
        if words[start] == "--":
            return start + 1
        start += 1 + values.get(words[start], 0)
    return start


def _of_shell(words: Sequence[str], *, depth: int) -> str | None:
    """The program that a shell runs. Its options may be joined: `-lc`, `-eo pipefail`."""
    start = 1
    while start < len(words) and words[start][:1] in ("-", "+"):
        option = words[start]
        start += 1
        is_joined = not option.startswith("--")
        if is_joined and "c" in option:
            start += option[-1] in "oO"
            return _of_text(words[start:], depth=depth + 1)
        start += option in SHELL_VALUES or (is_joined and option[-1] in "oO")
    return _name(words[start]) if start < len(words) else None


def _of_text(words: Sequence[str], *, depth: int) -> str | None:
    """The program of a shell's text, which may be followed by its name (`$0`) and arguments."""
    if not words:
        return None
    text, *given = words
    if len(given) > 1 and text.rstrip().endswith('exec "$@"'):
        return program_of(given[1:], depth=depth)
    if given and text.startswith("#!"):
        return _name(given[0])
    commands = list(_commands(text[:TEXT_CHARS_MAX]))
    is_setup = [command[0] in SETUP or command[:2] == ["conda", "activate"] for command in commands]
    names = [program_of(command, depth=depth) for command in commands]
    main = (name for name, is_first in zip(names, is_setup, strict=True) if name is not None and not is_first)
    return next(main, None) or next(filter(None, names), None)


def _commands(text: str) -> Iterator[list[str]]:
    """The words of each command of a shell's text."""
    lines = (line for line in text.replace("\\\n", " ").splitlines() if not line.lstrip().startswith("#"))
    tokens = TOKEN.findall("\n".join(lines))
    for is_separator, group in groupby(tokens, key=lambda token: token[0] in ";&|()\n"):
        words = [] if is_separator else [_unquoted(token) for token in group]
        while words and words[0] in KEYWORDS:
            del words[0]
        if words:
            yield words


def _unquoted(token: str) -> str:
    return QUOTED.sub(lambda found: found[1] or found[2] or found[3] or "", token)


def _of_interpreter(words: Sequence[str], *, values: frozenset[str]) -> str | None:
    start = 1
    while start < len(words) and words[start].startswith("-"):
        option, rest = words[start], words[start + 1 :]
        if option == "-m" and rest:
            module = rest[0][:NAME_CHARS_MAX]
            return _of_launcher(rest[1:]) or module if module in LAUNCHER_MODULES else module
        if option in ("-c", "-e", "-m", "-"):
            text, name = (*rest[:2], "", "")[:2]
            return _name(name) if text.startswith("#!") else None
        start += 2 if option in values else 1
    return _name(words[start]) if start < len(words) else None


def _of_launcher(words: Sequence[str]) -> str | None:
    """The script or module that a launcher of processes starts; None if it is neither a `.py` file nor after `-m`."""
    for place, word in enumerate(words):
        if word in ("-m", "--module") and place + 1 < len(words):
            return words[place + 1][:NAME_CHARS_MAX]
        if word.endswith(".py") and not word.startswith("-"):
            return _name(word)
    return None


def _name(word: str) -> str:
    return word.strip("'\";&|()").rstrip("/").rpartition("/")[2][:NAME_CHARS_MAX]
