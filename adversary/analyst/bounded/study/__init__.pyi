from .coverage import coverage_study as coverage_study
