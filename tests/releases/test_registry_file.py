"""Records of the deployments registry: the same answer as a record of ours, and what is refused."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml

import adversary as adv

FILE = Path(__file__).with_name("registry_record.yaml")
OURS = """
title = "Made-up counts"
curator = "An office, A company"
date = "2024-05-06"
model = "central"
[privacy_unit]
name = "person-day"
neighbours = "unbounded"
[guarantee]
zCDP = 0.5
[[source]]
kind = "registry"
"""


def changed(tmp_path: Path, path: str, value: Any) -> Path:
    """The file with one value replaced, or left out where it is ...."""
    document = yaml.safe_load(FILE.read_text())
    part, (*inside, last) = document, path.split(".")
    for key in inside:
        part = part.setdefault(key, {})
    if value is ...:
        del part[last]
    else:
        part[last] = value
    file = tmp_path / "changed.yaml"
    file.write_text(yaml.safe_dump(document))
    return file


PARAMETERS = "deployment.privacy_loss.privacy_parameters"


def test_both_notations_give_the_same_answer(tmp_path: Path) -> None:
    ours = tmp_path / "ours.toml"
    ours.write_text(OURS)
    both = {"a": adv.releases.read(FILE), "b": adv.releases.read(ours)}
    bounds = adv.releases.gallery(both)["bounds"].to_dataset()
    assert bounds.sel(release="a", drop=True).equals(bounds.sel(release="b", drop=True))
    assert both["a"].parameters == {"rho": Fraction(1, 2)}


@pytest.mark.parametrize(
    ("given", "variant", "guarantee"),
    [
        ({"epsilon": 2.64}, "Pure DP", adv.PureDP(2.64)),
        ({"epsilon": 1, "delta": "1e-5"}, "Approximate DP", adv.ApproximateDP(1.0, 1e-5)),
        ({"epsilon": 1, "delta": 1e-5}, "Pure DP", adv.ApproximateDP(1.0, 1e-5)),
        ({"rho": 2.63}, "Zero-concentrated DP", adv.ZeroConcentratedDP(2.63)),
        ({"epsilon": 0.01, "delta": "n^(-ln n)"}, "Approximate DP", None),
        ({"epsilon": 1}, "Renyi DP", None),
        ({}, "Pure DP", None),
    ],
)
def test_guarantees_of_the_parameters(tmp_path: Path, given: dict[str, Any], variant: str, guarantee: Any) -> None:
    file = changed(tmp_path, PARAMETERS, given)
    text = file.read_text().replace("Zero-concentrated DP", variant)
    file.write_text(text)
    record = adv.releases.read(file)
    assert record.guarantee == guarantee
    assert bool(record.unknown) is (guarantee is None)


@pytest.mark.parametrize(
    ("details", "neighbours"),
    [
        ("one record is replaced by another", "bounded"),
        ("the change-one distance", "bounded"),
        ("adding or removing a person", "unbounded"),
        ("they differ by one user's data", None),
        ("a person is added, or a record replaced", None),
        ("", None),
    ],
)
def test_neighbours_are_read_where_one_relation_is_named(tmp_path: Path, details: str, neighbours: str | None) -> None:
    file = changed(tmp_path, "deployment.privacy_loss.privacy_unit_details", details)
    assert adv.releases.read(file).unit.neighbours == neighbours


def test_epsilon_beside_rho_is_checked(tmp_path: Path) -> None:
    good = changed(tmp_path, PARAMETERS, {"rho": 2.63, "epsilon": 17.42, "delta": 1e-10})
    assert adv.releases.read(good).findings == ()
    bad = changed(tmp_path, PARAMETERS, {"rho": 2.63, "epsilon": 12.0, "delta": 1e-10})
    (finding,) = adv.releases.read(bad).findings
    assert float(finding.stated) == 12.0


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("deployment.privacy_loss.privacy_parameters.epsilonn", 1, "privacy_parameters.epsilonn: unknown key"),
        ("deployment.basic.name", ..., "deployment.basic.name: is required"),
        ("deployment.deployment_model.model_name", "Centrall", "must be one of .* did you mean 'Central'?"),
        (f"{PARAMETERS}.rho", "a lot", "privacy_parameters.rho: must be a number"),
        (f"{PARAMETERS}.rho", -1, "privacy_parameters.rho: .*-1"),
        ("deployment", "text", "deployment: must be a table"),
        ("deployment.basic.data_curators", "An office", "data_curators: must be a list of names, got 'An office'"),
        ("deployment.basic.description", {"a": 1}, "description: must be text"),
        ("deployment.basic.name", 3, "basic.name: must be text, got 3"),
        (PARAMETERS, {"rho": 1, "epsilon": 3, "delta": 2}, "privacy_parameters: delta must be in"),
        (PARAMETERS, {"rho": 1, "epsilon": -3, "delta": 0.1}, "privacy_parameters: epsilon must be"),
    ],
)
def test_damaged_records_are_refused(tmp_path: Path, path: str, value: Any, message: str) -> None:
    file = changed(tmp_path, path, value)
    with pytest.raises(ValueError, match=message) as error:
        adv.releases.read(file)
    assert str(error.value).startswith(f"{file}: ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1, 2", "must be a YAML file"),
        ("- 1\n- 2\n", "must be a record of the registry"),
        ("a: &x [*y]\nb: &y [*x]\n", "must be a YAML file"),
        ("a: &x [1]\nb: &y [*x]\nc: [*y]\n", r"references \(\*name\) inside"),
        ("a: !!python/object/apply:os.system ['true']\n", "must be a YAML file"),
        ("\xff\xfe", "must be a YAML file|must be a record"),
    ],
)
def test_what_is_no_record(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "bad.yml"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(ValueError, match=message):
        adv.releases.read(file)
    file.write_bytes(b"a: " + b"x" * 2**20)
    with pytest.raises(ValueError, match="at most 1,048,576 bytes"):
        adv.releases.read(file)


def test_without_pyyaml_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "yaml", None)
    with pytest.raises(ImportError, match="interop"):
        adv.releases.read(FILE)
