"""What a reader learns about one person from a noisy table, beside what its privacy guarantee leaves open.

The way through, in order: a `Plan` says what is published at nested `Level`s and how noisy it is; an `Adversary` says
who reads it, with which prior and which beliefs about everybody else; `plan.release` and `plan.observe` make releases;
`adversary.posterior` reads one exactly; `audit` averages over releases and puts the bounds of a `Guarantee` beside it.
`load_scenario` reads all of that from a TOML file, and `adversary.models` holds the same story as PyMC models.

>>> import adversary as adv
>>> plan = adv.Plan([adv.Level("block", adv.DiscreteGaussian.from_rho(0.1))])
>>> reader = adv.Adversary(prior=0.5, known=0)
>>> round(float(reader.posterior(plan, plan.observe({"block": 2}))["posterior"]), 4)
0.5744
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
