"""A replica of the published layout of Noisy Measurement Files, from its documentation alone.

Nothing is imported from the package, and nothing of its writer is used. Small populations, made up: Rhode Island (one
part), Arizona (two parts, one inside American Indian areas), Puerto Rico; persons and housing units of PL 94-171,
persons of DHC.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

PL = ("US", "State", "County", "Tract", "Block_Group", "Block")
DHC = ("US", "State", "County", "Prim", "Tract_Subset_Group", "Tract_Subset", "Block_Group", "Block")
PERSONS = {"hhgq": 8, "votingage": 2, "hispanic": 2, "cenrace": 63}
UNITS = {"h1": 2}
DHC_PERSONS = {"relgq": 42, "sex": 2, "age": 116, "hispanic": 2, "cenrace": 63}
CAP = 99_999
KINDS_OF_RELGQ = (0, 18, 24, 27, 28, 33, 34, 36)
"""Where each of the eight kinds of the redistricting data begins."""


@dataclass
class Replica:
    """One product: where it lies, and the counts behind it."""

    folder: Path
    levels: tuple[str, ...]
    axes: dict[str, int]
    truth: dict[str, Any] = field(default_factory=dict)
    facilities: dict[str, Any] = field(default_factory=dict)
    unmeasured: set[str] = field(default_factory=set)
    level_of: dict[str, str] = field(default_factory=dict)


def blocks(levels: tuple[str, ...], parts: dict[str, tuple[int, ...]]) -> Iterator[list[str]]:
    """Every block as the codes of its units from the state down: parent's code and a running number.

    parts : by code of a part of a state, how many blocks each block group of each of its counties has
    """
    middle = len(levels) - 4 - (levels[0] == "US" and 1)
    for part, groups in parts.items():
        inside = part[0] == "1"
        for i, size in enumerate(groups):
            county = part + (f"0{100 + i:04d}" if inside else f"10{2 * i + 1:03d}")
            path = [part, county]
            for _ in range(middle + 1):  # one tract and so on in every county, and its block group
                path.append(path[-1] + "001")
            for n in range(size):
                tabulated = f"{part[1:]}{2 * i + 1:03d}{i:06d}"
                yield [*path, f"{path[-1]}{tabulated}1{1000 + n:04d}"]


def grow(made: Replica, parts: dict[str, tuple[int, ...]], rng: np.random.Generator, top: str | None = "") -> None:
    """Counts of every unit, sums of its blocks'; only children are bypassed."""
    shape = tuple(made.axes.values())
    children: dict[str, set[str]] = {}
    for path in blocks(made.levels, parts):
        full = path if top is None else [top, *path]
        people = np.zeros(shape, dtype=np.int64)
        kinds = np.zeros(8 if len(shape) == 4 else 25, dtype=np.int64)
        kinds[0] = rng.integers(0, 9)
        if len(shape) > 1:
            for _ in range(int(rng.integers(0, 20)) if kinds[0] else 0):
                people[_person(shape, rng)] += 1
            if rng.random() < 0.2:
                kinds[3 if len(shape) == 4 else 10] = 1
                place = (3, 1, 0, 0) if len(shape) == 4 else (27, 1, 80, 0, 0)
                people[place] += 1 + int(rng.integers(0, 30))
        else:
            people[1] = rng.integers(0, kinds[0] + 1)
            people[0] = kinds[0] - people[1]
        for level, code in zip(made.levels[-len(full) :], full, strict=True):
            made.truth[code] = made.truth.get(code, 0) + people
            made.facilities[code] = made.facilities.get(code, 0) + kinds
            made.level_of[code] = level
        for above, below in pairwise(full):
            children.setdefault(above, set()).add(below)
    for above, inside in children.items():
        if len(inside) == 1 and above != "":
            made.unmeasured |= inside


def _person(shape: tuple[int, ...], rng: np.random.Generator) -> tuple[int, ...]:
    if len(shape) == 4:
        return (0, *(int(rng.integers(n)) for n in shape[1:3]), int(rng.integers(6)))
    return (int(rng.integers(6, 9)), int(rng.integers(2)), int(rng.integers(90)), int(rng.integers(2)), 0)


def answer(people: Any, words: dict[str, str]) -> Any:
    """A query's true answer, from what it holds on each axis."""
    for place, (axis, word) in enumerate(words.items()):
        if word == "*":
            people = people.sum(axis=place, keepdims=True)
        elif word == "hhinstlevels":
            people = np.add.reduceat(people, [0, 1, 5], axis=place)
        elif word == "hhgq8lev":
            people = np.add.reduceat(people, KINDS_OF_RELGQ, axis=place)
        elif (axis, word) == ("age", "votingage"):
            people = np.add.reduceat(people, [0, 18], axis=place)
    return people


def save(folder: Path, rows: list[dict[str, Any]], width: Any) -> None:
    """One Parquet file of records."""
    types = {
        "query_shape": pa.list_(pa.int64()),
        "value": pa.list_(width),
        "variance": pa.float32(),
        "plb": pa.float64(),
    }
    columns = {name: pa.array([row[name] for row in rows], types.get(name, pa.string())) for name in rows[0]}
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), folder / f"part-00000-{len(rows):04d}.snappy.parquet")


def publish(made: Replica, queries: dict[str, dict[str, str]], constraints: Any, rng: np.random.Generator) -> None:
    """Write all records of a product, partitioned as published."""
    groups: dict[tuple[str, str], list[str]] = {}
    for code, level in made.level_of.items():
        place = f"State={code[:3]}" if level != "US" else ""
        if made.levels == DHC and level not in ("US", "State"):
            place += f"/County={code[:8]}"
        groups.setdefault((level, place), []).append(code)
    for number, ((level, place), codes) in enumerate(groups.items()):
        width = (pa.int64(), pa.int32())[number % 2]
        measured, known = [], []
        for code in codes:
            for name, words in queries.items() if code not in made.unmeasured else ():
                exact = answer(made.truth[code], words)
                variance = np.float32(2.0 + len(name) / 7)
                noise = np.rint(rng.normal(0.0, np.sqrt(variance), exact.shape)).astype(int)
                measured.append(
                    {"geocode": code, "query_name": f"{name}_dpq", **words, "query_shape": list(exact.shape),
                     "value": (exact + noise).ravel().tolist(), "variance": variance, "plb": np.float32(1.0 / variance)}
                )  # fmt: skip
            for name, sign, words, values in constraints(made, code, level):
                known.append(
                    {"geocode": code, "query_name": f"{name}_con", "sign": sign, **words,
                     "query_shape": list(np.shape(values)), "value": np.ravel(values).tolist(),
                     "variance": np.float32(0)}
                )  # fmt: skip
        for kind, rows in (("DPQuery", measured), ("Constraint", known)):
            if rows:
                save(made.folder / f"{level}.parquet" / kind / place, rows, width)


def words(axes: dict[str, int], **some: str) -> dict[str, str]:
    """What a query holds on every axis: "*" unless said."""
    return {axis: some.get(axis, "*") for axis in axes}


def persons(folder: Path, parts: dict[str, tuple[int, ...]], seed: int, top: str | None = "") -> Replica:
    """Persons of PL 94-171."""
    made, rng = Replica(folder, PL if top is not None else PL[1:], PERSONS), np.random.default_rng(seed)
    grow(made, parts, rng, top)
    queries = {
        "total": words(PERSONS),
        "hhgq": words(PERSONS, hhgq="hhgq"),
        "votingage * hispanic": words(PERSONS, votingage="votingage", hispanic="hispanic"),
        "hhinstlevels": words(PERSONS, hhgq="hhinstlevels"),
        "detailed": dict.fromkeys(PERSONS, "detailed"),
    }

    def constraints(made: Replica, code: str, level: str) -> Iterator[tuple[str, str, dict[str, str], Any]]:
        if level == "US":
            yield "total", "=", words(PERSONS), made.truth[code].sum().reshape(1, 1, 1, 1)
        kinds = made.facilities[code].reshape(8, 1, 1, 1)
        yield "hhgq_total_lb", ">=", words(PERSONS, hhgq="hhgq"), kinds * (np.arange(8) > 0).reshape(8, 1, 1, 1)
        yield "hhgq_total_ub", "<=", words(PERSONS, hhgq="hhgq"), kinds * CAP
        yield (
            "nurse_nva_0",
            "=",
            words(PERSONS, hhgq="gqNursingTotal", votingage="nonvoting"),
            np.zeros((1, 1, 1, 1), int),
        )

    publish(made, queries, constraints, rng)
    return made


def units(folder: Path, parts: dict[str, tuple[int, ...]], seed: int) -> Replica:
    """Housing units of PL 94-171: their number is exact everywhere."""
    made, rng = Replica(folder, PL, UNITS), np.random.default_rng(seed)
    grow(made, parts, rng)

    def constraints(made: Replica, code: str, level: str) -> Iterator[tuple[str, str, dict[str, str], Any]]:
        yield "total", "=", words(UNITS), made.truth[code].sum().reshape(1)

    publish(made, {"detailed": {"h1": "detailed"}}, constraints, rng)
    return made


def dhc(folder: Path, parts: dict[str, tuple[int, ...]], seed: int) -> Replica:
    """Persons of DHC, their two smallest queries."""
    made, rng = Replica(folder, DHC, DHC_PERSONS), np.random.default_rng(seed)
    grow(made, parts, rng)
    queries = {
        "popSehsdTargetsRelship": words(DHC_PERSONS, relgq="relgq"),
        "hispanic * sex": words(DHC_PERSONS, sex="sex", hispanic="hispanic"),
    }

    def constraints(made: Replica, code: str, level: str) -> Iterator[tuple[str, str, dict[str, str], Any]]:
        kinds = made.facilities[code].reshape(25, 1, 1, 1, 1)
        table = words(DHC_PERSONS, relgq="hhgq8lev", age="votingage", hispanic="hispanic", cenrace="cenrace")
        published = answer(made.truth[code], table)
        yield "pl94", "=", table, np.maximum(published + rng.integers(-1, 2, published.shape), 0)
        yield (
            "hhgq_total_lb",
            ">=",
            words(DHC_PERSONS, relgq="gqlevels"),
            kinds * (np.arange(25) > 0).reshape(kinds.shape),
        )
        yield "hhgq_total_ub", "<=", words(DHC_PERSONS, relgq="gqlevels"), kinds * CAP
        yield "relgq0_lt15", "=", words(DHC_PERSONS, relgq="relgq0", age="age_lessthan15"), np.zeros((1,) * 5, int)
        yield "relgq27_lt20", "=", words(DHC_PERSONS, relgq="relgq27", age="age_lessthan20"), np.zeros((1,) * 5, int)

    publish(made, queries, constraints, rng)
    return made


RHODE_ISLAND, ARIZONA = {"044": (6, 3)}, {"004": (5, 2), "104": (4,)}


def archive(folder: Path) -> dict[str, Replica]:
    """Four products, and a table of the totals of these states."""
    both = RHODE_ISLAND | ARIZONA
    made = {
        "US_Person_PL_PROD": persons(folder / "US_Person_PL_PROD", both, 1),
        "US_Unit_PL_PROD": units(folder / "US_Unit_PL_PROD", both, 2),
        "PR_Person_PL_PROD": persons(folder / "PR_Person_PL_PROD", {"072": (4, 5)}, 3, None),
        "US_DHCP_PROD": dhc(folder / "US_DHCP_PROD", {"044": (3, 2)}, 4),
    }
    truth = made["US_Person_PL_PROD"].truth
    totals = {"44": ("Rhode Island", truth["044"].sum()), "04": ("Arizona", truth["004"].sum() + truth["104"].sum())}
    lines = ["state,name,population", *(f"{code},{name},{total}" for code, (name, total) in totals.items())]
    (folder / "totals.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return made
