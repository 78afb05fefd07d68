"""The house keeps its order: imports run one way between rooms, in no circle; heavy libraries wait; examples run.

The order of the rooms is the only register. A name taken from a room's front door counts as an import of the file it is
in; late and type-only imports count as well.
"""

from __future__ import annotations

import ast
import doctest
import importlib
import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest

import adversary

ROOT = Path(adversary.__file__).parents[1]
ROOMS = (
    "_core",
    "privacy.profiles",
    "privacy.guarantee",
    "privacy.losses.contour",
    "privacy.losses",
    "privacy.definitions",
    "privacy.mechanisms",
    "privacy.privacy_unit",
    "privacy.decisions",
    "privacy.invariants",
    "adversaries.beliefs",
    "adversaries.postprocessing",
    "adversaries.plans",
    "adversaries.path",
    "adversaries.risk",
    "adversaries.counterfactual",
    "adversaries.tables",
    "adversaries.known_totals",
    "models.noise",
    "models.stories",
    "models.published",
    "models.enumeration",
    "models.importance",
    "models.fitting",
    "models.calibration",
    "driver",
    "budget",
    "report.words",
    "report.files",
    "report.kit",
    "report.plot",
    "report.sections",
    "report.answers",
    "report.commands",
    "literature",
    "releases",
    "releases.report",
    "census.spine.compiled",
    "census.spine",
    "census.histograms.compiled",
    "census.histograms",
    "models.histograms",
    "census",
    "census.data_products",
    "census.nmf",
    "census.nmf.synthetic",
    "census.nmf.runs",
    "census.report",
    "bounded.grid",
    "bounded",
    "bounded.thesis",
    "bounded.regression",
    "models.summaries.compiled",
    "models.summaries",
    "bounded.report",
    "__main__",
)
"""Imports run from later rooms to earlier ones."""

ANNEXES = {
    "bounded": ("adversary.bounded", "adversary.models.summaries"),
    "census": ("adversary.census", "adversary.models.histograms"),
    "literature": ("adversary.literature",),
    "releases": ("adversary.releases",),
}
"""Packages that stand apart: they import the core; nothing of the core, and no other annex, imports them."""

REGISTERS = {
    "adversary",
    "adversary.models",
    "adversary.report.commands.cli",
    "adversary.report.files.kinds",
    "adversary.report.plot",
}
"""Modules in which annexes enter their public names, commands and kinds of files."""

COMPILED = (
    "census.spine.compiled",
    "census.histograms.compiled",
    "models.summaries.compiled",
)
"""Rooms of compiled functions: they import numba, and are themselves imported inside functions."""

HEAVY = {"pymc", "pytensor", "arviz", "nutpie", "preliz", "matplotlib", "numba", "dask", "zarr", "pyarrow", "jinja2"}


def _modules() -> Iterator[tuple[str, Path]]:
    for path in sorted([*(ROOT / "adversary").rglob("*.py"), *(ROOT / "models").rglob("*.py")]):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts[:2] != ("adversary", "models"):
            name = ".".join(("adversary", *parts) if parts[0] == "models" else parts)
            yield name.removesuffix(".__init__"), path


PATHS = dict(_modules())
DOORS = sorted(name for name, path in PATHS.items() if path.name == "__init__.py")
FILES = sorted(set(PATHS) - set(DOORS))
LIGHT = [name for name in FILES if not name.startswith(("adversary.models.", "adversary.literature.exact_gibbs"))]
"""Files outside PyMC's world: the models, and a step method of PyMC's samplers."""


@cache
def parsed(name: str) -> ast.Module:
    """The source of a module."""
    return ast.parse(PATHS[name].read_text())


@cache
def attributes(name: str) -> frozenset[str]:
    """Every attribute that the code of a module reads, with what it is an attribute of."""
    return frozenset(ast.unparse(node) for node in ast.walk(parsed(name)) if isinstance(node, ast.Attribute))


def room_of(name: str) -> str:
    """The innermost room of a module."""
    parts = name.split(".")[1:]
    return next((room for n in range(len(parts), 0, -1) if (room := ".".join(parts[:n])) in ROOMS), "")


def _absolute(node: ast.ImportFrom, name: str) -> str:
    package = name.split(".") if name in DOORS else name.split(".")[:-1]
    base = package[: len(package) - node.level + 1] if node.level else []
    return ".".join([*base, *filter(None, [node.module])])


@cache
def door(name: str) -> dict[str, tuple[str, str]]:
    """What a front door hands out: name to the module it comes from and its name there."""
    tree = ast.parse(PATHS[name].with_suffix(".pyi").read_text())
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    return {alias.asname or alias.name: (_absolute(node, name), alias.name) for node in imports for alias in node.names}


def source(module: str, name: str) -> str:
    """The module of a name, through all the front doors between."""
    while f"{module}.{name}" not in PATHS and module in DOORS and name in door(module):
        if (module, name) == door(module)[name]:
            raise AssertionError(f"the front door of {module} hands out {name}, which is not there")
        module, name = door(module)[name]
    return f"{module}.{name}" if f"{module}.{name}" in PATHS else module


@cache
def imports(name: str, *, late: bool = True) -> frozenset[str]:
    """Modules that one imports, ours and others': at its top or, with `late`, anywhere and for types only too."""
    found: set[str] = set()
    stack: list[ast.AST] = [parsed(name)]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = _absolute(node, name)
            found |= {source(module, alias.name) if module in PATHS else module for alias in node.names}
        elif not late and isinstance(node, ast.FunctionDef | ast.Lambda):
            continue
        elif not late and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            stack.extend(node.orelse)
        else:
            stack.extend(ast.iter_child_nodes(node))
    return frozenset(found - {name})


def test_imports_run_from_later_rooms_to_earlier_ones() -> None:
    assert [name for name in FILES if not room_of(name)] == []  # say in ROOMS where it stands
    place = {name: ROOMS.index(room_of(name)) for name in FILES}
    pairs = [(name, other) for name in FILES for other in imports(name) & set(FILES)]
    assert [f"{name} imports {other}" for name, other in pairs if place[other] > place[name]] == []


def annex_of(name: str) -> str | None:
    """The annex of a module."""
    inside = (annex for annex, places in ANNEXES.items() if f"{name}.".startswith(tuple(f"{one}." for one in places)))
    return next(inside, None)


def public_names(annex: str, package: str = "adversary") -> set[str]:
    """What a package hands out of an annex."""
    return {name for name, (module, _) in door(package).items() if annex_of(source(module, name)) == annex}


@pytest.mark.parametrize("annex", ANNEXES)
def test_nothing_outside_an_annex_uses_it(annex: str) -> None:
    """Imports, front doors, names in strings, and attributes of the package (`adv.spine`) in code of the core."""
    own = {f"{package}.{name}" for name in public_names(annex) for package in ("adv", "adversary")}
    uses = []
    for name in sorted(set(PATHS) - REGISTERS):
        if annex_of(name) == annex:
            continue
        if name in DOORS:
            uses += [f"{name} hands out {one}" for one, (module, _) in door(name).items() if annex_of(module) == annex]
        uses += [f"{name} imports {other}" for other in imports(name) if annex_of(other) == annex]
        uses += [f"{name} uses {one}" for one in attributes(name) & own]
    assert not uses


def test_no_imports_go_in_circles() -> None:
    state: dict[str, bool] = {}

    def visit(name: str, way: tuple[str, ...]) -> None:
        assert state.get(name) is not False, f"a circle: {' -> '.join((*way[way.index(name) :], name))}"
        if name not in state:
            state[name] = False
            for other in sorted(imports(name) & set(FILES)):
                visit(other, (*way, name))
            state[name] = True

    for name in FILES:
        visit(name, ())


def test_heavy_libraries_are_imported_inside_functions() -> None:
    early = []
    for name in [name for name in LIGHT if "report" not in room_of(name)]:
        late = HEAVY - ({"numba"} if room_of(name) in COMPILED or name.endswith((".compiling", ".chains")) else set())
        taken = {module.split(".")[0] for module in imports(name, late=False)} & late
        early += [f"{name} imports {one}" for one in taken]
    assert early == []


def test_scipy_stats_and_models_are_imported_late() -> None:
    early = []
    for name in LIGHT:
        for one in imports(name, late=False):
            compiled = one in FILES and room_of(one) in COMPILED and room_of(name) not in COMPILED
            if compiled or one.startswith(("scipy.stats", "adversary.models")):
                early.append(f"{name} imports {one}")
    assert early == []


def test_the_default_failure_probability_stands_in_one_place() -> None:
    """Of every argument, option and key of a file called `failure`, but for the 0 of what holds for certain."""
    literals = []
    for name in FILES:
        for node in ast.walk(parsed(name)):
            if isinstance(node, ast.FunctionDef):
                every = [*node.args.posonlyargs, *node.args.args]
                given = [None] * (len(every) - len(node.args.defaults)) + node.args.defaults
                pairs = [
                    *zip(every, given, strict=True),
                    *zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True),
                ]
                defaults = [default for arg, default in pairs if arg.arg == "failure"]
            elif isinstance(node, ast.Dict):
                keys = [ast.unparse(key) if key else "" for key in node.keys]
                defaults = [
                    value.args[2]
                    for key, value in zip(keys, node.values, strict=True)
                    if key == "'failure'" and isinstance(value, ast.Call) and len(value.args) > 2
                ]
            else:
                continue
            found = [one.value for one in defaults if isinstance(one, ast.Constant)]
            literals += [f"{name}: {value}" for value in found if value not in (None, 0.0)]
    assert not literals


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import json, sys, adversary; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout))
    assert not loaded & {*HEAVY, "numpy", "scipy", "xarray", "adversary.models", "adversary.report"}
    assert done.stderr == ""


def test_an_exact_audit_loads_no_model() -> None:
    code = (
        "import sys, adversary as adv\n"
        "plan = adv.Plan([adv.Level('block', adv.DiscreteGaussian.from_rho(0.1))])\n"
        "adv.audit(plan, adv.Adversary(), {'block': 1})\n"
        "late = {'pymc', 'adversary.models.stories', 'scipy.optimize', 'scipy.stats', 'matplotlib'}\n"
        "assert not late & {*sys.modules}, late & {*sys.modules}"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)


def test_the_program_leaves_dask_out_until_workers_need_it() -> None:
    code = (
        "import sys\n"
        "from adversary._core.workers import import_distributed\n"
        "from adversary.report.commands.cli import main\n"
        f"sys.argv = ['adversary', 'audit', '{ROOT}/data/granville_1940.toml', '--quiet']\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "assert not [name for name in sys.modules if name.startswith('dask.')]\n"
        "assert import_distributed().Client"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)


def test_a_front_door_says_what_the_room_is_and_hands_out_what_it_lists() -> None:
    packages = {name: importlib.import_module(name) for name in DOORS}
    assert [name for name, package in packages.items() if not package.__doc__] == []
    assert {name: sorted(package.__all__) for name, package in packages.items()} == {
        name: sorted(door(name)) for name in DOORS
    }
    every = [(package, exported) for package in packages.values() for exported in package.__all__]
    assert [f"{package}.{exported}" for package, exported in every if getattr(package, exported) is None] == []


def test_every_file_beside_the_code_is_packaged() -> None:
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["*"]
    for top in (ROOT / "adversary", ROOT / "models"):
        for path in top.rglob("*"):
            made = path.suffix in (".pyc", ".nbi", ".nbc", ".cache")
            if path.is_file() and path.suffix != ".py" and not made and not path.is_symlink():
                package = next(folder for folder in path.parents if (folder / "__init__.py").exists())
                assert any(fnmatch(str(path.relative_to(package)), pattern) for pattern in data), path


def test_no_module_bears_the_name_of_what_a_door_hands_out() -> None:
    """`room.x` must not be a module and a function: which of them it is would depend on what was imported before."""
    for name in DOORS:
        for exported, (module, _) in door(name).items():
            assert f"{name}.{exported}" not in PATHS or module == name, f"{name}.{exported}"


@pytest.mark.slow_cases(
    "adversary.bounded.thesis.statistics_gibbs",
    "adversary.census.histograms.histogram_sampler",
    "adversary.census.spine",
)
@pytest.mark.parametrize("name", [name for name, path in PATHS.items() if ">>>" in path.read_text()])
def test_examples_in_docstrings_run(name: str) -> None:
    failed, _ = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert failed == 0


def test_modules_and_what_they_define_say_what_they_are() -> None:
    silent = []
    for name in FILES:
        tree = parsed(name)
        public = [one for one in tree.body if isinstance(one, ast.FunctionDef | ast.ClassDef) and one.name[0] != "_"]
        silent += [name] * (not ast.get_docstring(tree))
        silent += [f"{name}.{one.name}" for one in public if not ast.get_docstring(one)]
    assert silent == []


@pytest.mark.thorough
@pytest.mark.parametrize("annex", ANNEXES)
def test_the_core_answers_without_an_annex(annex: str) -> None:
    from tests.without_annex import check

    assert check(annex) == ""
