"""The grammar of the TOML files the commands read, as strategies: files that could be meant, and mistaken ones."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.tables import DATA

FEW_DRAWS = {"posterior": {"draws": 8}}
Case = tuple[str, str]
"""What is done with a file (a kind of COMMANDS), and its text."""

ODD = st.one_of(
    st.sampled_from(
        [0, -1, 1, 2, 3, 59, 1000, 10**7, 2**53 + 1, 10**400, -(10**30), 0.0, -0.5, 0.5, 1.0, 1e-9, 1e-300, 1e9, 1e300]
    ),
    st.sampled_from([float("nan"), float("inf"), float("-inf"), True, False, "", "1/0", "1/3", "9" * 400, "uniform"]),
    st.sampled_from(["1/2 * 3/4", "exact", "\u202e", "[bold]", "a.b", [], {}, [0], [1, 2], [[1, 2], [3, 4]], [[]]]),
    st.sampled_from([[0.5, 0.5], ["1/2"], [{}], {"a": 1}, {"upper": 3}, {"total": 2}, {"each": "uniform"}]),
    st.integers(-5, 400),
    st.floats(allow_nan=True, width=64),
)
"""Values that could stand anywhere, and hardly fit."""

COUNTS = st.one_of(st.integers(0, 6), st.integers(0, 60))
SHARES = st.one_of(
    st.sampled_from(["1/2", "1/864", 0, 1, 0.1, 1e-300, 1e-9, 1 - 1e-16, "1/1000000000000"]), st.floats(0, 1)
)
POSITIVE = st.one_of(
    st.sampled_from(["1/10", "64/25 * 165/4099", 0.2, 0.5, 1, 2, 3.5]),
    st.floats(0.05, 5.0),
    st.sampled_from([1e-10, 1e-9, 1e-6, 1e-3, 20, 300, 1e5, 1e9]),
)
NAMES = st.sampled_from(["block", "tract", "block group", "a", "state", "\u00e9", "x/y", "in 2020"])


def optional(**keys: Any) -> Any:
    """Tables with any of these keys."""
    return st.fixed_dictionaries({}, optional=keys)


def table(required: Mapping[str, Any] = {}, **keys: Any) -> Any:
    """Tables with these keys, and any of the others."""
    return st.fixed_dictionaries(dict(required), optional=keys)


NOISES = st.one_of(
    *(
        table({key: POSITIVE}, **({} if noise is None else {"noise": st.just(noise)}))
        for noise, key in [(None, "rho"), (None, "sigma"), ("gaussian", "rho"), ("gaussian", "sigma")]
    ),
    *(
        st.fixed_dictionaries({"noise": st.just(noise), key: POSITIVE})
        for noise, key in [("geometric", "epsilon"), ("laplace", "epsilon"), ("laplace", "scale")]
    ),
    table({"noise": st.just("randomized response"), "epsilon": POSITIVE}, categories=st.integers(1, 70)),
    st.fixed_dictionaries({"noise": st.just("random rounding"), "base": st.integers(0, 70)}),
    st.just({"noise": "exact"}),
)
PROCESSING = optional(
    clamp=st.one_of(st.integers(-3, 3), st.sampled_from([[0, 5], [0, 60], [0, 10**6]])),
    round=st.integers(1, 10),
    suppress=st.integers(-3, 12),
    sensitivity=st.sampled_from([1, 2, 3]),
    releases=st.one_of(st.integers(1, 4), st.integers(1, 4), st.sampled_from([60, 1000, 1001, 10**7])),
    queries=st.dictionaries(st.sampled_from(["total", "by sex"]), NOISES, max_size=2),
)

UNITS = optional(
    name=st.sampled_from(["household", "device-day", ""]),
    contribution=st.one_of(st.sampled_from([1, 2, 30]), POSITIVE),
    cells=st.sampled_from([0, 1, 1, 3, 10]),
    neighbours=st.sampled_from(["unbounded", "bounded"]),
    periods=st.sampled_from([0, 1, 1, 2, 365]),
)

POISSON = st.fixed_dictionaries({"law": st.just("poisson"), "mu": st.one_of(st.floats(0, 40), POSITIVE)})
LAWS = st.one_of(
    POISSON,
    st.fixed_dictionaries({"law": st.just("binom"), "n": COUNTS, "p": SHARES}),
    st.fixed_dictionaries({"law": st.just("nbinom"), "n": POSITIVE, "p": SHARES}),
    st.fixed_dictionaries({"law": st.just("geom"), "p": SHARES}),
    st.fixed_dictionaries({"law": st.just("randint"), "low": COUNTS, "high": COUNTS}),
    st.fixed_dictionaries({"law": st.just("betabinom"), "n": COUNTS, "a": POSITIVE, "b": POSITIVE}),
    st.fixed_dictionaries({"law": st.just("zipf"), "a": POSITIVE}),
    st.fixed_dictionaries({"law": st.just("logser"), "p": SHARES}),
)
PMFS = st.sampled_from([[0.5, 0.5], [0.25, 0.25, 0.5], [1.0], [0.0, 1.0], [0.5, 0.3, 0.2]])
EACH = st.fixed_dictionaries({"each": st.one_of(st.just("uniform"), PMFS, LAWS)})
BELIEFS = st.one_of(
    st.just("uniform"),
    st.fixed_dictionaries({"upper": COUNTS}),
    st.fixed_dictionaries({"total": COUNTS}),
    st.fixed_dictionaries({"known": COUNTS}),
    st.fixed_dictionaries({"probabilities": PMFS}),
    LAWS,
    st.fixed_dictionaries({"law": st.just("gamma poisson"), "shape": POSITIVE, "rate": POSITIVE}),
    st.fixed_dictionaries({"law": st.just("beta binomial"), "n": COUNTS, "alpha": POSITIVE, "beta": POSITIVE}),
    EACH,
)
FRACTIONS = st.fixed_dictionaries({"epsilon": POSITIVE, "delta": SHARES})
GUARANTEES = st.fixed_dictionaries(
    {},
    optional={
        "zCDP": st.one_of(st.just("sum of levels"), POSITIVE),
        "pure DP": POSITIVE,
        "approximate DP": FRACTIONS,
        "probabilistic DP": FRACTIONS,
        "Gaussian DP": POSITIVE,
    },
).filter(bool)
WHOM = st.one_of(SHARES, st.sampled_from([[0.1, 1], ["1/20", 1], [0, 1], [0.2, 0.1]]))
RATIOS = st.one_of(st.sampled_from([1.2, 2, 5, "6/5", 1, 1e9]), st.floats(1.0, 10.0))
SIMPLE_PROFILES = st.one_of(
    table({"kind": st.just("ratio or absolute"), "ratio": RATIOS, "absolute": SHARES}, inclusion=WHOM, value=WHOM),
    table({"kind": st.just("constant"), "ratio": RATIOS}, inclusion=WHOM, value=WHOM),
    table({"kind": st.just("difference"), "by": SHARES}, inclusion=WHOM, value=WHOM),
    st.fixed_dictionaries({"kind": st.just("box"), "ratio": RATIOS, "inclusion": WHOM, "value": WHOM}),
    st.fixed_dictionaries({"kind": st.just("point"), "ratio": RATIOS, "inclusion": SHARES, "value": SHARES}),
)
PROFILES = st.one_of(
    SIMPLE_PROFILES,
    st.fixed_dictionaries({"kind": st.just("minimum"), "of": st.lists(SIMPLE_PROFILES, min_size=1, max_size=3)}),
)


@st.composite
def scenarios(draw: Any) -> dict[str, Any]:
    """Scenario files of one to three levels whose counts could be true."""
    names = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
    cells = draw(st.sampled_from([1, 1, 1, 2]))
    levels: list[dict[str, Any]] = []
    for name in names:
        level = {"name": name, **draw(NOISES)}
        if draw(st.integers(0, 3)) == 0:
            level |= draw(PROCESSING)
        levels.append(level)
    for level in levels[:-1]:
        level["siblings"] = draw(st.integers(0, 5))
    truth, counts = {}, [0] * cells
    for level, below in zip(levels, [None, *levels[:-1]], strict=True):
        grow = below is None or below["siblings"]
        counts = [count + (draw(COUNTS) if grow else 0) for count in counts]
        truth[level["name"]] = counts if cells > 1 or draw(st.booleans()) else counts[0]
    present = draw(st.integers(0, 1))
    first = truth[names[0]]
    first = first if isinstance(first, list) else [first]
    document: dict[str, Any] = {"neighbours": draw(st.sampled_from(["unbounded", "bounded"]))}
    document["plan"] = {"cells": cells, "level": levels}
    if draw(st.integers(0, 3)) == 0:
        document["privacy_unit"] = draw(UNITS)
        if draw(st.booleans()):
            del document["neighbours"]
    if cells == 1 and len(names) == 2 and draw(st.integers(0, 5)) == 0:
        document["plan"]["postprocessing"] = draw(
            table({"kind": st.sampled_from(["least squares", "nonnegative"])}, rounding=st.just("half_up"))
        )

    def reader() -> dict[str, Any]:
        known = [max(0, count - (present if cell == 0 else not present)) for cell, count in enumerate(first)]
        one: dict[str, Any] = {"prior": draw(SHARES), "known": known if cells > 1 else known[0]}
        beliefs = {
            name: draw(EACH if below.keys() & {"clamp", "round"} and draw(st.integers(0, 3)) else BELIEFS)
            for name, below in zip(names, [{"siblings": 1}, *levels], strict=False)
            if below["siblings"] and (name != names[0] or draw(st.integers(0, 5)) == 0)
        }
        if beliefs:
            one["beliefs"] = beliefs
        if cells == 1 and draw(st.integers(0, 5)) == 0:
            one["sampling_rate"] = draw(SHARES)
        if draw(st.integers(0, 5)) == 0:
            attacks = ["characteristics", "participation", "misreport", "unknown attribute"]
            one["attack"] = draw(st.sampled_from(attacks))
        elif cells == 1 and names[0] not in beliefs and draw(st.integers(0, 5)) == 0:
            one["unknown"] = draw(
                st.one_of(
                    st.fixed_dictionaries({"probabilities": PMFS}),
                    st.fixed_dictionaries({"n": COUNTS, "chance": SHARES}),
                )
            )
            del one["prior"]
        return one

    if draw(st.booleans()):
        document["adversary"] = reader()
    else:
        document["adversaries"] = {name: reader() for name in draw(st.sampled_from([["x"], ["x", "y"]]))}
    if draw(st.integers(0, 5)):
        truth["in"] = present
    apart = [(one, above) for one, above in pairwise(levels) if one["siblings"] and one.keys() & {"clamp", "round"}]
    if cells == 1 and (apart or draw(st.integers(0, 9)) == 0):
        truth["siblings"] = {}
        for one, above in apart or [(one, above) for one, above in pairwise(levels) if one["siblings"]]:
            last = np.atleast_1d(truth[above["name"]]) - np.atleast_1d(truth[one["name"]])
            truth["siblings"][one["name"]] = [0] * (one["siblings"] - 1) + last.tolist()
    document |= {"truth": truth} if draw(st.integers(0, 4)) else {"truths": {"one": truth, "two": truth}}
    document |= draw(optional(failure=SHARES, title=st.text(max_size=5), guarantee=GUARANTEES))
    if draw(st.integers(0, 7)) == 0:
        document["profile"] = draw(PROFILES)
    if draw(st.integers(0, 7)) == 0:
        document["sensitivity"] = draw(
            table(
                {"prior": st.lists(SHARES, min_size=1, max_size=3, unique_by=str)},
                rho=st.lists(POSITIVE, min_size=1, max_size=2, unique_by=str),
                siblings=st.lists(st.integers(0, 6), min_size=1, max_size=3, unique=True),
                beliefs=st.fixed_dictionaries({"b": st.fixed_dictionaries(dict.fromkeys(names[1:], BELIEFS))}),
            )
        )
    return document


def profiles() -> Any:
    """Profile files."""
    utility = table(
        {"base": st.integers(1, 5000), "target": SHARES, "deviations": st.lists(SHARES, min_size=1, max_size=3)},
        noise=st.sampled_from(["geometric", "laplace", "gaussian", "discrete gaussian"]),
    )
    return st.one_of(
        *(
            table(
                {key: value},
                utility=utility,
                statistic=st.sampled_from(["any", "count"]),
                round_down=st.integers(0, 16),
                failure=SHARES,
                delta=SHARES,
                releases=st.sampled_from([1, 2, 12, 1001, 10**6]),
            )
            for key, value in (
                ("profile", PROFILES),
                ("profiles", st.dictionaries(st.text(max_size=4), PROFILES, min_size=1, max_size=2)),
            )
        )
    )


def releases() -> Any:
    """Release files of a noisy mean and variance, and of a regression."""
    number = st.one_of(st.floats(-10, 10), st.floats(-1e3, 1e3), POSITIVE)
    pair = st.lists(POSITIVE, min_size=2, max_size=2)
    pair = st.lists(number, min_size=2, max_size=2).map(lambda ends: sorted(ends, key=str))
    bounds = st.one_of(st.just([0, 100]), st.just([0, 1]), pair)
    law = dict.fromkeys(("mu0", "kappa0", "nu0", "s0"), POSITIVE)
    one = st.one_of(
        *(
            table({"n": st.integers(2, 400), "bounds": bounds, "mean": number, key: budget}, **rest)
            for key in ("epsilon", "rho")
            for budget, rest in ((pair, {"variance": number}), (POSITIVE, {}))
        )
    )
    return table(
        {"release": one},
        prior=st.one_of(
            st.just({"kind": "flat"}), st.fixed_dictionaries({"kind": st.just("normal-inverse-gamma"), **law})
        ),
        posterior=optional(
            constrained=st.booleans(),
            feasibility=st.sampled_from(["exact", "relaxed", "sharp", "published"]),
            prob=SHARES,
            cap=POSITIVE,
        ),
    )


def regressions() -> Any:
    """Release files of a regression, of few draws."""
    sums = {name: st.floats(-30, 60) for name in ("x", "xx", "y", "xy", "yy")}
    moments = {name: st.floats(-30, 60) for name in ("x", "x2", "x3", "x4")}
    bounds = st.one_of(st.just([0, 1]), st.just([30, 177]), st.lists(POSITIVE, min_size=2, max_size=2))
    regression = {"n": st.integers(3, 100), "epsilon": POSITIVE, "x_bounds": bounds, "y_bounds": bounds}
    regression |= {"sums": st.fixed_dictionaries(sums), "moments": st.fixed_dictionaries(moments)}
    return st.fixed_dictionaries(
        {"regression": st.fixed_dictionaries(regression)}
        | {
            "posterior": table(
                {"draws": st.just(8)},
                constrained=st.booleans(),
                region=st.sampled_from(["weak", "strong"]),
                prob=SHARES,
            )
        }
    )


@st.composite
def tables(draw: Any) -> dict[str, Any]:
    """Table files whose margins could be those of a table."""
    rows, columns = draw(st.integers(1, 3)), draw(st.integers(2, 3))
    counts = [[draw(st.integers(0, 9)) for _ in range(columns)] for _ in range(rows)]
    margins = [[sum(row) for row in counts], [sum(column) for column in zip(*counts, strict=True)]]
    noise = draw(
        st.one_of(
            st.fixed_dictionaries({"noise": st.sampled_from(["geometric", "laplace", "k-norm"]), "epsilon": POSITIVE}),
            st.fixed_dictionaries({"noise": st.sampled_from(["discrete gaussian", "gaussian"]), "rho": POSITIVE}),
            table({"noise": st.just("span gaussian"), "mu": POSITIVE}, records=st.integers(1, 3)),
        )
    )
    document: dict[str, Any] = {"invariants": {"margins": margins}, "table": noise}
    if draw(st.booleans()):
        document["table"]["released"] = [[x + draw(st.integers(-3, 3)) for x in row] for row in counts]
    if draw(st.integers(0, 3)) == 0:
        document["table"]["known"] = [[draw(st.integers(0, x)) for x in row] for row in counts]
    if draw(st.integers(0, 3)) == 0:
        document["prior"] = draw(
            st.one_of(
                st.fixed_dictionaries({"odds_ratio": POSITIVE}),
                *(
                    st.fixed_dictionaries({key: st.just([[draw(POSITIVE) for _ in row] for row in counts])})
                    for key in ("cells", "concentration")
                ),
            )
        )
    document |= draw(optional(failure=SHARES, guarantee=GUARANTEES))
    document["table"] |= draw(optional(releases=st.sampled_from([1, 2, 12, 10**7])))
    return document


@cache
def shipped() -> tuple[tuple[str, dict[str, Any]], ...]:
    """The files of `data/`, with the kind of each."""
    documents = [tomllib.loads(path.read_text(encoding="utf-8")) for path in sorted(DATA.glob("*.toml"))]
    return tuple((kind_of(one), one | FEW_DRAWS if "regression" in one else one) for one in documents)


def kind_of(document: Mapping[str, Any]) -> str:
    """What a document is for."""
    names = {"plan": "scenario", "table": "table", "release": "release", "regression": "release"}
    names |= {} if {"profile", "profiles"} & document.keys() else {"guarantee": "guarantee"}
    return next((kind for key, kind in names.items() if key in document), "profile")


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where something stands in a document, however deep."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, child in children for found in [(*path, key), *places(child, (*path, key))]]


@st.composite
def mistaken(draw: Any, documents: Any) -> dict[str, Any]:
    """One of the documents with one to three values, keys or tables changed, dropped or put elsewhere."""
    document = _copied(draw(documents))
    for _ in range(draw(st.integers(1, 3))):
        where = places(document)
        if not where:
            break
        *outer, last = draw(st.sampled_from(where))
        holder: Any = document
        for key in outer:
            holder = holder[key]
        kind = draw(st.sampled_from(["odd", "odd", "odd", "near", "dropped", "renamed", "moved", "doubled"]))
        if kind == "odd":
            holder[last] = _copied(draw(ODD))
        elif kind == "near" and last == "draws":
            continue  # thousands of them take as long as they should
        elif kind == "near" and isinstance(holder[last], int | float) and abs(holder[last]) < 1e300:
            holder[last] = holder[last] * draw(st.sampled_from([-1, 10, 100, 0.1, 1e3])) + draw(st.integers(-1, 1))
        elif kind == "dropped":
            del holder[last]
        elif kind == "renamed" and isinstance(holder, dict):
            holder[draw(st.sampled_from(["known", "rho", "siblings", "x", "", str(last) + "s"]))] = holder.pop(last)
        elif kind == "moved":
            document[str(last)] = _copied(holder[last])
        elif kind == "doubled" and isinstance(holder, list):
            holder.append(_copied(holder[last]))
    if "regression" in document and isinstance(document.setdefault("posterior", {}), dict):
        document["posterior"] = FEW_DRAWS["posterior"] | document["posterior"]  # whatever was dropped
    return document


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(one) for key, one in value.items()}
    return [_copied(one) for one in value] if isinstance(value, list) else value


@st.composite
def broken(draw: Any, texts: Any) -> str:
    """A text of which a part is missing, doubled or something else."""
    text = draw(texts)
    start = draw(st.integers(0, len(text)))
    stop = draw(st.integers(start, min(len(text), start + 40)))
    middle = draw(st.sampled_from(["", text[start:stop] * 2, "\x00", "[" * 30, "x = 1\n", '"', "[[plan]]\n", "=", "é"]))
    return text[:start] + middle + text[stop:]


def toml(value: Any, top: bool = True) -> str:
    """A document as TOML."""
    if isinstance(value, dict):
        pairs = [f"{_quoted(str(key))} = {toml(one, False)}" for key, one in value.items()]
        return "\n".join(pairs) + "\n" if top else "{ " + ", ".join(pairs) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(toml(one, False) for one in value) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return _quoted(value) if isinstance(value, str) else repr(value)


def _quoted(text: str) -> str:
    """A basic string."""
    plain = text.encode("utf-8", "replace").decode()
    return '"' + "".join(x if x.isprintable() and x not in '"\\' else f"\\U{ord(x):08x}" for x in plain) + '"'


@st.composite
def files(draw: Any) -> Case:
    """Every kind of file: as it could be meant, with mistakes, made of a shipped one, and broken as a text."""
    kind = draw(st.sampled_from(["scenario"] * 4 + ["profile", "release", "regression", "table"]))
    command = {"regression": "release"}.get(kind, kind)
    made = MADE[kind]()
    if draw(st.integers(0, 3)) == 0:
        made = st.sampled_from([document for one, document in shipped() if one == command])
    way = draw(st.sampled_from(["closest_name"] * 4 + ["mistaken"] * 4 + ["broken"]))
    if way == "broken":
        return command, draw(broken(made.map(toml)))
    return command, toml(draw(made if way == "closest_name" else mistaken(made)))


MADE: Mapping[str, Any] = {
    "scenario": scenarios,
    "profile": profiles,
    "release": releases,
    "regression": regressions,
    "table": tables,
}
