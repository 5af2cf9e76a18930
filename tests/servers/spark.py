"""A private Spark Connect server of one core, with an environment of its own in which this project is not installed."""

import os
import sys
from contextlib import contextmanager
from pathlib import Path

from servers import connect_to, free_port, missing, require, running

HOME = Path(os.environ.get("RANKWATCH_SPARK", Path(sys.prefix).parent / "spark"))
"""A virtual environment with pyspark, numpy, pandas and pyarrow, made by ``make spark``."""

# Spark forks each worker from this process. By default every worker imports all of this, from source in archives.
_PARENT_OF_WORKERS = """
import sys
from contextlib import suppress

sys.path.sort(key=lambda path: path.endswith(".zip"))
with suppress(ImportError):
    import numpy, pandas, pyarrow, pyspark.worker
from pyspark.daemon import manager

manager()
"""


@contextmanager
def running_spark(folder):
    """The port of a server that tries each task twice; ``folder`` goes with it."""
    require("java")
    home = next(HOME.glob("lib/python*/site-packages/pyspark"), None)
    if home is None:
        missing(f"Spark is not installed in {HOME}: run make spark")
    port = free_port()
    conf = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": port,
        "spark.driver.bindAddress": "127.0.0.1",
        # What lives for a minute is not worth compiling well, nor verifying.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC "
        "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote",
        "spark.driver.host": "127.0.0.1",
        "spark.log.level": "ERROR",
        "spark.local.dir": folder / "local",
        "spark.python.daemon.module": "parent_of_workers",
        # Each query is over a hundred rows, and code would be generated for each.
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": 2,
        "spark.sql.warehouse.dir": (folder / "tables").as_uri(),
        "spark.ui.enabled": "false",
    }
    modules = folder / "modules"
    modules.mkdir()
    (modules / "parent_of_workers.py").write_text(_PARENT_OF_WORKERS)
    environment = (
        f"SPARK_HOME={home}",
        f"PYSPARK_PYTHON={HOME / 'bin/python'}",
        "PYSPARK_DRIVER_PYTHON=none",  # or each session looks for sources written in Python
        f"PYTHONPATH={modules}",
    )
    start = (
        "org.apache.spark.deploy.SparkSubmit",
        "--master",
        "local[1,2]",
        "--driver-memory",
        "2g",
    )
    settings = [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
    server = (
        "--class",
        "org.apache.spark.sql.connect.service.SparkConnectServer",
        "spark-internal",
    )
    command = ["env", *environment, f"{home}/bin/spark-class", *start, *settings, *server]
    with running(command, connect_to(port), folder):
        yield port
