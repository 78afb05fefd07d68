from .histogram_gibbs import HistogramGibbs as HistogramGibbs
from .histogram_model import noisy_histograms as noisy_histograms
