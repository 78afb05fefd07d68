from .noisy_counts import census_neighbor as census_neighbor
from .noisy_counts import differencing as differencing
from .noisy_counts import kazan_reiter as kazan_reiter
from .whole_records import block_reconstruction as block_reconstruction
from .whole_records import lee_clifton as lee_clifton
from .whole_records import mcclure_reiter as mcclure_reiter
