# ---
# jupyter:
#   jupytext:
#     formats: py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # From an attack's scores to a proven epsilon

# %% tags=["hide-input"]
import matplotlib.pyplot as plt
import numpy as np

import adversary as adv

SIGMA, RATE, STEPS = 0.8136, 0.01, 1000
TRIALS = [100, 300, 1000, 3000, 10_000]


def train(runs, present, sigma, rng):
    """Scores of an attack on private training: every step, the end only."""
    every, end = np.zeros(runs), np.zeros(runs)
    for _ in range(STEPS):
        seen = sigma * rng.standard_normal(runs)
        if present:
            seen += rng.random(runs) < RATE
        ratio = np.exp((2 * seen - 1) / (2 * sigma**2))
        every += np.log1p(RATE * (ratio - 1))
        end += seen
    return every, end


def proven(present, out):
    bound = adv.decisions.epsilon_lower_bound_from_scores
    return [bound(present[:n], out[:n], delta=1e-5).epsilon for n in TRIALS]


rng = np.random.default_rng(1)
inside, outside = (train(TRIALS[-1], one, SIGMA, rng) for one in (True, False))
bug_in, bug_out = (
    train(TRIALS[-1], one, SIGMA / 2, rng) for one in (True, False)
)
curves = {
    "half the noise, by mistake": proven(bug_in[0], bug_out[0]),
    "attack on every step": proven(inside[0], outside[0]),
    "attack on the final model": proven(inside[1], outside[1]),
}
assert [round(one[2], 2) for one in curves.values()] == [4.13, 0.45, 0.19]

adv.plot.style()
fig, ax = plt.subplots(layout="constrained")
names = ("finding", "after", "third")
for (name, values), role in zip(curves.items(), names, strict=True):
    ink = adv.plot.PALETTE[role]
    ax.plot(TRIALS, values, "o-", label=name, color=ink)
adv.plot.label_ends(ax)
ax.axhline(3, color=adv.plot.PALETTE["ink"], lw=1.4, ls=(0, (5, 2)))
ax.text(10_000, 3.1, "the claim: epsilon 3", ha="right")
ax.set(xscale="log", xlim=(90, 11_000), ylim=(0, 6.3))
ax.set_xticks([100, 1000, 10_000], ["100", "1,000", "10,000"])
ax.set_xlabel("training runs with the person, and as many without")
ax.set_ylabel("proven epsilon (95% confidence)")
adv.plot.headline(
    ax,
    "1,000 runs prove epsilon 0.45 of a claimed 3, a mistake 4.1",
    shape="Three rising curves. Two stay below the claim of 3, up to 1.1 at "
    "10,000 runs; with half the noise the curve crosses it at 300 runs.",
)
plt.show()

# %% [markdown]
# **In short.** A model is trained privately in 1,000 steps, each on a random 1% of the people, and the trainers claim
# (epsilon 3, delta 1e-5). An attack scores training runs with and without one person.
#
# - The claim lets an adversary go from 50% to 95%. One who sees every step comes to 54% on average, and above 77% in 1
#   of 20 runs.
# - 1,000 runs of each kind prove epsilon 0.45 by an attack on every step, and 0.19 by one on the final model alone. An
#   attack proves that a loss is at least so large, never that it is small.
# - Had the noise been half as large by mistake, 300 runs of each kind would refute the claim.
#
# ## The claim
#
# In each step the gradients of the sampled people are clipped to length 1 and added up, with Gaussian noise of standard
# deviation 0.8136. `sampled_loss` is the privacy loss of one step to an adversary who does not know who was sampled,
# and 1,000 steps add up. Both ends of the epsilon are certified.

# %%
import numpy as np
import pandas as pd

import adversary as adv

noise = adv.Gaussian(0.8136).privacy_loss()
loss = 1000 * adv.sampled_loss(noise, rate=0.01)
low, high = loss.bracket.epsilon(1e-5)
print(f"epsilon between {low:.4f} and {high:.4f} at delta 1e-5")

needed = adv.budget.noise_multiplier(3.0, 1e-5, releases=1000, rate=0.01)
print(f"noise that epsilon 3 needs: {needed:.4f}")

# %% [markdown]
# ## What it means for one person
#
# The adversary wonders whether the person is in the training data, and finds that as likely as not. What they may
# conclude depends on what is assumed of them.

# %%
claim = adv.ApproximateDP(3.0, 1e-5)
posterior = loss.posterior(0.5)
sees_steps = {
    "any adversary, by epsilon and delta": claim.posterior_bounds(0.5, 1e-3)[1],
    "any adversary, by the loss, 95% of runs": loss.posterior_bounds(0.5, 0.05)[
        1
    ],
    "who sees every step, above it in 1 of 20 runs": posterior.quantile(
        0.95, "in"
    ),
    "who sees every step, on average": posterior.mean("in"),
}
after = pd.Series(sees_steps, name="from 50% to")
after.map("{:.0%}".format).to_frame()

# %% [markdown]
# ## An attack, and its scores
#
# Auditors train many times, with the person and without, and let an attack guess. Here a run is simulated: what a step
# shows of the person's gradient direction is 1 if the person is sampled, else 0, plus the noise. The best score adds up
# the steps' log likelihood ratios; the other attack sees only the final model, the sum of all steps.


# %%
def train(runs, present, rng, sigma=0.8136, steps=1000, rate=0.01):
    every_step, end = np.zeros(runs), np.zeros(runs)
    for _ in range(steps):
        seen = sigma * rng.standard_normal(runs)
        if present:
            seen += rng.random(runs) < rate
        ratio = np.exp((2 * seen - 1) / (2 * sigma**2))
        every_step += np.log1p(rate * (ratio - 1))
        end += seen
    return {"every step": every_step, "the final model": end}


rng = np.random.default_rng(1)
present, out = train(10_000, True, rng), train(10_000, False, rng)
means = {"in": pd.DataFrame(present).mean(), "out": pd.DataFrame(out).mean()}
pd.DataFrame(means).round(2)

# %% [markdown]
# ## From scores to epsilon
#
# A run is called "in" if its score is above a threshold. Detections and false alarms bound epsilon from below: no
# (epsilon, delta) guarantee allows a test of more power. `epsilon_lower_bound_from_scores` takes thresholds from the
# scores and pays for the choice: the bound is too high with a probability of at most 5%.

# %%
bound = adv.decisions.epsilon_lower_bound_from_scores
proven = {
    name: {
        runs: bound(one[:runs], out[name][:runs], failure=0.05, delta=1e-5)
        for runs in (300, 1000, 10_000)
    }
    for name, one in present.items()
}
pd.DataFrame(proven).T.rename_axis("proven epsilon, by runs").round(2)

# %% [markdown]
# The usual shortcut, the best log(detections / false alarms) over all thresholds, proves nothing. Of scores that are
# pure chance, and so of epsilon 0, it reads an epsilon every time:

# %%
chance = rng.random((200, 2, 300))
shortcut, correct = [], []
for one, zero in chance:
    levels = np.sort(zero)[::-1][:30]  # up to 10% false alarms
    found = [(one > x).mean() / (zero >= x).mean() for x in levels]
    shortcut.append(np.log(max(found)))
    correct.append(bound(one, zero))
print(f"shortcut: epsilon {np.median(shortcut):.2f} in half of 200 audits")
print(f"bound: above 0 in {np.mean(np.array(correct) > 0):.1%} of them")

# %% [markdown]
# ## How good can any attack be?
#
# The best possible test is known from the loss itself: its curve is the upper one. The attack on every step is on that
# curve but for chance; the final model shows less.

# %% tags=["hide-input"]
points = {}
for name, score in present.items():
    at = np.quantile(out[name], [0.98, 0.95, 0.9, 0.8, 0.6, 0.4, 0.2])
    rates = [(1 - (x[:, None] <= at).mean(axis=0)) for x in (out[name], score)]
    points[f"attack on {name}"] = tuple(rates)
axes = adv.plot.trade_off({"best test of all steps": loss}, points)
adv.plot.headline(
    axes,
    "An attack on every step is as good as any: 15% at 5% false alarms",
    shape="The points of the attack on every step lie on the curve of the best "
    "test, those of the attack on the final model below it.",
)
plt.show()

# %% [markdown]
# ## Losses from other tools
#
# An accountant's answer can stand in for the claim. `adv.interop.from_pld(pld)` reads a loss distribution of
# dp_accounting, and so of Opacus and JAX-Privacy; `from_delta` a privacy profile, as OpenDP has it. Both err towards
# more risk, and so does `from_trade_off`, which reads points of a trade-off curve, as riskcal has it: between them it
# takes the highest curve that they allow. Here the curve above is read back from 200 of its points, dense at both ends.

# %%
level = np.r_[0, 1 / (1 + np.exp(np.linspace(14, -14, 200))), 1]
curve = adv.interop.from_trade_off(level, loss.power(level))
for name, one in {"the loss itself": loss, "from its curve": curve}.items():
    power, top = one.power(0.05), one.posterior_bounds(0.5, 0.05)[1]
    print(f"{name:15} power at 5% {power:.3f}, from 50% to {top:.1%}")

# %% tags=["remove-cell"]
assert (round(low, 2), round(high, 6)) == (3.0, 2.999994)
assert round(needed, 4) == 0.8136
assert (after * 100).round().tolist() == [95, 82, 77, 54]
assert round(proven["every step"][1000], 2) == 0.45
assert round(proven["the final model"][1000], 2) == 0.19
assert np.median(shortcut) > 0.4
assert not any(correct)
assert curves["half the noise, by mistake"][1] > 3
assert max(curves["attack on every step"]) < 1.1

# %% [markdown]
# ## What this does not say
#
# - A small proven epsilon is no sign of safety: it may be the attack that is weak. Only the claim bounds every attack.
# - The bound takes runs as independent. Several people audited in one run share its noise, and need another theorem.
# - An attack on one person speaks of that person. The claim is about everybody, also about people far from the others.
# - "95% confidence" is of one audit. Whoever repeats audits until one refutes the claim has to share the 5% among them.
#
# References: Jagielski, Ullman and Oprea (2020), "Auditing differentially private machine learning"; Abadi et al.
# (2016), "Deep learning with differential privacy"; Nasr et al. (2021), "Adversary instantiation".
