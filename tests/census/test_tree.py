"""Trees of units: any order in, breadth first out, and every way in which units make no tree is named."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adversary.census.spine.tree import Tree

PARENTS = {"b3": "g2", "g1": "t", "b1": "g1", "t": None, "g2": "t", "b2": "g1", "g3": "t"}


@given(st.permutations(sorted(PARENTS)))
def test_children_are_contiguous_whatever_the_order(names):
    tree = Tree.of({name: PARENTS[name] for name in names}, ("tract", "group", "block"))
    assert (np.diff(tree.parent) >= 0).all()
    for v, name in enumerate(tree.names):
        first = tree.first_child[v]
        children = tree.names[first : first + tree.children[v]].tolist()
        assert children == [n for n in names if PARENTS[n] == name]
    assert tree.depth.tolist() == [0, 1, 1, 1, 2, 2, 2]
    assert set(tree.names[tree.leaves]) == {"b1", "b2", "b3", "g3"}
    assert tree.names[tree.level == 1].tolist() == [n for n in names if n.startswith("g")]


def test_units_are_found_by_name():
    tree = Tree.of(PARENTS)
    assert tree.index(["b1", "t"]).tolist() == [tree.names.tolist().index("b1"), 0]
    with pytest.raises(ValueError, match="no unit 'x'"):
        tree.index("x")


def test_subtrees_and_what_is_above_them():
    tree = Tree.of(PARENTS, ("tract", "group", "block"))
    part = tree.subtree("g1")
    assert part.names.tolist() == tree.names[tree.below("g1")].tolist()
    assert set(part.names) == {"g1", "b1", "b2"}
    assert part.parent.tolist() == [-1, 0, 0]
    assert repr(part) == "Tree(1 group, 2 blocks)"
    assert tree.above(1).names.tolist() == tree.names[:4].tolist()
    assert len(tree.subtree("g3")) == 1


def test_two_columns_are_as_good_as_a_mapping():
    names = np.array([*PARENTS])
    parents = np.array([parent or "" for parent in PARENTS.values()])
    assert Tree.of((names, parents)).names.tolist() == Tree.of(PARENTS).names.tolist()


@pytest.mark.parametrize(
    ("parents", "words"),
    [
        ({}, "at least one unit"),
        ({"a": None, "b": None}, "one root, got 2: 'a', 'b'"),
        ({"a": None, "b": "c"}, "unit 'b' has parent 'c', which is not listed"),
        ({"a": None, "b": "c", "c": "b"}, "unit 'b' hangs on no root"),
        ((["a", "b", "b"], [None, "a", "a"]), "unit 'b' is listed twice"),
        ((["a", "b"], [None]), "2 units and 1 parents"),
    ],
)
def test_what_is_no_tree_is_refused(parents, words):
    with pytest.raises(ValueError, match=words):
        Tree.of(parents)


def test_levels_must_be_as_many_as_the_tree_has():
    with pytest.raises(ValueError, match="the tree has 3 levels, got names for 2"):
        Tree.of(PARENTS, ("tract", "block"))
