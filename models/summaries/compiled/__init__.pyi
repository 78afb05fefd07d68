from .noisy_densities import SOURCE as SOURCE
