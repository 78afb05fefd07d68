from .chains import tilted_gamma as tilted_gamma
from .chains import truncated_normals as truncated_normals
from .coverage import coverage_study as coverage_study
from .record_gibbs import gibbs_records as gibbs_records
from .statistics_gibbs import gibbs as gibbs
