"""PyMC models of what a reader sees: counts with formally private noise, their release left free.

`hierarchical_counts` builds the model of a plan and a reader; `uncertain_rates` keeps the unknown rates behind other
people's counts as latents; `postprocessed` is for counts made to add up after the noise. `participation`, `misreport`,
`unknown_attribute` and `all_but` tell other attacks on one count, `unique_target` and `sequential` one count released
several times. `invariants` is a noisy table whose margins are known exactly. `bounded` and `regression` are for an
honest analyst of noisy statistics. `noise.released` gives the law of one release for a model of your own; `ExactGibbs`
samples what is too large to enumerate; `counterfactual_world` withholds one person's record. `fit` is the posterior of
one release for ArviZ, and `calibrate` asks by simulation whether a model's posteriors are right.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
