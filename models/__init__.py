"""PyMC models of what an adversary sees: counts with formally private noise, their release left free.

`hierarchical_counts` builds the model of a plan and an adversary: any attack of `adversary.attacks`, one count released
several times, numbers changed after the noise, unknown rates behind other people's counts. `membership` is that of one
level. `invariants` is a noisy table whose margins are known exactly, `published` has adversaries of the literature by
paper. `bounded` and `regression` are for an honest analyst of noisy statistics. `noise.released` gives the distribution
of one release for a model of your own; `MarginGibbs` samples tables with known margins; `counterfactual_world`
withholds one person's record. `fit` returns the posterior of one release for ArviZ, and `calibrate` checks a model's
posteriors by simulation-based calibration.
"""

import lazy_loader

_public, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

MOVED = {"ExactGibbs": "ExactGibbs", "published_gibbs_law": "published_gibbs_probability"}
"""Former names of this package, and their present ones in `adversary.literature`."""


def __getattr__(name: str) -> object:
    if name in MOVED:
        raise AttributeError(f"models.{name} is called adversary.literature.{MOVED[name]} now")
    return _public(name)
