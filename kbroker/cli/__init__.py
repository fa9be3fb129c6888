"""The command line. Each command is a file of its own, imported only when it is called.

`kbroker start` with plain options goes straight to the broker: click costs 40 ms, a third of the
time that a broker needs from its start to its first answer. Everything else goes through click.
"""

from __future__ import annotations

import sys


def main(arguments: list[str] | None = None) -> int:
    """Runs `kbroker ...`; gives the exit code: 0 fine, 1 failed, 2 wrong usage."""
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] == ["start"]:
        from kbroker.cli.start_options import read_quickly

        options = read_quickly(words[1:])
        if options is not None:
            from kbroker.cli.start import start

            return start(options)

    from kbroker.cli.app import run

    return run(words)


if __name__ == "__main__":
    sys.exit(main())
