from .cli import app as app
from .options import remove_empty as remove_empty
