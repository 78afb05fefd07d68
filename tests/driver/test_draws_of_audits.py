"""Draws of an exact audit: as many of "in" as the posterior has it, over releases or given one."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

import adversary as adv
from adversary import Sampling

PLAN = adv.Plan([adv.Level("block", adv.Geometric(1.0))])
READERS = {
    "flat": adv.Adversary(0.3, beliefs={"block": adv.Uniform()}),
    "sure": adv.Adversary(0.4, beliefs={"block": adv.Uniform(8)}),
}
TRUTHS = {"three": {"block": 3, "in": 1}, "one": {"block": 1, "in": 0}}
SETTINGS = Sampling(draws=2000)


def test_over_releases_the_mean_chance_is_the_expected_posterior() -> None:
    tree = adv.audit(PLAN, READERS, TRUTHS, also=(), progress=False)
    draws = adv.to_draws(tree, sampling=SETTINGS, rng=1)
    assert draws["posterior"]["P(in)"].dims == ("chain", "draw", "truth", "adversary")
    mean = draws["posterior"].to_dataset().mean(("chain", "draw"))
    off = abs(mean - tree["risk"]["posterior_mean"])
    assert (off["P(in)"] < 4 * draws["posterior"]["P(in)"].std() / np.sqrt(8000)).all()
    assert (off["in"] < 4 * 0.5 / np.sqrt(8000)).all()
    before = draws["prior"]["P(in)"]
    assert abs(before - tree["risk"]["prior"]).max() < 1e-9
    assert len(np.unique(before)) > 0.99 * before.size
    assert set(draws.children) == {"posterior", "prior", "sample_stats"}
    again = adv.to_draws(tree, sampling=SETTINGS, rng=1)
    assert again.identical(draws)


def test_given_one_release_every_draw_has_its_posterior() -> None:
    tree = adv.audit(PLAN, READERS["flat"], TRUTHS["three"], also=(), progress=False)
    published = tree["release"].to_dataset()
    best = int(np.argmax(published["weight"].values))
    draws = adv.to_draws(tree, release=best, sampling=SETTINGS, rng=1)
    after = draws["posterior"].to_dataset()
    posterior = tree["exact"].to_dataset()["posterior"].isel(release=best).item()
    assert abs(after["P(in)"] - posterior).max() < 1e-9
    xr.testing.assert_equal(draws["observed_data"].to_dataset()["noisy"], published["noisy"].isel(release=best))
    joint = draws["log_prior"].to_dataset()["in"] + draws["log_likelihood"].to_dataset()["release"]
    expected = np.log(np.where(after["in"] == 1, posterior, 1.0 - posterior))
    np.testing.assert_allclose(joint.values, expected, atol=1e-8)


def test_what_is_no_audit_or_has_no_answer_is_refused() -> None:
    tree = adv.audit(PLAN, READERS["flat"], TRUTHS["three"], also=(), progress=False)
    with pytest.raises(TypeError, match="tree must be the DataTree of an audit, got dict"):
        adv.to_draws({})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"release must be below \d+, the number of releases of the audit, got 4000"):
        adv.to_draws(tree, release=4000)
    tree["exact"] = (
        tree["exact"].to_dataset().assign(status=("release", ["unreliable"] * tree["exact"].sizes["release"]))
    )
    with pytest.raises(ValueError, match="releases of this audit are unreliable"):
        adv.to_draws(tree)
