from . import spine_figures as spine_figures
