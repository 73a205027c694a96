"""Generated files: everything written from the code, by file name."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from aliquot_docs.drawing import policy_plots
from aliquot_docs.drawing.layers import layers_picture
from aliquot_docs.drawing.partitions import partitions_picture
from aliquot_docs.drawing.state_arcs import state_arcs
from aliquot_docs.pages import commands, fair_share, job_environment, modules, rest_reference, settings, slurm, words
from aliquot_docs.pages.graphql_reference import graphql_pages
from aliquot_docs.pages.troubleshooting import troubleshooting_sections
from aliquot_schema.alerts import AlertRule
from aliquot_schema.cluster.findings import Discrepancy
from aliquot_schema.identity.accounts import Role
from aliquot_schema.reasons import Reason
from aliquot_schema.states import AGENT_MOVES, KERNEL_MOVES, SESSION_MOVES, AgentState, KernelState, SessionState

ROOT: Final = Path(__file__).resolve().parents[3]
MAIN_STATES: Final = tuple(state for state in SessionState if state not in {SessionState.FAILED, SessionState.CANCELED})
"""The picture omits FAILED and CANCELED, which every live state can enter; the table has them."""


def write(target: Path) -> None:
    """Write all generated files into a folder with the other sources."""
    for name, part in {**_parts(), **_pictures()}.items():
        _put(target / "generated" / name, part())
    for name, page in {**graphql_pages(), "command-line.md": commands.commands_page()}.items():
        _put(target / "reference" / name, page)
    _plots(target / "generated")


def _parts() -> Mapping[str, Callable[[], str]]:
    """Parts of pages, by file name."""
    return {
        "settings.txt": settings.settings_tables,
        "exit-codes.txt": words.exit_codes_table,
        "errors.txt": words.errors_table,
        "troubleshooting.txt": lambda: troubleshooting_sections(ROOT),
        "reasons.txt": lambda: words.members_table(Reason, head="reason"),
        "findings.txt": lambda: words.members_table(Discrepancy, head="finding"),
        "session-states.txt": lambda: words.members_table(SessionState, head="state"),
        "kernel-states.txt": lambda: words.members_table(KernelState, head="state"),
        "alert-rules.txt": lambda: words.members_table(AlertRule, head="rule"),
        "agent-states.txt": lambda: words.members_table(AgentState, head="state"),
        "session-moves.txt": lambda: words.moves_table(SESSION_MOVES),
        "roles.txt": lambda: words.roles_table(Role),
        "job-environment.txt": job_environment.job_environment_table,
        "modules.txt": lambda: modules.modules_tables(ROOT),
        "rest.txt": rest_reference.rest_page,
        "usage.txt": fair_share.usage_table,
        "scores.txt": fair_share.score_table,
        "directives.txt": slurm.directives_table,
        "short-directives.txt": slurm.short_forms,
        "slurm-variables.txt": lambda: ", ".join(f"`{name}`" for name in slurm.variables()),
    }


def _pictures() -> Mapping[str, Callable[[], str]]:
    """Pictures as HTML to include in a page, by file name."""
    return {
        "layers.html": lambda: layers_picture(ROOT),
        "partitions.html": partitions_picture,
        "session-states.html": lambda: state_arcs(MAIN_STATES, SESSION_MOVES, title="Session states"),
        "kernel-states.html": lambda: state_arcs(list(KernelState), KERNEL_MOVES, title="Kernel states"),
        "agent-states.html": lambda: state_arcs(list(AgentState), AGENT_MOVES, title="Agent states"),
    }


def _plots(target: Path) -> None:
    for name, policies in {"orders": policy_plots.ORDERS, "backfills": policy_plots.BACKFILLS}.items():
        runs = policy_plots.outcomes(policies)
        _put(target / f"{name}.html", policy_plots.waits_plot(runs, title=f"Waits under {', '.join(runs)}"))
        _put(target / f"{name}.txt", policy_plots.figures_table(runs))


def _put(path: Path, words: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(words, encoding="utf-8")
