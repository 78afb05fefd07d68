"""What an adversary learns about one person from a noisy release, and what its privacy guarantee allows at most.

A `Plan` says what is published at nested `Level`s and with which noise. An `Adversary` has a prior about one person and
beliefs about everybody else. `plan.release` draws a release, `plan.observe` takes a published one, and
`adversary.posterior` is the exact posterior given either. `audit` averages over releases of a truth and puts the bounds
of a `Guarantee` beside it. `load_scenario` reads all of that from a TOML file; `adversary.models` has PyMC models.

>>> import adversary as adv
>>> plan = adv.Plan([adv.Level("block", adv.DiscreteGaussian.from_rho(0.1))])
>>> reader = adv.Adversary(prior=0.5, known=0)
>>> round(float(reader.posterior(plan, plan.observe({"block": 2}))["posterior"]), 4)
0.5744
"""

import lazy_loader

_public, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

MOVED = {
    "audit_table": "audit_tables",
    "conditioned": "known_totals",
    "frameworks": "literature.frameworks",
    "queries": "tables, sample_histograms adversary.census.histograms.sample_histograms",
}
"""Former public names, and their present ones."""


USUAL = {
    "zcdp": "ZeroConcentratedDP",
    "cdp": "ZeroConcentratedDP",
    "rdp": "RenyiDP",
    "gdp": "GaussianDP",
    "dp": "PureDP",
    "puredp": "PureDP",
    "approxdp": "ApproximateDP",
}
"""Abbreviations of guarantees, in small letters, and the public names."""


def __getattr__(name: str) -> object:
    if name in MOVED:
        raise AttributeError(f"adversary.{name} is called adversary.{MOVED[name]} now")
    try:
        return _public(name)
    except AttributeError:
        if name in __all__:  # of a module behind the name
            raise
        from adversary._core import closest_name

        usual = USUAL.get(name.casefold())
        near = f"; did you mean {usual!r}?" if usual else closest_name(name, __all__)
        raise AttributeError(f"adversary has no {name}{near}", name=name) from None
