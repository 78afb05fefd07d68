"""Settings of sampled posteriors, shared by every engine that draws."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from adversary._core.argument_checks import check_probability, check_whole

CAREFUL = 0.95
"""Acceptance that a second try aims at: smaller steps, fewer divergences."""
KEPT = 100
"""Draws of each chain that are kept of each of many releases."""


@dataclass(frozen=True)
class Sampling:
    """Settings of sampled posteriors, under PyMC's names.

    Parameters
    ----------
    draws : draws kept of each chain
    tune : steps to tune each chain, which are thrown away
    chains : independent chains, at least 2
    target_accept : acceptance that NUTS aims at, in (0, 1)
    prior_draws : draws of the prior that are weighed by every release. Of a rare target, and given side data, half as
        many of each hypothesis are made by better proposals; where these have too many latents to move, the message
        says how many draws of the prior would do
    compile_kwargs : of nutpie's `compile_pymc_model`, for densities that NUTS samples: {"backend": "jax",
        "gradient_backend": "jax"} where JAX is installed

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
        """Settings of as many chains, each so many times as long and in smaller steps."""
        accept = max(self.target_accept, CAREFUL)
        return replace(self, tune=self.tune * times, draws=self.draws * times, target_accept=accept)
