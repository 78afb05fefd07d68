"""The house keeps its order: imports run one way, heavy libraries wait, names do not collide, examples run."""

from __future__ import annotations

import ast
import doctest
import importlib
import json
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import adversary
from adversary.analyst.bounded.quadrature import decorator as analyst_code
from adversary.reader.spine.compiled import decorator as spine_code

ROOT = Path(adversary.__file__).parent
WINGS = (
    ("_distribution", "_numeric", "executors", "runner", "chunks", "compiling"),
    (
        "privacy.wrapped",
        "privacy.sieve",
        "privacy.contour",
        "privacy.composition",
        "privacy.renyi",
        "privacy.conversions",
        "privacy.accounting",
        "privacy.guarantees",
        "privacy.posteriors",
        "privacy.pairs",
        "privacy.lattices",
        "privacy.continuous",
        "privacy.mixed",
        "privacy.families",
        "privacy.losses",
        "privacy.concentrated",
        "privacy.definitions",
        "privacy.grouped",
        "privacy.algebra",
        "privacy.noise",
        "privacy.integers",
        "privacy.mechanisms",
        "privacy.auxiliary",
        "privacy.calibration",
        "privacy.targets",
        "privacy.decisions",
        "privacy.joint",
        "privacy.mixtures",
        "privacy.hypotheses",
        "privacy.frameworks",
        "privacy.hulls",
        "privacy.sensitivities",
        "privacy.cells",
        "privacy.vector_noise",
        "privacy.span_noise",
        "privacy.baselines",
        "privacy.costs",
        "privacy.canonical",
        "privacy.tulap",
        "privacy.odds_ratio",
        "privacy.covers",
        "privacy.adjacency",
        "privacy.spaces",
        "privacy.conforming",
        "privacy.orders",
        "privacy.invariants",
    ),
    (
        "reader.parts",
        "reader.factors",
        "reader.elicited",
        "reader.rounding",
        "reader.intervals",
        "reader.coarsening",
        "reader.weighted",
        "reader.consistency",
        "reader.shares",
        "reader.simplex",
        "reader.postprocessing",
        "reader.releases",
        "reader.releasing",
        "reader.plans",
        "reader.beliefs",
        "reader.learned",
        "reader.rates",
        "reader.each",
        "reader.links",
        "reader.steps",
        "reader.windows",
        "reader.paths",
        "reader.exact_totals",
        "reader.inference",
        "reader.enumeration",
        "reader.worlds",
        "reader.ratios",
        "reader.counterfactual",
        "reader.trees",
        "reader.leaf_priors",
        "reader.spine_inputs",
        "reader.spine_noise",
        "reader.squares",
        "reader.spine_code",
        "reader.spine_layouts",
        "reader.spine_leaves",
        "reader.spine_tilts",
        "reader.spine_rooms",
        "reader.spine_messages",
        "reader.spine_marginals",
        "reader.spine_bystanders",
        "reader.spine_solutions",
        "reader.spine_memberships",
        "reader.spine_posteriors",
        "reader.spine_inference",
        "reader.spine",
        "reader.attacks",
        "reader.truths",
        "reader.cautions",
        "reader.tables",
        "reader.laws",
        "reader.risk",
        "reader.variants",
        "reader.ranges",
        "reader.sensitivity",
        "reader.odds",
        "reader.databases",
        "reader.contingency",
        "reader.table_releases",
        "reader.table_walks",
        "reader.table_laws",
        "reader.table_radii",
        "reader.table_posteriors",
        "reader.conditioned",
    ),
    ("readings", "cases", "modelled", "driver"),
    (
        "policy.phrases",
        "policy.titles",
        "policy.risks",
        "policy.evidence",
        "policy.profiles",
        "policy.tolerances",
        "policy.searches",
        "policy.recommendations",
        "policy.equivalents",
        "policy.forms",
        "policy.promises",
        "policy.verdicts",
        "policy.attained",
        "policy.utility",
        "policy.proposals",
        "policy.budget",
        "policy.allocations",
        "policy.census",
        "policy.limits",
        "policy.regulators",
        "policy.respondents",
        "policy.curators",
        "policy.outcomes",
        "policy.findings",
        "policy.reasons",
        "policy.explain",
    ),
    (
        "analyst.region",
        "analyst.labels",
        "analyst.noisy",
        "analyst.priors",
        "analyst.gammas",
        "analyst.inversion",
        "analyst.mixtures",
        "analyst.shells",
        "analyst.propriety",
        "analyst.compiled",
        "analyst.panels",
        "analyst.levels",
        "analyst.capped",
        "analyst.tabled",
        "analyst.sheets",
        "analyst.kernels",
        "analyst.lines",
        "analyst.layouts",
        "analyst.variances",
        "analyst.means",
        "analyst.quadrature",
        "analyst.marginals",
        "analyst.solutions",
        "analyst.exports",
        "analyst.prior_masses",
        "analyst.predictions",
        "analyst.posteriors",
        "analyst.chains",
        "analyst.gibbs",
        "analyst.records",
        "analyst.populations",
        "analyst.designs",
        "analyst.trials",
        "analyst.study",
        "analyst.bounded",
        "analyst.cirrhosis",
        "analyst.moments",
        "analyst.sums",
        "analyst.slopes",
        "analyst.chords",
        "analyst.sweeps",
        "analyst.regression",
    ),
    (
        "desk.nmf_layout",
        "desk.nmf_sources",
        "desk.nmf_records",
        "desk.nmf_parents",
        "desk.nmf_writing",
        "desk.nmf_population",
        "desk.nmf_recipes",
        "desk.nmf_synthesis",
        "desk.nmf",
        "desk.safe_text",
        "desk.keys",
        "desk.belief_keys",
        "desk.invariant_keys",
        "desk.guarantee_keys",
        "desk.plan_keys",
        "desk.reader_keys",
        "desk.range_keys",
        "desk.profile_keys",
        "desk.scenarios",
        "desk.table_files",
        "desk.words",
        "desk.portraits",
        "desk.sweeps",
        "desk.simulations",
        "desk.drawing",
        "desk.figures",
        "desk.marks",
        "desk.prior_marginals",
        "desk.joint_densities",
        "desk.inferred_words",
        "desk.posterior_figures",
        "desk.coverage_figures",
        "desk.ladders",
        "desk.laws",
        "desk.curves",
        "desk.audited",
        "desk.tornadoes",
        "desk.grids",
        "desk.tables",
        "desk.bounds",
        "desk.exact_promises",
        "desk.exact_words",
        "desk.exact_figures",
        "desk.exact_readers",
        "desk.exact_tables",
        "desk.learned",
        "desk.summaries",
        "desk.diagnostics",
        "desk.capabilities",
        "desk.adjustments",
        "desk.alternatives",
        "desk.repeats",
        "desk.sensitivities",
        "desk.profile_files",
        "desk.profile_verdicts",
        "desk.explained",
        "desk.profile_sections",
        "desk.report",
        "desk.spine_priors",
        "desk.spine_units",
        "desk.spine_runs",
        "desk.spine_results",
        "desk.spine_findings",
        "desk.spine_figures",
        "desk.spine_report",
        "desk.answers",
        "desk.concerns",
        "desk.budget_titles",
        "desk.reader_maps",
        "desk.exhibits",
        "desk.options",
        "desk.release_files",
        "desk.readings",
        "desk.inferred",
        "desk.regression_words",
        "desk.regression_figures",
        "desk.regression_files",
        "desk.regressed",
        "desk.infer_command",
        "desk.invariants_command",
        "desk.nmf_contents",
        "desk.nmf_command",
        "desk.spine_summaries",
        "desk.spine_command",
        "desk.budget_tables",
        "desk.budgets",
        "desk.accuracy_figures",
        "desk.budget_figures",
        "desk.budget_command",
        "desk.explain_command",
        "desk.cli",
    ),
)
"""Section 3 of the design, with the modules that were split off beside the one they came from."""

WINGS_IN_ORDER = (
    ("_numeric",),
    ("_distribution",),
    ("executors",),
    ("runner",),
    ("chunks",),
    ("compiling",),
    ("privacy",),
    ("reader",),
    ("readings",),
    ("cases",),
    ("modelled",),
    ("driver",),
    ("policy", "analyst"),
    ("desk",),
)
WING_ORDER = {name: i for i, names in enumerate(WINGS_IN_ORDER) for name in names}
PLACE = {module: i for wing in WINGS for i, module in enumerate(wing)}
TOGETHER = {
    "compiling": set(),
    "analyst.compiled": {f"analyst.{name}" for name in analyst_code.TOGETHER},
    "reader.spine_code": {f"reader.{name}" for name in spine_code.TOGETHER},
}
"""Modules that make decorators, and the modules whose machine code is kept by one digest."""
COMPILED = {*TOGETHER, *(name for names in TOGETHER.values() for name in names), "analyst.chains"}
"""Modules of compiled functions: they import numba, and are themselves imported inside functions."""
LATE = {"pymc", "pytensor", "arviz", "nutpie", "preliz", "matplotlib", "numba", "dask", "zarr", "typer", "jinja2"}


def sources() -> Iterator[tuple[str, Path]]:
    """Every module of the package but the models, by its name below `adversary`."""
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts[0] != "models" and path.name != "__init__.py":
            yield ".".join(parts), path


MODULES = dict(sources())


def imports(path: Path, *, everywhere: bool = False) -> set[str]:
    """Modules imported at module level (or anywhere), without those for types only."""
    found: set[str] = set()
    stack: list[ast.AST] = [ast.parse(path.read_text())]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module or ""}
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            stack.extend(node.orelse)
        elif everywhere or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            stack.extend(ast.iter_child_nodes(node))
    return found


def inner(path: Path) -> set[str]:
    """Modules of the package that this one imports at module level, by their names below `adversary`."""
    names = {name.removeprefix("adversary.") for name in imports(path) if name.startswith("adversary.")}
    modules = {name for name in names if name in MODULES}
    return modules | {name.split(".")[0] for name in names if name.split(".")[0] == "models"}


def test_every_module_has_a_place() -> None:
    assert set(MODULES) <= set(PLACE), "say in WINGS where a new module stands"


@pytest.mark.parametrize("name", MODULES)
def test_imports_run_one_way(name: str) -> None:
    wing = name.split(".")[0]
    for other in inner(MODULES[name]):
        assert other != "models", f"{name} imports the models at module level"
        their_wing = other.split(".")[0]
        if their_wing == wing and "." in name:
            assert PLACE[other] < PLACE[name], f"{name} imports {other}, which stands after it"
        else:
            assert WING_ORDER[their_wing] < WING_ORDER[wing], f"{name} imports {other} against the direction"


@pytest.mark.parametrize("name", [name for name in MODULES if not name.startswith("desk.")])
def test_heavy_libraries_are_imported_inside_functions(name: str) -> None:
    late = LATE - {"numba"} if name in COMPILED else LATE
    assert not {module.split(".")[0] for module in imports(MODULES[name])} & late


@pytest.mark.parametrize("name", [name for name in MODULES if name not in COMPILED])
def test_compiled_modules_are_imported_inside_functions(name: str) -> None:
    assert not inner(MODULES[name]) & COMPILED


def test_compiled_code_is_kept_by_all_sources_it_calls() -> None:
    for name in COMPILED:
        called = (inner(MODULES[name]) & COMPILED) - set(TOGETHER)
        assert any(called <= names for names in TOGETHER.values()), name


@pytest.mark.parametrize("name", MODULES)
def test_scipy_stats_is_imported_late(name: str) -> None:
    assert not any(module.startswith("scipy.stats") for module in imports(MODULES[name]))


def test_the_top_re_exports_no_figures_reports_or_commands() -> None:
    assert not {"adversary.desk.commands.cli", "adversary.desk.report.audit_page", "adversary.desk.figures.audit_figures"} & imports(ROOT / "__init__.py")


def test_wings_are_only_docstrings() -> None:
    for path in ROOT.rglob("__init__.py"):
        relative = path.relative_to(ROOT)
        if relative.parts[0] != "models" and len(relative.parts) > 1:
            body = ast.parse(path.read_text()).body
            assert all(isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) for node in body), relative


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import json, sys, adversary; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout))
    heavy = (
        "pymc",
        "pytensor",
        "arviz",
        "nutpie",
        "matplotlib",
        "numba",
        "preliz",
        "dask",
        "scipy.stats",
        "typer",
        "jinja2",
    )
    for name in (*heavy, "adversary.models", "adversary.desk.commands.cli", "adversary.desk.report.audit_page", "adversary.desk.figures.audit_figures"):
        assert name not in loaded, name
    assert done.stderr == ""


def test_an_exact_audit_loads_no_model() -> None:
    code = (
        "import sys, adversary as adv\n"
        "plan = adv.Plan([adv.Level('block', adv.DiscreteGaussian.from_rho(0.1))])\n"
        "adv.audit(plan, adv.Adversary(), {'block': 1})\n"
        "assert 'pymc' not in sys.modules and 'adversary.models' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)


def test_no_module_bears_a_name_its_package_re_exports() -> None:
    """`adversary.x` must not be a module here and a function there; a module exported as itself is one thing.

    Nor may a module lower down bear the name of something exported from another one.
    """
    for info in pkgutil.iter_modules([str(ROOT)]):
        exported = getattr(adversary, info.name, None)
        assert exported is None or exported is sys.modules.get(f"adversary.{info.name}"), info.name
    tree = ast.parse((ROOT / "__init__.py").read_text())
    exports = {
        alias.asname or alias.name: node.module
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for name in MODULES:
        last = name.split(".")[-1]
        if last in exports:
            itself = exports[last] == f"adversary.{name}" or f"{exports[last]}.{last}" == f"adversary.{name}"
            assert itself, f"{last} is exported from {exports[last]}"


def test_re_exports_are_explicit() -> None:
    tree = ast.parse((ROOT / "__init__.py").read_text())
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                assert alias.asname == alias.name, alias.name


def test_public_names_of_the_design_are_there() -> None:
    names = (
        "DiscreteGaussian Geometric Laplace Gaussian RandomizedResponse Exact PureDP ApproximateDP ProbabilisticDP "
        "ZeroConcentratedDP GaussianDP NoPrivacy Plan Level Adversary Uniform Point Others load_scenario audit "
        "observed enumerate_posterior census"
    )
    for name in names.split():
        assert hasattr(adversary, name), name


@pytest.mark.parametrize("name", ["", *(name for name in MODULES if not name.startswith("desk.cli"))])
def test_examples_in_docstrings_run(name: str) -> None:
    text = (MODULES[name] if name else ROOT / "__init__.py").read_text()
    if "pm.Model" in text or "import pymc" in text:
        pytest.skip("its examples are PyMC's: tests/models runs them")
    module = importlib.import_module(f"adversary.{name}" if name else "adversary")
    failed, _ = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert failed == 0


FILES = [path for path in sorted(ROOT.rglob("*.py")) if path.name != "__init__.py"]


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_modules_say_what_they_are(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text()))


def test_every_definition_has_a_formula_or_a_sentence() -> None:
    """Public classes and functions of the package are documented; overriding methods are not asked."""
    for name, path in MODULES.items():
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                assert ast.get_docstring(node), f"{name}.{node.name}"
