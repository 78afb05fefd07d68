"""Audits of audits: every model of the field against its oracle, seed by seed, and the table of their errors.

``python -m tests.audits SEEDS [NAME ...]`` prints a row per model, in Markdown; the laws are in `test_audits`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import adversary as adv
from tests.oracles.audited import Audited
from tests.oracles.audited_census import CENSUS
from tests.oracles.audited_ecology import ECOLOGY
from tests.oracles.audited_learning import LEARNING
from tests.oracles.audited_surveys import SURVEYS

FIELDS: dict[str, dict[str, Callable[[], Audited]]] = {
    "census": CENSUS,
    "surveys and epidemiology": SURVEYS,
    "ecology": ECOLOGY,
    "regression and learning": LEARNING,
}
MODELS = {name: build for models in FIELDS.values() for name, build in models.items()}
"""Models by name."""

RELEASES = 12
"""Simulated releases of each audit."""
ROUNDING = 1e-8
"""Log odds by which an answer without an error of its own may be off: sums over states, and the oracle's integrals."""


@dataclass(frozen=True)
class Errors:
    """Answers of audits of one model beside its oracle.

    Parameters
    ----------
    ok : whether each may be used, (release,)
    off : log odds less the oracle's, in stated errors, (release,); 0 for exact answers that agree
    before : the same of P(in) before the release, one for each audit
    audit : number of the audit of each answer, (release,)
    """

    ok: NDArray[np.bool_]
    off: NDArray[np.float64]
    before: NDArray[np.float64]
    audit: NDArray[np.int64]

    @property
    def used(self) -> NDArray[np.float64]:
        """Errors of the answers that may be used."""
        return self.off[self.ok]

    @property
    def stated(self) -> NDArray[np.float64]:
        """Those of answers with an error of their own."""
        return self.used[self.used != 0.0]

    @property
    def rms(self) -> tuple[float, float]:
        """Root mean square of these and its sampling error, by leaving out one audit after another.

        Answers of one audit share their draws and err together, so that audits count and not answers: of 20 whose
        errors are independent normal ones the error is 0.16.
        """
        kept = self.ok & (self.off != 0.0)
        audits, place = np.unique(self.audit[kept], return_inverse=True)
        squares, counts = np.bincount(place, self.off[kept] ** 2), np.bincount(place)
        whole = float(np.sqrt(squares.sum() / counts.sum()))
        if audits.size < 2:
            return whole, np.inf
        left = np.sqrt((squares.sum() - squares) / (counts.sum() - counts))
        return whole, float(np.sqrt((audits.size - 1) * ((left - left.mean()) ** 2).mean()))

    @staticmethod
    def joined(parts: Iterable[Errors]) -> Errors:
        """Of several audits together."""
        every = list(parts)
        numbers = [np.full(one.off.shape, i) for i, one in enumerate(every)]
        joined = (np.concatenate([getattr(one, name) for one in every]) for name in ("ok", "off", "before"))
        return Errors(*joined, np.concatenate(numbers))


def errors(model: Audited, seed: int, releases: int = RELEASES) -> Errors:
    """One audit, of releases with the target in or out by turns, beside the oracle."""
    names = list(model.released)
    tree = adv.audit_model(model.model, {"in": seed % 2}, released=names, draws=releases, rng=seed, progress=False)
    exact = "exact" in tree.children
    answer = tree["exact" if exact else "estimate"].to_dataset()
    right = model.log_odds({name: tree["release"][name].values for name in names})
    off = answer["log_odds"].values - right
    certain = np.zeros(off.shape) if exact else answer["log_odds_mcse"].values
    error = np.where(certain > ROUNDING, certain, ROUNDING / 5)
    off = np.where((certain <= ROUNDING) & (np.abs(off) < ROUNDING), 0.0, off / error)
    ok = np.ones(off.shape, dtype=bool) if exact else answer["status"].values != "unreliable"
    prior, risk = float(tree["risk"]["prior"]), tree["risk"]
    own = max(float(risk["mcse"].sel(measure="prior")) if "mcse" in risk and not exact else 0.0, ROUNDING)
    return Errors(ok, off, np.array([(prior - model.prior) / own]), np.zeros(off.shape, dtype=np.int64))


def row(name: str, seeds: int) -> str:
    """A line of the table."""
    found = Errors.joined(errors(MODELS[name](), seed) for seed in range(seeds))
    stated = found.stated
    largest, rms = "exact", "exact"
    if stated.size:
        largest, rms = f"{np.abs(stated).max():.2f}", "{:.2f} ({:.2f})".format(*found.rms)
    worst = np.abs(found.before).max()
    return f"| {name} | {found.ok.size} | {found.ok.mean():.3f} | {largest} | {rms} | {worst:.2f} |"


if __name__ == "__main__":
    print("| model | releases | share ok | largest z | rms of z (its error) | largest z of the prior |")
    print("|---|---|---|---|---|---|")
    for one in sys.argv[2:] or MODELS:
        print(row(one, int(sys.argv[1])), flush=True)
