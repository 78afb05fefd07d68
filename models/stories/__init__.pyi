from .belief_laws import TabulatedRV as TabulatedRV
from .counts import hierarchical_counts as hierarchical_counts
from .counts import membership as membership
from .free_cells import FreeCellsRV as FreeCellsRV
from .free_cells import free_bounds as free_bounds
from .invariant_table import invariants as invariants
from .world_models import actual_world as actual_world
from .world_models import counterfactual_world as counterfactual_world
