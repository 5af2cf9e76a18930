"""Every module of the program: a process that is forked from one that has imported this begins in a moment."""

import pkgutil
from functools import cache
from importlib import import_module

import typer.main

import monitor
from monitor.cli.main import app

_LEFT_OUT = {"__main__", "compiled"}  # the first runs the program, the other makes machine code

for _module in pkgutil.walk_packages(monitor.__path__, "monitor."):
    if _module.name.rpartition(".")[2] not in _LEFT_OUT and "migrations" not in _module.name:
        import_module(_module.name)
import_module("alembic.command")  # the program loads it where it makes tables

typer.main.get_command = cache(typer.main.get_command)
typer.main.get_command(app)
