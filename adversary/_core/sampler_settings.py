"""Settings of sampled posteriors, shared by all sampling engines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from adversary._core.argument_checks import check_probability, check_whole

# Target acceptance rate of a second attempt: smaller steps, fewer divergences.
CAREFUL = 0.95
KEPT = 100
"""Draws stored per chain and release, when there are many releases."""


@dataclass(frozen=True)
class Sampling:
    """Settings of sampled posteriors, under PyMC's names.

    Parameters
    ----------
    draws : draws per chain, after tuning
    tune : tuning steps per chain, which are discarded
    chains : independent chains, at least 2
    target_accept : target acceptance rate of NUTS, in (0, 1)
    prior_draws : prior draws for importance sampling, weighted by the likelihood of each release; at least 1000. For a
        rare target, or with side data, better proposals make half as many draws per hypothesis; if a model has too many
        latent variables for these proposals, the message names a sufficient number of prior draws
    compile_kwargs : arguments of nutpie's `compile_pymc_model`, for densities that NUTS samples; for example
        {"backend": "jax", "gradient_backend": "jax"} if JAX is installed

    Raises
    ------
    ValueError, TypeError : naming the setting, the rule and the value

    Examples
    --------
    >>> Sampling(draws=500).chains
    4
    """

    draws: int = 1000
    tune: int = 500
    chains: int = 4
    target_accept: float = 0.8
    prior_draws: int = 10_000
    compile_kwargs: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        for name, least in (("draws", 1), ("tune", 1), ("chains", 2), ("prior_draws", 1000)):
            check_whole(name, getattr(self, name), minimum=least)
        if not 0.0 < float(check_probability("target_accept", self.target_accept)) < 1.0:
            raise ValueError(f"target_accept must lie between 0 and 1, got {self.target_accept}")
        if not isinstance(self.compile_kwargs, Mapping):
            raise TypeError(f"compile_kwargs must be a mapping of names to settings, got {self.compile_kwargs!r}")

    def longer(self, times: int) -> Sampling:
        """Settings with `times` the tuning steps and draws per chain, and target acceptance of at least `CAREFUL`."""
        accept = max(self.target_accept, CAREFUL)
        return replace(self, tune=self.tune * times, draws=self.draws * times, target_accept=accept)
