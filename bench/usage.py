"""What a process and its children use: CPU seconds and resident memory, read from Linux.

CPU is the number to trust on a shared machine. /proc/PID/stat counts in steps of 10 ms, too coarse
for a broker that needs 50 ms for a run, so a live process is read through its POSIX CPU clock,
which counts nanoseconds over all its threads, ended ones too.
"""

import os
import time
from pathlib import Path

_TICKS_PER_S: int = os.sysconf("SC_CLK_TCK")


def _stat_fields(pid: int) -> list[str]:
    # The command name may hold blanks and parentheses; the fields begin after the last one.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def family(pid: int) -> list[int]:
    """The process and all its living descendants."""
    parents: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                parents[int(entry)] = int(_stat_fields(int(entry))[1])
            except (FileNotFoundError, ProcessLookupError):
                continue  # ended while we looked
    found = [pid]
    for member in found:
        found += [child for child, parent in parents.items() if parent == member]
    return found


def cpu_s(pid: int) -> float:
    """CPU seconds of a process, its living descendants and its reaped children."""
    total = 0.0
    for member in family(pid):
        try:
            # Linux: the CPU clock of process P has the id (~P << 3) | 2 (clock_getcpuclockid).
            total += time.clock_gettime((~member << 3) | 2)
            reaped = _stat_fields(member)[13:15]
            total += sum(map(int, reaped)) / _TICKS_PER_S
        except OSError:
            continue  # ended while we looked
    return total


def rss_mb(pid: int) -> float:
    """Resident memory in MB (millions of bytes), mapped files included, descendants included."""
    kib = 0
    for member in family(pid):
        for line in Path(f"/proc/{member}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                kib += int(line.split()[1])
    return kib * 1024 / 1e6


def machine_busy_s() -> float:
    """CPU seconds that all cores together have spent on anything since boot."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, fields[:8])
    return (user + nice + system + irq + softirq + steal) / _TICKS_PER_S
