"""Prompts and the viewer's files are found from a wheel, an sdist and an editable install; the package is typed.

Builds in a copy of the source tree and installs into virtual environments under a temporary folder, without an index.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.cli_support import command_line, told

ROOT = Path(__file__).resolve().parent.parent
PROMPTS = sorted(path.stem for path in (ROOT / "prompts" / "en").glob("*.md"))

pytestmark = pytest.mark.slow

# Puts a page of the viewer together, loads every prompt and prints where the package lies.
PROBE = """
import sys
from pathlib import Path

import jiuwen_memory
from jiuwen_memory.memory_core.graph.extraction.prompts import PromptLibrary
from jiuwen_memory.viewer.page import render_page

assert "</html>" in render_page({}, title="", language="en")
library = PromptLibrary()
for name in sys.argv[1:]:
    for language in ("en", "cn"):
        library.load(name, language)

package = Path(jiuwen_memory.__file__).resolve().parent
assert (package / "py.typed").exists()
print(package)
"""


def run(*command: str | Path, cwd: Path) -> str:
    # Nothing that points at this checkout may leak into the new environment.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COV"))}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what a release is made of, with the wheel and the sdist built in `dist`."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("jiuwen_memory", "prompts"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    run(sys.executable, "-m", "build", "--no-isolation", "--wheel", "--sdist", ".", cwd=folder)
    return folder


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """The interpreter of a new virtual environment that borrows the dependencies of this one."""
    venv = tmp_path / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", venv, cwd=tmp_path)
    [site_packages] = venv.glob("lib/python*/site-packages")
    # Read last: what is installed into the new environment comes before what is borrowed.
    (site_packages / "zz_borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return venv / "bin" / "python"


@pytest.mark.parametrize("kind", ["wheel", "sdist", "editable"])
def test_the_prompts_and_the_viewer_are_found(kind: str, checkout: Path, python: Path, tmp_path: Path) -> None:
    [wheel], [sdist] = checkout.glob("dist/*.whl"), checkout.glob("dist/*.tar.gz")
    source = {"wheel": wheel, "sdist": sdist, "editable": checkout}[kind]
    options = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--ignore-installed"]
    editable = ["--editable"] if kind == "editable" else []

    run(sys.executable, "-m", "pip", "--python", python, "install", *options, *editable, source, cwd=tmp_path)
    package = Path(run(python, "-c", PROBE, *PROMPTS, cwd=tmp_path).strip())

    assert PROMPTS
    assert package.is_relative_to(checkout if kind == "editable" else tmp_path)


def test_the_command_of_an_installed_wheel_tells_its_version_and_finds_everything_working(
    checkout: Path, python: Path, tmp_path: Path
) -> None:
    [wheel] = checkout.glob("dist/*.whl")
    options = ["--quiet", "--no-index", "--no-deps", "--ignore-installed"]
    run(sys.executable, "-m", "pip", "--python", python, "install", *options, wheel, cwd=tmp_path)
    command = python.parent / "jiuwen-memory"

    with command_line(tmp_path, backend="milvus") as line:
        version = run(command, "--version", cwd=tmp_path)
        examined = run(command, "--config", line.config, "doctor", cwd=tmp_path)
        added = run(
            command, "--config", line.config, "add", line.write("ann.json", told(0, "Ann")), "--json", cwd=tmp_path
        )

    assert version == f"jiuwen-memory {wheel.name.split('-')[1]}\n"
    assert "memory.db opens" in examined
    assert "failed" not in examined
    assert json.loads(added)["status"] == "added"
