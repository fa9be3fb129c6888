"""Turns the rounds of a row into ratios, compares them with their goals, prints and stores them.

The ratio is the median of the ratios of the rounds, not the ratio of the medians: both figures of a
round were taken seconds apart, so what slowed one slowed the other.
"""

import json
import os
import platform
import statistics
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.rows.base import Metric
from bench.runner import RowResult

# Shares of the machine's CPU that others may take before a row is marked as doubtful.
NOISE_LIMIT = 0.10

_HEADINGS = ("row", "figure", "kbroker", "kafka", "ratio", "(min-max)", "goal", "verdict")
_WIDTHS = (22, 26, 11, 11, 7, 15, 16, 9)


@dataclass(frozen=True, slots=True)
class Line:
    """One figure of one row: both sides, their ratio, the verdict."""

    row: str
    figure: str
    unit: str
    kbroker: float | None
    kafka: float | None
    ratio: float | None
    ratio_min: float | None
    ratio_max: float | None
    goal: str
    verdict: str


def lines_of(result: RowResult) -> list[Line]:
    """One line for each metric of the row."""
    return [_line(result, metric) for metric in result.row.metrics]


def _line(result: RowResult, metric: Metric) -> Line:
    values = {
        name: [figures[metric.key] for figures in rounds] for name, rounds in result.rounds.items()
    }
    ours, theirs = values.get("kbroker", []), values.get("kafka", [])
    ratios = [our / their for our, their in zip(ours, theirs, strict=False) if their]
    ratio = statistics.median(ratios) if ratios else None
    own = statistics.median(ours) if ours else None
    judged = ratio if metric.goal_is_for == "ratio" else own
    goal = str(metric.goal) if metric.goal else "-"
    if metric.goal and metric.goal_is_for == "kbroker":
        goal += " (own)"
    if result.failures:
        verdict = "failed"
    elif metric.goal is None or judged is None:
        verdict = "-"
    else:
        verdict = "at goal" if metric.goal.reached_by(judged) else "short"
    return Line(
        result.row.name,
        metric.key,
        metric.unit,
        own,
        statistics.median(theirs) if theirs else None,
        ratio,
        min(ratios, default=None),
        max(ratios, default=None),
        goal,
        verdict,
    )


def others_share(result: RowResult) -> float:
    """The largest median share of the machine that other processes took in this row's runs."""
    shares = [
        statistics.median(figures.get("others", 0.0) for figures in rounds)
        for rounds in result.rounds.values()
        if rounds
    ]
    return max(shares, default=0.0)


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 0.01 else f"{value:.4f}"


def _columns(cells: tuple[str, ...]) -> str:
    padded = []
    for place, (cell, width) in enumerate(zip(cells, _WIDTHS, strict=True)):
        padded.append(cell.rjust(width) if 2 <= place <= 4 else cell.ljust(width))
    return "  ".join(padded).rstrip()


def heading() -> str:
    """The table's first two lines."""
    return _columns(_HEADINGS) + "\n" + _columns(tuple("-" * width for width in _WIDTHS))


def table(result: RowResult) -> str:
    """The row's lines of the table, and a remark where one is due."""
    text = []
    for line in lines_of(result):
        spread = "-"
        if line.ratio_min is not None:
            spread = f"{_number(line.ratio_min)}-{_number(line.ratio_max)}"
        text.append(
            _columns(
                (
                    line.row,
                    f"{line.figure} ({line.unit})" if line.figure != "rate" else line.unit,
                    _number(line.kbroker),
                    _number(line.kafka),
                    _number(line.ratio),
                    spread,
                    line.goal,
                    line.verdict,
                )
            )
        )
    for name, note in result.failures.items():
        text.append(f"    {name} failed: {note.splitlines()[0]}")
    if (share := others_share(result)) > NOISE_LIMIT:
        text.append(f"    doubtful: other processes took {share:.0%} of the machine meanwhile")
    return "\n".join(text)


def summary(results: list[RowResult]) -> str:
    """How many figures are at their goals, and the names of those that are not."""
    judged = [line for result in results for line in lines_of(result)]
    at_goal = [line for line in judged if line.verdict == "at goal"]
    short = [f"{line.row} {line.figure}" for line in judged if line.verdict == "short"]
    failed = [result.row.name for result in results if result.failures]
    text = f"{len(at_goal)} figures at goal, {len(short)} short"
    if short:
        text += ": " + ", ".join(short)
    if failed:
        text += f"; failed rows: {', '.join(failed)}"
    return text


def machine() -> dict[str, str | int | float]:
    """What the numbers depend on."""
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "cores": os.cpu_count() or 0,
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_average_1_min": os.getloadavg()[0],
    }


def write_json(
    path: Path, settings: dict[str, str | int | float], results: list[RowResult]
) -> None:
    """Everything measured, every round, for later comparison."""
    rows = [
        {
            "row": result.row.name,
            "title": result.row.title,
            "took_s": round(result.took_s, 2),
            "others_share": others_share(result),
            "failures": result.failures,
            "lines": [asdict(line) for line in lines_of(result)],
            "rounds": result.rounds,
        }
        for result in results
    ]
    path.write_text(json.dumps({"settings": settings, "rows": rows}, indent=1) + "\n")
