"""What the course has to show: one finding for each promise, true or not, with what it rests on."""

from dataclasses import dataclass

from aliquot.cli.main_job.cluster_view import granted_shares
from aliquot.cli.main_job.course import Course
from aliquot.cli.main_job.live_processes import live_kernels
from aliquot.cli.main_job.tasks import RESISTING, TASKS
from aliquot_schema.states import SessionState

BEGINNING = [SessionState.QUEUED, SessionState.RUNNING]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One promise, and whether it was kept."""

    promise: str
    kept: bool
    detail: str


def findings(course: Course) -> list[Finding]:
    """Judge the course."""
    return [_ends(course), _order(course), _outputs(course), _maps(course), _held(course), _nothing_left(course)]


def _ends(course: Course) -> Finding:
    wrong = []
    for task in TASKS:
        moves = [state for state in course.moves[course.ids[task.name]] if state in {*BEGINNING, task.ends}]
        session = course.sessions[task.name]
        if moves != [*BEGINNING, task.ends] or session["exit_code"] != task.exit_code:
            went = " > ".join(course.moves[course.ids[task.name]])
            wrong.append(f"{task.name} went {went}, exit code {session['exit_code']}")
    detail = "; ".join(wrong) or f"{len(TASKS)} sessions went queued > running > their end, with their own exit codes"
    return Finding(promise="every session ends as it should", kept=not wrong, detail=detail)


def _order(course: Course) -> Finding:
    names = {session_id: name for name, session_id in course.ids.items()}
    order = [names[session_id] for session_id in course.scheduled]
    kept = order == [task.name for task in TASKS]
    return Finding(promise="first come, first served", kept=kept, detail=" ".join(order))


def _outputs(course: Course) -> Finding:
    wrong = []
    for task in TASKS:
        for kernel in course.sessions[task.name]["kernels"]:
            granted = sorted(granted_shares(kernel["resource_spec"]))
            printed = _printed_devices(course.outputs[task.name, kernel["rank"]])
            if printed != granted:
                wrong.append(f"{task.name} rank {kernel['rank']} was granted {granted} and printed {printed}")
    detail = "; ".join(wrong) or f"{len(course.outputs)} processes printed exactly the devices they were granted"
    kept = not wrong and len(course.outputs) == sum(task.cluster_size for task in TASKS)
    return Finding(promise="every process sees its devices alone", kept=kept, detail=detail)


def _maps(course: Course) -> Finding:
    check = course.check
    detail = (
        f"{check.compared} comparisons at {course.events} events, {check.from_processes_alone} of them from live "
        f"processes alone, {len(check.differences)} differences"
    )
    if check.differences:
        detail += f"; first: {check.differences[0]}"
    kept = not check.differences and check.compared >= course.events > 0 and check.from_processes_alone > 0
    return Finding(promise="gpu_alloc_map equals the sum of the live processes", kept=kept, detail=detail)


def _held(course: Course) -> Finding:
    session = course.sessions[RESISTING.name]
    gone = all(kernel["state"] == "exited" for kernel in session["kernels"]) and not session["holds_devices"]
    detail = f"seen held {course.held_after_cancel} times after cancel, then free: {'yes' if gone else 'no'}"
    return Finding(
        promise="a canceled session keeps its devices until its processes are gone",
        kept=course.held_after_cancel > 0 and gone,
        detail=detail,
    )


def _nothing_left(course: Course) -> Finding:
    left = sorted(live_kernels(course.check.data_folder))
    detail = f"left: {', '.join(left)}" if left else "every map is at 0.00 and no process is left"
    return Finding(promise="nothing is left over", kept=not left, detail=detail)


def _printed_devices(output: str) -> list[str] | None:
    for line in output.splitlines():
        name, _, value = line.partition("=")
        if name == "CUDA_VISIBLE_DEVICES":
            return sorted(id for id in value.split(",") if id)
    return None
