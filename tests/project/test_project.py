"""Checks of the project files: lock, layer contract, pages and lists of public names."""

import doctest
import importlib
import re
import tomllib
from pathlib import Path

import pytest

from thinwire.cli.main import EXTRAS as RECOMMENDED

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "thinwire"
LAB = ROOT / "lab" / "src" / "thinwire_lab"
TABLES = sorted(path for root in (PACKAGE, LAB) for path in root.glob("**/__init__.py"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CORE, EXTRAS = PROJECT["project"]["dependencies"], PROJECT["project"]["optional-dependencies"]
DEV = PROJECT["dependency-groups"]["dev"]
LAB_DEPENDENCIES = tomllib.loads((ROOT / "lab" / "pyproject.toml").read_text())["project"]["dependencies"]
LAYERS, PURE, *_ = PROJECT["tool"]["importlinter"]["contracts"]
PURE_FROM = "codec"
PAGES = [ROOT / "README.md", *sorted(path for docs in ("docs", "lab/docs") for path in (ROOT / docs).glob("**/*.md"))]


def top_level_names():
    """Packages and modules directly inside `thinwire`."""
    packages = (path.parent.name for path in PACKAGE.glob("*/__init__.py"))
    modules = (path.stem for path in PACKAGE.glob("*.py") if path.stem not in {"__init__", "__main__"})
    return sorted({*packages, *modules})


def layers():
    """The packages of each layer of the contract, highest layer first."""
    return [re.findall(r"\w+", line) for line in LAYERS["layers"] if "__main__" not in line]


def names(*groups):
    return {re.match(r"[\w.-]+", line).group() for group in groups for line in group}


def requirements():
    return sorted(names(CORE, *EXTRAS.values(), DEV, LAB_DEPENDENCIES) - {"thinwire"})


def python_blocks():
    for page in PAGES:
        text = page.read_text()
        for block in re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            line = text.count("\n", 0, block.start()) + 2
            yield pytest.param(page, line, block[1], id=f"{page.relative_to(ROOT)}:{line}")


def test_the_lock_names_no_host():
    lock = (ROOT / "requirements.lock").read_text()
    pins = [
        line for line in lock.splitlines() if not re.fullmatch(r"(\s*# .*|\s+--hash=sha256:[0-9a-f]{64}( \\)?|)", line)
    ]
    assert pins
    assert not [line for line in pins if not re.match(r"[a-z0-9-]+==[\w.]+( ; [^/]+)? \\$", line)]
    assert "://" not in lock
    assert "index" not in lock


def test_every_pin_has_a_hash():
    lock = (ROOT / "requirements.lock").read_text()
    assert all("--hash=sha256:" in pin for pin in re.split(r"^(?=\w)", lock, flags=re.MULTILINE) if "==" in pin)


def test_the_lock_covers_what_set_up_needs():
    locked = set(re.findall(r"^([\w.-]+)==", (ROOT / "requirements.lock").read_text(), re.MULTILINE))
    assert names(CORE, EXTRAS["nats"], EXTRAS["spark"], DEV, LAB_DEPENDENCIES) - {"thinwire"} <= locked


@pytest.mark.parametrize("name", requirements())
def test_every_dependency_has_its_reason(name):
    lines = (ROOT / "docs" / "dependencies.md").read_text().splitlines()
    assert sum(line.startswith(f"| {name} |") for line in lines) == 1


def test_every_reason_has_its_dependency():
    page = (ROOT / "docs" / "dependencies.md").read_text()
    assert set(re.findall(r"^\| ([\w.-]+) \|", page, re.MULTILINE)) - {"package"} == set(requirements())


def test_every_extra_can_be_recommended():
    assert set(RECOMMENDED.values()) == set(EXTRAS) - {"all"}


@pytest.mark.parametrize("package", top_level_names())
def test_every_package_has_a_layer(package):
    assert package in {name for layer in layers() for name in layer}


def test_every_pure_package_is_under_the_contract_of_pure_packages():
    depth = next(index for index, layer in enumerate(layers()) if PURE_FROM in layer)
    pure = {PURE_FROM, *(name for layer in layers()[depth + 1 :] for name in layer)}
    assert [
        name for name in top_level_names() if name in pure and f"thinwire.{name}" not in PURE["source_modules"]
    ] == []


@pytest.mark.parametrize("module", TABLES, ids=lambda path: path.parent.name)
def test_listed_names_exist(module):
    root = LAB if module.is_relative_to(LAB) else PACKAGE
    name = ".".join(module.parent.relative_to(root.parent).parts)
    package = importlib.import_module(name)
    contents = getattr(package, "__all__", [])
    assert len(set(contents)) == len(contents)
    assert [entry for entry in contents if not hasattr(package, entry)] == []
    assert package.__doc__, "the package has no docstring"


@pytest.mark.parametrize(("page", "line", "code"), list(python_blocks()))
def test_examples_in_pages_run(page, line, code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if code.lstrip().startswith(">>>"):
        example = doctest.DocTestParser().get_doctest(code, {}, page.name, str(page), line - 1)
        assert doctest.DocTestRunner().run(example).failed == 0
        return
    # Blank lines in front make a traceback point at the line of the page.
    exec(compile("\n" * (line - 1) + code, str(page), "exec"), {"__name__": "__page__"})


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"], ids=lambda page: page.name)
def test_links_between_pages_have_targets(page):
    targets = re.findall(r"\]\((?!\w+:)([^)#]+)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_named_files_of_the_repository_exist(page):
    paths = re.findall(r"`((?:tests|lab|src|docs|tools)/[\w./-]+)`", page.read_text())
    assert [path for path in paths if not any((base / path).exists() for base in (ROOT, ROOT / "lab"))] == []
