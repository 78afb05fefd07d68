"""All queries of a release together: what several marginals of one histogram tell about one person.

A published file has many queries of every unit. `log_bayes_factor` and `path_loss` answer the reader who knows
everybody else, exactly; a `Plan` with `queries` the one who knows the target's block. `effective_measurements` makes
one measurement per unit and cell of all queries, by generalised least squares, for the spine. `sample_histograms`
samples the whole posterior, and measures what that approximation costs.

>>> from adversary.reader.queries import effective_measurements, pl94_persons
>>> queries = pl94_persons()
>>> released = {query.name: [[0.0] * query.size] for query in queries}
>>> found = effective_measurements(queries, released, dict.fromkeys(released, 10.0), [(0, 1, 0, 0)])
>>> found["variance"].round(3).item()
8.778
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
