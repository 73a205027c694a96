"""GPU map in the terminal: one line per GPU with a bar of the holders' shares, or one line per node."""

import json
import sys
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from aliquot.cli.cluster.agents import state_text
from aliquot.cli.connection.output import count_text, moment, printable
from aliquot.cli.connection.tables import (
    GAP,
    columns_of,
    has_colours,
    padded_to,
    rough_duration,
    short_id,
    shortened,
    terminal_size,
)

if TYPE_CHECKING:
    from aliquot.client.generated.agents import Agent, Device, Holder

BAR_CELLS: Final = 20
"""Width of a bar in a pipe and in a wide terminal."""
BAR_CELLS_NARROW: Final = 10
WIDE: Final = 100
"""Columns of a terminal from which bars are long."""
USE_COLUMNS: Final = 5
ENDS_COLUMNS: Final = 7
COMPACT_GPUS: Final = 64
"""GPUs from which a node is one line."""
INDENT: Final = "  "
COLOURS: Final = (36, 35, 33, 32, 34, 91, 96, 95)
"""A user always has the same colour. With more users than colours some share one, so names are beside the bar."""
_BOLD, _DIM, _RED, _YELLOW = 1, 2, 31, 33
_GIB: Final = 2**30

Part = tuple[str, int]
"""A piece of a line and its colour; 0 = none."""


def gpus_of(agent: "Agent") -> dict[str, Any]:
    """An agent's accelerators, as for `--json`."""
    return {"agent_id": agent.id, "node_id": agent.node_id, "state": agent.state, "gpus": _accelerators(agent)}


class GpuMap:
    """The GPUs of some agents, with the names of the sessions that hold them."""

    def __init__(self, agents: "Sequence[Agent]", *, names: Mapping[str, str], now: datetime, full_ids: bool) -> None:
        self._agents = [(agent, _accelerators(agent)) for agent in agents]
        self._names = names
        self._now = now
        self._full_ids = full_ids

    def shown(self, *, compact: bool | None) -> list[str]:
        """The lines as standard output can take them.

        Args:
            compact: whether a node is one line; None = where there are many GPUs, and in a terminal.
        """
        colours = has_colours(sys.stdout)
        if not sys.stdout.isatty():
            return self.in_pipe() if not compact else self.compact(WIDE, colours=colours)
        many = sum(len(gpus) for _, gpus in self._agents) >= COMPACT_GPUS
        draw = self.compact if compact or (compact is None and many) else self.in_terminal
        return draw(terminal_size().columns, colours=colours)

    def in_pipe(self) -> list[str]:
        """The lines for a program: a heading for each agent, and a line for each GPU with cells after tabs."""
        lines = []
        for agent, gpus in self._agents:
            lines.append(GAP.join((printable(agent.id), state_text(agent), _held(gpus))))
            for gpu in gpus:
                bar = "".join(text for text, _ in _bar(gpu, BAR_CELLS))
                holders = ", ".join(_in_full(one) for one in gpu.holders)
                trouble = _trouble(gpu)[0]
                cells = (gpu.name, gpu.model, gpu.used, bar, holders, _busy(gpu), _memory(gpu), trouble)
                lines.append("\t".join(map(printable, cells)))
        return lines

    def in_terminal(self, width: int, *, colours: bool) -> list[str]:
        """The names of the columns, a heading for each agent with the model of its GPUs, and one line for each GPU."""
        every = [gpu for _, gpus in self._agents for gpu in gpus]
        if not every:
            return ["no agent has a GPU; `aliquot agents list` shows the agents"]
        columns = _Columns(
            name=max(len(_name(gpu)) for gpu in every),
            memory=max(len(_memory(gpu)) for gpu in every),
            bar=BAR_CELLS if width >= WIDE else BAR_CELLS_NARROW,
            line=width,
        )
        heads = [(one, _DIM) for one in ("GPU", "held", "", "sessions", "use", "memory", "ends in")]
        lines = [_line(columns.joined(*(([head]) for head in heads)), colours=colours)]
        for agent, gpus in self._agents:
            title = (printable(agent.id), state_text(agent), _held(gpus), _models(gpus))
            lines.append(_line([(shortened(GAP.join(filter(None, title)), width), _BOLD)], colours=colours))
            is_mixed = len({gpu.model for gpu in gpus}) > 1
            lines += [_line(self._gpu(gpu, columns, is_mixed=is_mixed), colours=colours) for gpu in gpus]
        return lines

    def _gpu(self, gpu: "Device", columns: "_Columns", *, is_mixed: bool) -> list[Part]:
        used = f"{float(gpu.used):g}" if float(gpu.used) else "free"
        trouble, colour = _trouble(gpu)
        start: list[Part] = [(trouble, colour)] if trouble else []
        if not trouble and not gpu.holders and is_mixed:
            start = [(printable(gpu.model), _DIM)]
        between: list[Part] = [(", ", 0)] if start and gpu.holders else []
        # The form that fits: all of it, without users, without shares, the first ones.
        forms = [
            [*start, *between, *self._holders(gpu.holders, with_user=with_user, with_share=with_share)]
            for with_user, with_share in ((True, True), (False, True), (False, False))
        ]
        for count in range(len(gpu.holders) - 1, 0, -1):
            some = self._holders(gpu.holders[:count], with_user=False, with_share=False)
            forms.append([*start, *between, *some, (f" and {len(gpu.holders) - count} more", 0)])
        holders = next((form for form in forms if _width(form) <= columns.holders), forms[-1])
        plain = (_name(gpu), used, _busy(gpu), _memory(gpu), self._until(gpu))
        name, held, busy, memory, ends = ([(text, 0)] for text in plain)
        return columns.joined(name, held, _bar(gpu, columns.bar), holders, busy, memory, ends)

    def compact(self, width: int, *, colours: bool) -> list[str]:
        """One line for each agent, with one sign for each GPU, and a line that explains the signs."""
        id_width = max((len(printable(agent.id)) for agent, _ in self._agents), default=0)
        most = max((len(gpus) for _, gpus in self._agents), default=0)
        total = [gpu for _, gpus in self._agents for gpu in gpus]
        lines = [_line([(f"{count_text(len(self._agents), 'agent')}{GAP}{_held(total)}", _BOLD)], colours=colours)]
        for agent, gpus in self._agents:
            start = f"{padded_to(printable(agent.id), min(id_width, width // 4))}{GAP}"
            state = "" if state_text(agent) == "alive" else f"{state_text(agent)}{GAP}"
            held = f"{GAP * 1}{padded_to(_held(gpus, short=True), 9, is_number=True)}{GAP}"
            left = width - len(start) - most - len(held)
            users = Counter(holder.user for gpu in gpus for holder in gpu.holders)
            people: list[Part] = [(state, _YELLOW)] if state else []
            for user, _ in users.most_common():
                people += [(", ", 0)] if people and people[-1][0] != state else []
                people.append((printable(user), _colour(user)))
            signs = [_sign(gpu) for gpu in gpus]
            padding = " " * (most - len(signs))
            lines.append(_line([(start, 0), *signs, (padding + held, 0), *_fitting(people, left)], colours=colours))
        lines.append(
            "\N{FULL BLOCK} held  \N{LOWER HALF BLOCK} partly held  \N{MIDDLE DOT} free  ! unhealthy or withheld"
        )
        return lines

    def _holders(self, holders: "Iterable[Holder]", *, with_user: bool, with_share: bool) -> list[Part]:
        parts: list[Part] = []
        for one in holders:
            name = self._names.get(one.session_id or "")
            if name is None and one.session_id is not None:
                name = short_id(one.session_id, full=self._full_ids).text
            user = printable(one.user)
            what = user if name is None else f"{printable(name)} of {user}" if with_user else printable(name)
            kind = "" if one.kind == "session" else f" ({one.kind})"
            share = f" {float(one.share):g}" if with_share and float(one.share) != 1 else ""
            parts += [(", ", 0)] if parts else []
            parts.append((f"{what}{kind}{share}", _colour(one.user)))
        return parts

    def _until(self, gpu: "Device") -> str:
        """How long until all holders have ended at the latest; empty where that is not known."""
        ends = [one.until for one in gpu.holders]
        known = [at for at in ends if at is not None]
        if not ends or len(known) < len(ends):
            return ""
        return rough_duration(max(0.0, (max(known) - self._now).total_seconds()))


class _Columns(Struct, frozen=True, dict=True):
    """The widths of the columns of one line per GPU."""

    name: int
    memory: int
    bar: int
    line: int

    @property
    def holders(self) -> int:
        """What the other columns leave."""
        others = (self.name, len("free"), self.bar, USE_COLUMNS, self.memory, ENDS_COLUMNS)
        return self.line - len(INDENT) - sum(others) - len(others) * len(GAP)

    def joined(self, *cells: Sequence[Part]) -> list[Part]:
        """A line of name, held, bar, holders, use, memory and end."""
        widths = (self.name, len("free"), self.bar, self.holders, USE_COLUMNS, self.memory, ENDS_COLUMNS)
        numbers = (False, True, False, False, True, True, True)
        line: list[Part] = [(INDENT, 0)]
        for place, (cell, width, is_number) in enumerate(zip(cells, widths, numbers, strict=True)):
            fitted = _fitting(cell, width)
            line += [(GAP, 0)] if place else []
            line += [fitted[-1], *fitted[:-1]] if is_number else fitted
        return line


def _accelerators(agent: "Agent") -> "list[Device]":
    shown = json.loads(agent.gpu_alloc_map)
    return [device for device in agent.devices if device.id in shown]


def _held(gpus: "Sequence[Device]", *, short: bool = False) -> str:
    if not gpus:
        return "no GPU"
    held = f"{sum(float(gpu.used) for gpu in gpus):.6g} of {len(gpus)}"
    return held if short else f"{held} GPU{'' if len(gpus) == 1 else 's'} held"


def _models(gpus: "Sequence[Device]") -> str:
    """`8 x NVIDIA H100 80GB HBM3`."""
    return ", ".join(f"{count} x {printable(model)}" for model, count in Counter(gpu.model for gpu in gpus).items())


def _bar(gpu: "Device", cells: int) -> list[Part]:
    """A bar with each holder's share in the colour of its user; free shares are dotted."""
    bar: list[Part] = []
    capacity, left = float(gpu.capacity) or 1.0, cells
    for holder in gpu.holders:
        # At least one cell, so that every holder is visible.
        width = min(max(1, round(float(holder.share) / capacity * cells)), left)
        bar.append(("\N{FULL BLOCK}" * width, _colour(holder.user)))
        left -= width
    return [*bar, ("\N{MIDDLE DOT}" * left, _DIM)]


def _sign(gpu: "Device") -> Part:
    trouble, colour = _trouble(gpu)
    if trouble:
        return "!", colour
    if not gpu.holders:
        return "\N{MIDDLE DOT}", _DIM
    is_full = float(gpu.used) >= float(gpu.capacity)
    return "\N{FULL BLOCK}" if is_full else "\N{LOWER HALF BLOCK}", _colour(gpu.holders[0].user)


def _in_full(holder: "Holder") -> str:
    kind = "" if holder.kind == "session" else f" ({holder.kind})"
    id = f" {holder.session_id}" if holder.session_id else ""
    until = f" until {moment(holder.until)}" if holder.until else ""
    return f"{holder.user} {holder.share}{kind}{id}{until}"


def _name(gpu: "Device") -> str:
    return printable(gpu.name)


def _busy(gpu: "Device") -> str:
    return "" if gpu.utilization_pct is None else f"{gpu.utilization_pct:.0f} %"


def _memory(gpu: "Device") -> str:
    used = "" if gpu.memory_used_bytes is None else f"{gpu.memory_used_bytes / _GIB:.1f}/"
    return f"{used}{gpu.memory_bytes / _GIB:.0f} GiB"


def _trouble(gpu: "Device") -> Part:
    words = [] if gpu.health == "healthy" else [str(gpu.health)]
    if gpu.foreign_usage or gpu.foreign_users:
        users = ", ".join(map(printable, gpu.foreign_users))
        words.append(f"used by foreign processes of {users}" if users else "used by foreign processes")
    return ", ".join(words), _YELLOW if words == ["leaving"] else _RED


def _colour(user: str) -> int:
    return COLOURS[zlib.crc32(user.encode()) % len(COLOURS)]


def _width(parts: Iterable[Part]) -> int:
    return sum(columns_of(text) for text, _ in parts)


def _fitting(parts: Sequence[Part], width: int) -> list[Part]:
    """Parts in a given number of columns; the last part that can be shortened is."""
    fitting: list[Part] = []
    left = max(0, width)
    rest = "".join(text for text, _ in parts)
    for text, colour in parts:
        if columns_of(rest) > left and columns_of(text) >= left:
            fitting.append((shortened(f"{text} ", left) if left else "", colour))
            left -= columns_of(fitting[-1][0])
            break
        fitting.append((text, colour))
        left -= columns_of(text)
        rest = rest[len(text) :]
    return [*fitting, (" " * left, 0)]


def _line(parts: Iterable[Part], *, colours: bool) -> str:
    pieces = (f"\x1b[{colour}m{text}\x1b[0m" if colours and colour and text else text for text, colour in parts)
    return "".join(pieces).rstrip()
