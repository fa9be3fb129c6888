"""`python -m bench`: kbroker and Apache Kafka in turns, and the ratios of PERFORMANCE.md's rows.

It reports and judges nothing by its exit code but whether it could measure: 0 measured, 1 a row
failed, 2 wrong usage.
"""

import argparse
import signal
import sys
import tempfile
import time
from pathlib import Path
from types import FrameType

from bench import report
from bench.rows import all_rows
from bench.rows.base import Sizes
from bench.runner import Runner, choose, say
from bench.servers import SERVERS, kafka_version
from bench.wire import BenchError

FULL_ROUNDS, QUICK_ROUNDS = 5, 2
FULL_WARM_S, QUICK_WARM_S = 10.0, 3.0
QUICK_FACTOR = 0.1


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--rounds", type=int, help="counted rounds of each row")
    parser.add_argument("--rows", help="names or beginnings of names, comma-separated")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every round here")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, two rounds")
    parser.add_argument("--java", action="store_true", help="with the rows of the Java producer")
    parser.add_argument("--only", choices=sorted(SERVERS), help="measure one server alone")
    parser.add_argument("--list", action="store_true", help="print the rows and stop")
    return parser


def main() -> int:
    """Run the bench."""
    parser = _arguments()
    arguments = parser.parse_args()
    quick: bool = arguments.quick
    rounds: int = arguments.rounds or (QUICK_ROUNDS if quick else FULL_ROUNDS)
    if rounds < 1:
        parser.error("--rounds must be at least 1")
    names = [arguments.only] if arguments.only else ["kbroker", "kafka"]
    rows = all_rows(Sizes(QUICK_FACTOR if quick else 1.0))
    if arguments.list:
        for row in rows:
            print(f"{row.name:<24}{row.title}{' (only by name or --java)' if row.optional else ''}")
        return 0
    settings: dict[str, str | int | float] = {**report.machine(), "rounds": rounds}
    settings |= {"quick": quick, "servers": " ".join(names)}
    try:
        chosen = choose(rows, arguments.rows, arguments.java)
        if "kafka" in names:
            settings["kafka"] = kafka_version()
    except BenchError as error:
        parser.error(str(error))
    # A terminated bench must not leave servers behind; SystemExit runs the clean-up below.
    signal.signal(signal.SIGTERM, _terminated)
    print(" ".join(f"{key}={value}" for key, value in settings.items()))
    print(report.heading(), flush=True)
    began = time.monotonic()
    results = []
    with tempfile.TemporaryDirectory(prefix="kbroker-bench-") as folder:
        warm_s = QUICK_WARM_S if quick else FULL_WARM_S
        runner = Runner(Path(folder), names, rounds, warm_s)
        with runner.stopping():
            for number, row in enumerate(chosen, 1):
                say(f"[{number}/{len(chosen)}] {row.name}: {row.title}")
                results.append(runner.run(row))
                print(report.table(results[-1]), flush=True)
                if arguments.json:
                    report.write_json(arguments.json, settings, results)
    print(f"\n{report.summary(results)} ({time.monotonic() - began:.0f} s)")
    return 1 if any(result.failures for result in results) else 0


def _terminated(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit(143)


if __name__ == "__main__":
    sys.exit(main())
