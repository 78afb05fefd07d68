"""Graphs of every builder of a model, which the reference shows, and the draws in them, all by compiled code.

`python -m tests.models.test_graphs` writes the graphs anew.
"""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("PYTENSOR_FLAGS", "linker=py,cxx=,optimizer_excluding=fusion")

import pymc as pm
import pytest
from pytensor.graph.op import HasInnerGraph
from pytensor.graph.traversal import ancestors
from pytensor.link.numba.dispatch.random import numba_core_rv_funcify
from pytensor.tensor.random.op import RandomVariable

import adversary as adv
from adversary import models
from adversary.adversaries.tables import Query
from adversary.bounded.regression import RegressionRelease
from adversary.census.spine import Tree

PAGE = Path(__file__).parents[2] / "notebooks/reference/model_graphs.md"
START = "## Graphs"
NOISE = adv.DiscreteGaussian(2.0)
PLAN = adv.Plan([adv.Level("block", NOISE, siblings=27), adv.Level("group", NOISE)])
BOUNDED = adv.bounded.BoundedRelease(mean=34.3, variance=2224.8, n=43, epsilon=(0.25, 0.25), bounds=(0, 100))

SUMS = RegressionRelease([1.5, 1.1, 1.5, 1.0, 1.1], [1.5, 1.1, 0.9, 0.7], n=3, epsilon=1.0)
TREE = Tree.of({"group": None, "a": "group", "b": "group"})

BUILDERS: dict[str, Callable[[], pm.Model]] = {
    "membership": lambda: models.membership(adv.Plan([adv.Level("block", NOISE)]), adv.Adversary()),
    "hierarchical_counts": lambda: models.hierarchical_counts(PLAN, adv.Adversary(beliefs={"group": adv.Uniform(10)})),
    "actual_world": lambda: models.actual_world(1.0, [0.7, 0.3], NOISE, [0, 1]),
    "counterfactual_world": lambda: models.counterfactual_world(1.0, [0.7, 0.3], NOISE, [0, 1]),
    "invariants": lambda: models.invariants(([2, 1], [2, 1]), NOISE, target=(0, 0)),
    "noisy_histograms": lambda: models.noisy_histograms(
        TREE, [Query("sex", ((0, 1),))], {"sex": 2.0}, target="a", present=0
    ),
    "bounded": lambda: models.bounded(BOUNDED),
    "regression": lambda: models.regression(SUMS),
}
FURTHER: dict[str, Callable[[], pm.Model]] = {
    "invariants, uneven": lambda: models.invariants(([2, 1], [2, 1]), NOISE, [[0.4, 0.1], [0.1, 0.4]]),
    "noisy_histograms, exact sums": lambda: models.noisy_histograms(
        TREE, [Query("sex", ((0, 1),))], {"sex": [0.0, 2.0, 2.0]}
    ),
    "bounded, joint": lambda: models.bounded(BOUNDED, form="joint"),
    "bounded, informative": lambda: models.bounded(BOUNDED, adv.bounded.NormalInverseGamma(12.5, 1.0, 1.0, 3.8)),
    "regression, tight": lambda: models.regression(SUMS, region="tight"),
    "regression, unconstrained": lambda: models.regression(SUMS, constrained=False),
}
"""Other laws of the same builders."""


def graph(model: pm.Model) -> str:
    """In the language of Mermaid, whose names have no brackets; edges and plates in an order of their own."""
    text = re.sub(r"(\w+)\[([^\]\n(~]*)\]", r"\1_\2", pm.model_to_mermaid(model))
    nodes, edges, plates = re.split(r"%% Edges:|%% Plates:", text)
    blocks = [block.split("\n") for block in re.findall(r"subgraph.*?\nend", plates, flags=re.DOTALL)]
    parts = [nodes.strip(), "", *sorted(edges.strip().split("\n"))]
    return "\n".join([*parts, *("\n".join([one[0], *sorted(one[1:-1]), one[-1]]) for one in sorted(blocks))])


def section() -> str:
    """Graphs of all builders."""
    parts = (f"### {name}\n\n```mermaid\n{graph(build()).strip()}\n```\n" for name, build in BUILDERS.items())
    return f"{START}\n\nEvery model with its release left free.\n\n" + "\n".join(parts)


def test_the_reference_has_the_graph_of_every_builder() -> None:
    assert PAGE.read_text(encoding="utf-8").endswith(section())
    exported = {name: getattr(getattr(models, name), "__annotations__", {}) for name in models.__all__}
    assert {name for name, told in exported.items() if told.get("return") == "pm.Model"} == set(BUILDERS)


def operations(variables: Any) -> Iterator[Any]:
    """All operations that variables are computed with, those inside of others included."""
    for variable in ancestors(variables):
        if variable.owner is not None:
            yield variable.owner.op
            if isinstance(variable.owner.op, HasInnerGraph):
                yield from operations(variable.owner.op.inner_outputs)


def drawn_in_python(model: pm.Model) -> set[str]:
    """Laws for which Numba mode, PyTensor's default, would warn that it falls back to Python."""
    python = numba_core_rv_funcify.dispatch(object)
    laws = (op for op in operations(model.basic_RVs) if isinstance(op, RandomVariable))
    return {law.name for law in laws if numba_core_rv_funcify.dispatch(type(law)) is python}


@pytest.mark.parametrize("name", BUILDERS | FURTHER)
def test_every_law_of_every_builder_is_drawn_by_compiled_code(name: str) -> None:
    assert not drawn_in_python((BUILDERS | FURTHER)[name]())


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8").partition(START)[0]
    PAGE.write_text(f"{text.rstrip()}\n\n{section()}", encoding="utf-8")
