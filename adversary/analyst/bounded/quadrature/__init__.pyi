from .kernels import fill_grid as fill_grid
from .panels import ORDER as ORDER
from .panels import SINH as SINH
from .panels import WITHIN as WITHIN
from .parameter_lines import Lines as Lines
from .sample_variance import KINDS as KINDS
from .sample_variance import nothing_of as nothing_of
from .solve import seen_of as seen_of
