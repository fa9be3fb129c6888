"""The command line. Each command is a file of its own, imported only when it is called."""

from __future__ import annotations

import sys


def main(arguments: list[str] | None = None) -> int:
    """Runs `kbroker ...`; gives the exit code."""
    import argparse

    import kbroker

    parser = argparse.ArgumentParser(
        prog="kbroker", description="A Kafka-wire-compatible broker in Python."
    )
    parser.add_argument("--version", action="version", version=f"kbroker {kbroker.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    start = commands.add_parser("start", help="start a broker", description="Starts a broker.")
    start.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    start.add_argument(
        "--port", type=int, default=9092, help="port, 0 for a free one (%(default)s)"
    )
    start.add_argument("--data", default="kbroker-data", help="data folder (%(default)s)")
    start.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        dest="settings",
        help="a setting by Kafka's name, such as num.partitions=3; may be repeated",
    )
    start.add_argument("--log-level", default="INFO", choices=["DEBUG", "INFO", "WARNING", "ERROR"])
    options = parser.parse_args(arguments)

    from kbroker.cli.start import start as run_start

    return run_start(options.host, options.port, options.data, options.settings, options.log_level)


if __name__ == "__main__":
    sys.exit(main())
