"""What users install: the wheel and the source archive hold the whole tree, as one package.

The code lives in four top-level folders and imports as one package (pyproject.toml says how). A new
folder that is not mapped there, or a link that was lost, would be noticed only by users; here it
fails by name.
"""

import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pytest

from tests.support.needs import ROOT

# Top-level folders with Python that are not part of the package; any other one must be installed.
NOT_INSTALLED = {"bench", "docker", "docs", "spark_demo", "tests", "tools"}
LINKED_FOLDERS = sorted(
    path.parent.name
    for path in ROOT.glob("[!.]*/__init__.py")
    if path.parent.name not in {"kbroker", *NOT_INSTALLED}
)


@dataclass(frozen=True, slots=True)
class Archives:
    """The two archives of one build."""

    wheel: Path
    source: Path


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Archives:
    """Both archives, the wheel built from the source archive as pip would; needs no network."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(build, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"the build failed:\n{done.stdout}\n{done.stderr}"
    return Archives(wheel=next(folder.glob("*.whl")), source=next(folder.glob("*.tar.gz")))


def modules_of_the_tree() -> Iterator[str]:
    """Every module in the checkout, by the path that it is installed under."""
    for folder in ("kbroker", *LINKED_FOLDERS):
        prefix = PurePosixPath("kbroker") if folder != "kbroker" else PurePosixPath()
        for path in (ROOT / folder).rglob("*.py"):
            inside = path.relative_to(ROOT)
            if inside.parts[:2] not in {("kbroker", linked) for linked in LINKED_FOLDERS}:
                yield str(prefix / inside)


def test_the_four_folders_are_there() -> None:
    assert {"protocol", "replication", "storage"} <= set(LINKED_FOLDERS)
    assert (ROOT / "kbroker" / "__init__.py").exists()


@pytest.mark.parametrize("folder", LINKED_FOLDERS)
def test_a_checkout_has_the_links_that_make_the_folders_one_package(folder: str) -> None:
    link = ROOT / "kbroker" / folder
    assert link.is_symlink(), (
        f"kbroker/{folder} should be a link to ../{folder}. A clone without links (git on Windows"
        " without core.symlinks makes one; zip downloads lose them) cannot be used in place or"
        " installed editable; `pip install .` works there all the same."
    )
    assert os.readlink(link) == f"../{folder}", (
        f"kbroker/{folder} must be relative to survive a move"
    )


@pytest.mark.slow
def test_the_wheel_holds_every_module_of_the_tree_and_no_other(archives: Archives) -> None:
    with zipfile.ZipFile(archives.wheel) as wheel:
        packed = [name for name in wheel.namelist() if name.endswith(".py")]
    assert sorted(packed) == sorted(modules_of_the_tree())


@pytest.mark.slow
def test_the_wheel_installs_nothing_but_kbroker(archives: Archives) -> None:
    with zipfile.ZipFile(archives.wheel) as wheel:
        top_level = {name.split("/")[0] for name in wheel.namelist()}
    dist_info = {name for name in top_level if name.endswith(".dist-info")}
    assert top_level - dist_info == {"kbroker"}
    assert len(dist_info) == 1


@pytest.mark.slow
def test_the_wheel_carries_the_licence_and_the_command(archives: Archives) -> None:
    with zipfile.ZipFile(archives.wheel) as wheel:
        texts = {name.split("/", 1)[1]: wheel.read(name).decode() for name in wheel.namelist()}
    assert "Apache License" in texts["licenses/LICENSE"]
    assert "kbroker = kbroker.cli:main" in texts["entry_points.txt"]


@pytest.mark.slow
def test_the_source_archive_holds_the_real_folders_and_no_links(archives: Archives) -> None:
    with tarfile.open(archives.source) as source:
        members = source.getmembers()
    assert [member.name for member in members if member.issym() or member.islnk()] == []
    names = {member.name.split("/", 1)[1] for member in members if "/" in member.name}
    assert {"LICENSE", "README.md", "pyproject.toml"} <= names
    for folder in LINKED_FOLDERS:
        assert f"{folder}/__init__.py" in names
        assert f"kbroker/{folder}/__init__.py" not in names, "a folder was packed through its link"


@pytest.mark.slow
def test_the_wheel_runs_without_the_checkout(archives: Archives, tmp_path: Path) -> None:
    """What only works because the checkout happens to be importable would fail here."""
    with zipfile.ZipFile(archives.wheel) as wheel:
        wheel.extractall(tmp_path)
    look = "import kbroker.protocol, kbroker.storage; print(kbroker.storage.__file__)"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    for arguments in (["-c", look], ["-m", "kbroker", "--help"]):
        done = subprocess.run(
            [sys.executable, *arguments],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=environment,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        if "-c" in arguments:
            assert Path(done.stdout.strip()).is_relative_to(tmp_path)
