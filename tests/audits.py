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
    """

    ok: NDArray[np.bool_]
    off: NDArray[np.float64]
    before: NDArray[np.float64]

    @property
    def used(self) -> NDArray[np.float64]:
        """Errors of the answers that may be used."""
        return self.off[self.ok]

    @property
    def stated(self) -> NDArray[np.float64]:
        """Those of answers with an error of their own."""
        return self.used[self.used != 0.0]

    @staticmethod
    def joined(parts: Iterable[Errors]) -> Errors:
        """Of several audits together."""
        every = list(parts)
        return Errors(*(np.concatenate([getattr(one, name) for one in every]) for name in ("ok", "off", "before")))


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
    return Errors(ok, off, np.array([(prior - model.prior) / own]))


def row(name: str, seeds: int) -> str:
    """A line of the table."""
    found = Errors.joined(errors(MODELS[name](), seed) for seed in range(seeds))
    stated = found.stated
    largest, rms = (
        (f"{np.abs(stated).max():.2f}", f"{np.sqrt((stated**2).mean()):.2f}") if stated.size else ("exact",) * 2
    )
    worst = np.abs(found.before).max()
    return f"| {name} | {found.ok.size} | {found.ok.mean():.3f} | {largest} | {rms} | {worst:.2f} |"


if __name__ == "__main__":
    print("| model | releases | share ok | largest z | rms of z | largest z of the prior |\n|---|---|---|---|---|---|")
    for one in sys.argv[2:] or MODELS:
        print(row(one, int(sys.argv[1])), flush=True)
