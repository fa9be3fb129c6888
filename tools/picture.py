"""Draws docs/first-run.svg, the README's picture: `python -m tools.picture`.

A broker is started and the commands are really run; what they print is what the picture shows.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

from kbroker.broker_process import BrokerProcess

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "first-run.svg"
COMMANDS = (
    "kbroker topics create orders --partitions 3",
    "printf '%s\\n' '1:two apples' '2:a pear' '3:plums' | kbroker produce orders --key-separator :",
    "kbroker consume orders --from beginning --keys --offsets",
    "kbroker topics describe orders",
    "kbroker status",
)


def main() -> None:
    """Runs the commands against a broker and draws the terminal."""
    console = Console(record=True, width=100, force_terminal=True, file=io.StringIO())
    with tempfile.TemporaryDirectory() as folder:
        broker = BrokerProcess(Path(folder) / "kbroker-data").start()
        try:
            said = broker.stdout_text().splitlines()[0]
            _show(console, "kbroker start &", _as_at_home(said, broker, folder))
            for command in COMMANDS:
                program = f"{sys.executable} -m kbroker"
                done = subprocess.run(
                    command.replace("kbroker", program, 1),
                    shell=True,
                    capture_output=True,
                    text=True,
                    check=True,
                    env={**os.environ, "KBROKER_BOOTSTRAP": broker.bootstrap, "COLUMNS": "96"},
                )
                _show(console, command, _as_at_home(done.stdout, broker, folder))
        finally:
            broker.close()
    drawn = console.export_svg(title="kbroker")
    # A picture fetches no fonts from elsewhere: the viewer's own do.
    PICTURE.write_text(re.sub(r"@font-face \{.*?\}", "", drawn, flags=re.DOTALL))


def _as_at_home(printed: str, broker: BrokerProcess, folder: str) -> str:
    return printed.replace(str(broker.port), "9092").replace(f"{folder}/", "").rstrip()


def _show(console: Console, command: str, output: str) -> None:
    console.print(Text("$ ", style="bold green") + Text(command, style="bold"))
    if output:
        console.print(Text(output))
    console.print()


if __name__ == "__main__":
    main()
