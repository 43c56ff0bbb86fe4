"""Deep models as exporters write them, and faults that a judge of backends must find in them.

models.py has the models by name, faults.py the faults, `faults.csv` the hundred that were drawn, and `effects.csv` how
large each one is beside the spread of correct runs. `python -m tests.zoo` lists and writes them.
"""
