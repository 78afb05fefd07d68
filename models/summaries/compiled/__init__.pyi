from .machine_code import SOURCE as SOURCE
