"""The reference shows the graph of every builder of a model: `python -m tests.models.test_graphs` writes them anew."""

import os
import re
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("PYTENSOR_FLAGS", "linker=py,cxx=,optimizer_excluding=fusion")

import pymc as pm

import adversary as adv
from adversary import models
from adversary.analyst.regression import RegressionRelease
from adversary.reader.queries import Query
from adversary.reader.spine import Tree

PAGE = Path(__file__).parents[2] / "notebooks/api/models.md"
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


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8").partition(START)[0]
    PAGE.write_text(f"{text.rstrip()}\n\n{section()}", encoding="utf-8")
