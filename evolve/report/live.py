"""The live display: the funnel, the best fitness against the speed of light, the time left."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from evolve.events.schema import Body, Examined, Result
from evolve.report.display import FAILED, failure, opening
from evolve.report.examined import examined_lines
from evolve.report.progress import Progress
from evolve.report.units import duration, harmless, microseconds
from evolve.search.problem import ProblemInfo
from evolve.search.state import FUNNEL


class LiveDisplay:
    """Redraws itself a few times a second, from events only.

    It refreshes by a thread, which is started by the first proposal: worker processes are forked
    before that.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._progress = Progress()
        self._console = console or Console(stderr=True)
        self._live = Live(
            get_renderable=self.render, console=self._console, refresh_per_second=4, transient=True
        )

    def announce(self, folder: Path, info: ProblemInfo) -> None:
        """Prints the opening above the display."""
        for line in opening(folder, info):
            self._console.print(Text(harmless(line)))

    def observe(self, body: Body, recorded: bool) -> None:
        """Takes the event in; the next redraw shows it."""
        self._progress.apply(body, recorded)
        if not recorded and isinstance(body, Result) and body.status in FAILED:
            self._console.print(Text(harmless(failure(body))))
        if not recorded and isinstance(body, Examined):
            for line in examined_lines(body.model_dump()):
                self._console.print(Text(harmless(line)))
        if not recorded and body.kind == "proposed" and not self._live.is_started:
            self._live.start()

    def render(self) -> RenderableType:
        """The display now."""
        state = self._progress.state
        if state.settings is None or state.baseline is None:
            return Text("preparing")
        best = state.parent(state.champion)
        funnel = Table(box=None, padding=(0, 2, 0, 0), show_edge=False)
        for stage in FUNNEL:
            funnel.add_column(stage.replace("_", " "), justify="right")
        funnel.add_row(*(str(state.funnel[stage]) for stage in FUNNEL))
        left = self._progress.time_left_s()
        pace = f"{duration(self._progress.elapsed_s)} gone"
        pace += f", at most {duration(left)} left" if left is not None else ""
        speedup = state.baseline.time_us / best.time_us if best.time_us else 1.0
        who = f"candidate {best.proposal}" if best.proposal else "baseline"
        asked = ", ".join(dict.fromkeys(one.arm for one in state.open.values()))
        return Group(
            _bar("of the speed of light", best.fitness, 1.0, f"{best.fitness:.3f}"),
            _bar(
                "of the budget",
                state.scored,
                state.settings.budget,
                f"{state.scored}/{state.settings.budget}",
            ),
            *([Text(f"asking {asked}")] if asked else []),
            Text(f"best: {who}, {microseconds(best.time_us)}, {speedup:.2f}x; {pace}"),
            funnel,
        )

    def __enter__(self) -> LiveDisplay:
        return self

    def __exit__(self, *_: object) -> None:
        if self._live.is_started:
            self._live.stop()


def _bar(name: str, value: float, total: float, text: str) -> Table:
    line = Table.grid(padding=(0, 1))
    line.add_row(ProgressBar(total=total, completed=min(value, total), width=40), Text(f"{text} {name}"))
    return line
