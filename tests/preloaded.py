"""Every module of the program: a process that is forked from one that has imported this begins in a moment."""

import gc
import pkgutil
import re
from functools import cache
from importlib import import_module

import typer.main

import monitor
from monitor.boundary.options import Options
from monitor.cli.main import app

# They run the program, make machine code, or load pyspark, which few tests need.
_LEFT_OUT = re.compile(r"\.(__main__|compiled\w*|migrations\b.*|sources\.spark\.\w+)$")

gc.disable()  # all that is loaded stays to the end
for _module in pkgutil.walk_packages(monitor.__path__, "monitor."):
    if not _LEFT_OUT.search(_module.name):
        import_module(_module.name)
# What the program loads only where it makes tables, judges or reads files.
for _name in ("alembic.command", "alembic.config", "scipy.special", "pyarrow.pandas_compat"):
    import_module(_name)

# Options build their schemas at their first use.
_models = [Options]
while _models:
    _model = _models.pop()
    _model.model_rebuild()
    _models += _model.__subclasses__()

typer.main.get_command = cache(typer.main.get_command)
typer.main.get_command(app)

gc.enable()
gc.collect()
