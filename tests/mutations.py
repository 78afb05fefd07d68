"""Planted bugs, each of which the tests must catch: `python -m tests.mutations [NAME ...]`, on demand.

A bug is one line put in place of another, in a copy of the working tree; what is run is the tests beside the code it
spoils, without the slow ones, until the first that fails. Run it before and after tests are rewritten.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]


class Bug(NamedTuple):
    """A line, what is put in its place, and the tests that are run."""

    right: str
    wrong: str
    tests: str


BUGS = {
    "rho without its factor 2": Bug(
        "else change / (2.0 * float(rho))", "else change / float(rho)", "privacy literature"
    ),
    "groups of zCDP grow linearly": Bug(
        "minimum=1)) ** 2 * self.rho)", "minimum=1)) * self.rho)", "privacy literature"
    ),
    "tanh of half the loss": Bug(
        "self.loss_bound(failure)) / 4.0)", "self.loss_bound(failure)) / 2.0)", "privacy literature"
    ),
    "prior odds turned over": Bug(
        "1.0 / (1.0 + (1.0 - p) / p * share)", "1.0 / (1.0 + p / (1.0 - p) * share)", "privacy literature"
    ),
    "the better direction": Bug(
        "max(tail_bound(side, epsilon) for side", "min(tail_bound(side, epsilon) for side", "privacy literature"
    ),
    "simple epsilon without its factor 2": Bug(
        "r + 2.0 * np.sqrt(r * -np.log(d))", "r + np.sqrt(r * -np.log(d))", "privacy literature"
    ),
    "counts in the wrong order": Bug(
        "np.log(_correlated(table, message))[:, ::-1]", "np.log(_correlated(table, message))", "adversaries census"
    ),
    "no allowance for rounding": Bug(
        "np.asarray(t + 4.0 * np.maximum", "np.asarray(t + 0.0 * np.maximum", "privacy literature"
    ),
    "the tail of Q for P": Bug(
        "beyond_p = np.minimum(as_array(p[first])", "beyond_p = np.minimum(as_array(q[first])", "privacy literature"
    ),
    "one end of noise is left out": Bug(
        "-> int:\n        return int(np.ceil(np.sqrt(nats / self.curvature)))",
        "-> int:\n        return int(np.ceil(np.sqrt(nats / self.curvature) / 4))",
        "privacy literature",
    ),
    "one sibling is forgotten": Bug(
        "SumLink(i, level.mechanism.total(level.siblings or 0))",
        "SumLink(i, level.mechanism.total((level.siblings or 1) - 1))",
        "adversaries census",
    ),
    "the target is out when in": Bug(
        "return log_likelihoods[:, 1] - log_likelihoods[:, 0]",
        "return log_likelihoods[:, 0] - log_likelihoods[:, 1]",
        "adversaries census",
    ),
    "a replaced unit leaves nothing": Bug(
        "return self.cells * (2 if self.is_replaced else 1)",
        "return self.cells * (1 if self.is_replaced else 1)",
        "privacy",
    ),
    "a unit begun is no unit": Bug(
        "max(1, math.ceil(change / contribution", "max(1, math.floor(change / contribution", "privacy"
    ),
    "every period is the first": Bug("else self.periods * guarantee", "else guarantee", "privacy"),
    "only the whole contribution is asked about": Bug(
        "shifts = tuple(range(1, int(min(largest, self.largest_count)) + 1))",
        "shifts = tuple(range(1, int(min(largest, self.largest_count)) + 1))[-1:]",
        "privacy",
    ),
    "divergences of high orders alone": Bug("_ORDERS = np.geomspace(1e-6", "_ORDERS = np.geomspace(1e1", "privacy"),
    "both cells count once": Bug(
        'plan.neighbours == "unbounded" else 1)', 'plan.neighbours == "bounded" else 1)', "adversaries census"
    ),
    "labels are lost": Bug('in_order(tree.names, rho, "rho")', "rho", "adversaries census"),
    "the means of the two truths are exchanged": Bug(
        "self.loss.expect(lambda z: posterior_after(start, z))[side]",
        "self.loss.expect(lambda z: posterior_after(start, z))[1 - side]",
        "privacy literature",
    ),
    "epsilon is rounded up": Bug(
        "Decimal(1).scaleb(-decimals), ROUND_FLOOR)",
        'Decimal(1).scaleb(-decimals), "ROUND_CEILING")',
        "budget report census",
    ),
    "bounds are rounded inward": Bug(
        "exact.quantize(unit, ROUND_CEILING if upper else ROUND_FLOOR)",
        "exact.quantize(unit, ROUND_FLOOR if upper else ROUND_CEILING)",
        "report bounded census _core",
    ),
    "noise of a mean without its n": Bug(
        "return self.size * (as_array(budget) if self.rho is None",
        "return (as_array(budget) if self.rho is None",
        "bounded",
    ),
    "three values have a posterior without the bounds": Bug(
        "cap is None and smallest <= 3", "cap is None and smallest < 3", "bounded/test_propriety.py"
    ),
    "the variance of a line counts its squares twice": Bug(
        "self.scale + np.maximum(gain, 0.0) / 2.0", "self.scale + np.maximum(gain, 0.0)", "bounded/test_regression.py"
    ),
    "the interval of a deviation is that of its variance": Bug(
        "line=replace(self.line, b=0.5 * self.line.b)",
        "line=replace(self.line, b=self.line.b)",
        "bounded/test_bounded_posterior.py",
    ),
    "the variance of data has divisor n": Bug(
        "divisor = n / (n - 1.0) if", "divisor = n / n if", "bounded/test_sample_statistics.py"
    ),
    "the block with most records is passed over": Bug(
        "np.argmax((rho * records)[noisy])", "np.argmax(rho[noisy])", "census report bounded"
    ),
    "windows of counts end after 12 nats": Bug("NEAR_NATS = 36.0", "NEAR_NATS = 12.0", "adversaries/test_adversary.py"),
    "a stored block of the right size is believed": Bug(
        "same = there == self.content(name, self.place(name).read_bytes())",
        'same = there["size"] == len(self.place(name).read_bytes())',
        "_core/test_store.py",
    ),
    "the loosest bound is shown": Bug(
        'guaranteed.argmin("definition"), guaranteed',
        'guaranteed.argmax("definition"), guaranteed',
        "driver/test_audit.py",
    ),
    "a verdict on replaced records is not doubled": Bug(
        "recommendation.loss * (2.0 if replaced and",
        "recommendation.loss * (1.0 if replaced and",
        "budget/test_verdict_on_guarantee.py",
    ),
    "the worst of several guarantees counts": Bug(
        "np.min([as_array(g.pbdp_delta(positive))",
        "np.max([as_array(g.pbdp_delta(positive))",
        "adversaries/test_counterfactual.py",
    ),
    "unbounded counts are cut early": Bug("LARGEST_CUT = 1e-12", "LARGEST_CUT = 1e-4", "models/test_supports.py"),
    "a support may lack a tenth": Bug("LARGEST_EDGE = 1e-6", "LARGEST_EDGE = 0.1", "models/test_supports.py"),
    "what is known of a law is what it has": Bug(
        "own = np.where(np.isfinite(within), log_p - within,",
        "own = np.where(np.isfinite(within), log_p,",
        "models/test_supports.py",
    ),
    "negative variances are let through": Bug(
        "self.refuse(variance < 0,", "self.refuse(variance < -9,", "census/test_nmf_damage.py"
    ),
    "intervals of least squares are one-sided": Bug(
        "ndtri(0.5 + 0.5 * prob)", "ndtri(prob)", "census/test_spine_page.py"
    ),
    "the ledger of a spine forgets what is cut": Bug(
        "first.dropped * second.dropped + cut", "first.dropped * second.dropped", "census/test_spine_mended.py"
    ),
    "settled leaves are draws of a shared rate": Bug(
        "shares_rate = (counts < bounds.high[leaves]) & (sharing_unit >= 0)",
        "shares_rate = sharing_unit >= 0",
        "census/test_others_unknown.py",
    ),
    "who knows the others forgets their rate": Bug(
        "start + i + count - L.units[v].settled)", "start + i - L.units[v].settled)", "census/test_others_unknown.py"
    ),
    "histograms are drawn from another prior": Bug(
        "count + T.start[leaf, cell]) / (count + 1.0)",
        "count + T.start[leaf, cell]) / (count + 1.5)",
        "census/test_histogram_sampler.py",
    ),
    "a list of losses that run on, taken for all": Bug(
        "bounded=shift == 0), cells)", "bounded=True), cells)", "privacy/test_mechanisms.py"
    ),
    "a contour where all atoms could be listed": Bug(
        "self._listed or self._mixed_sharp or self._contour or",
        "self._contour or self._listed or self._mixed_sharp or",
        "privacy/test_composition.py",
    ),
    "rounding is left out of a certificate": Bug("_UNIT = 2.0**-53", "_UNIT = 2.0**-80", "privacy/test_composition.py"),
    "confidence in an attack counts one side": Bug(
        "/ (2.0 * max(np.size(hits)", "/ (1.0 * max(np.size(hits)", "privacy/test_best_tests.py"
    ),
    "the slope of a tail for the largest loss": Bug(
        "if self.mechanism.log_concave:", "if True:", "privacy/test_staircase.py"
    ),
    "outcomes are paired by place": Bug(
        "place = own.get_indexer(order)", "place = np.arange(len(own))", "_core/test_labels.py"
    ),
    "one sibling's release is read by its distance": Bug(
        "[link.noise.log_likelihood(sums[:, None], window[None, :] - k) for k in x]",
        "[link.noise.log_likelihood(sums[:, None] - (window[None, :] - k), 0.0) for k in x]",
        "adversaries/test_random_plans.py",
    ),
    "another budget has the bound of this one": Bug(
        "own_loss(scaled, bounds.count_shift)", "own_loss(plan, bounds.count_shift)", "driver/test_further_groups.py"
    ),
    "exceeded needs thirty errors and a point": Bug(
        "outside > failure + 3.0 * error + 1e-12", "outside > failure + 30.0 * error + 1e-2", "driver/test_audit.py"
    ),
    "large grids leave out one release in ten million": Bug(
        "PRUNED = 1e-15", "PRUNED = 1e-7", "adversaries/test_bayes_factor_law.py"
    ),
    "quartiles are drawn for the ends": Bug(
        "np.quantile(y[rows], [0.05, 0.95]", "np.quantile(y[rows], [0.25, 0.75]", "report/test_figures.py"
    ),
    "weights with a heavy tail are trusted": Bug(
        "LARGEST_KHAT = 0.7", "LARGEST_KHAT = 1.2", "models/test_importance.py"
    ),
    "a tenth of the effective draws will do": Bug(
        "SMALLEST_ESS = 400.0", "SMALLEST_ESS = 40.0", "models/test_importance.py"
    ),
    "draws disobey a transform": Bug(
        "value = transform.forward(drawn, *node.inputs)\n        inside = ~pt.isnan(value).any()",
        "value = transform.forward(drawn, *node.inputs)\n        inside = pt.isnan(value).any() | True",
        "models/test_latent_draws.py",
    ),
    "the logit of a beta variable is that of its number": Bug(
        "SMALL_SHAPE = 0.5", "SMALL_SHAPE = 0.0", "models/test_latent_draws.py"
    ),
    "points far away are not looked at": Bug(
        "return min(best - self.fit, self.gain + best - far)", "return best - self.fit", "models/test_weighed_prior.py"
    ),
    "mass between the integers": Bug("pt.switch(pt.eq(whole, pt.floor(whole)), logp", "pt.switch(True, logp", "models"),
}


def copied(into: Path) -> Path:
    """A copy of the working tree, without what is made from it."""
    left = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", "build")
    return Path(shutil.copytree(ROOT, into, symlinks=True, ignore=left))


def run(copy: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Python in a copy, whose modules come first."""
    where = os.environ | {"PYTHONPATH": str(copy)}
    return subprocess.run([sys.executable, *words], cwd=copy, env=where, capture_output=True, text=True)


def is_caught(bug: Bug) -> str:
    """The first test that fails with the bug; "" if none does.

    Raises
    ------
    ValueError : the line is not there once
    """
    sources = [
        path for part in ("adversary", "models") for path in (ROOT / part).rglob("*.py") if not path.is_symlink()
    ]
    found = [path for path in sources if "adversary/models" not in str(path) and bug.right in path.read_text("utf-8")]
    if sum(path.read_text("utf-8").count(bug.right) for path in found) != 1:
        raise ValueError(f"the line must be there once: {bug.right}")
    with tempfile.TemporaryDirectory() as folder:
        copy = copied(Path(folder) / "copy")
        spoiled = copy / found[0].relative_to(ROOT)
        spoiled.write_text(spoiled.read_text("utf-8").replace(bug.right, bug.wrong), "utf-8")
        tests = [str(Path("tests") / name) for name in bug.tests.split()]
        command = ["-m", "pytest", "-x", "-q", "-m", "not slow and not thorough"]
        command += ["-n", "0"] * bug.tests.endswith(".py")
        done = run(copy, *command, *tests)
        return next((line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))), "")


if __name__ == "__main__":
    missed = []
    for name in sys.argv[1:] or BUGS:
        caught = is_caught(BUGS[name])
        missed += [name] * (not caught)
        print(f"{name}: {caught[:110] or 'NOT CAUGHT'}", flush=True)
    sys.exit(f"{len(missed)} not caught" if missed else 0)
