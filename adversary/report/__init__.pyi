from . import plot as plot
