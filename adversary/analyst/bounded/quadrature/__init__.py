"""The posterior of a noisy mean and variance by quadrature, in compiled loops.

`solve` is the way in. `panels` and `panel_edges` place the nodes, `convolution_panels`, `mean_panels` and
`variance_panels` integrate over the exact statistics, `sample_variance` and `log_z_table` hold the law of a truncated
normal sample's statistics, and `parameter_lines`, `levels` and `kernels` integrate over mean and standard deviation.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
