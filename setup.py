"""Which packages there are, found and not listed: `models/` is `adversary.models` (the rest is in pyproject)."""

from setuptools import find_packages, setup

setup(
    packages=[
        *find_packages(include=["adversary", "adversary.*"], exclude=["adversary.models", "adversary.models.*"]),
        "adversary.models",
        *(f"adversary.models.{name}" for name in find_packages("models")),
    ]
)
