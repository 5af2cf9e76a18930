"""Real top-20 lists of fourteen days, of healthy candidates and of faulty ones; README.md names the source and the arms."""

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

_PACKED = Path(__file__).with_name("lists.parquet")


@cache
def lists_folder() -> Path:
    """A folder an arm, in it a Parquet file a day: ``baseline/2024-01-08.parquet``. Removed when the process ends."""
    folder = Path(tempfile.mkdtemp(prefix="rankwatch-lists-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    packed = pq.read_table(_PACKED)
    for arm in packed["arm"].unique().to_pylist():
        (folder / arm).mkdir()
        of_arm = packed.filter(pc.equal(packed["arm"], arm))
        columns = ("user_id", "items", "grades") if arm == "relevance" else ("user_id", "activity", "country", "items")
        for day in of_arm["day"].unique().to_pylist():
            pq.write_table(of_arm.filter(pc.equal(of_arm["day"], day)).select(columns), folder / arm / f"{day}.parquet")
    return folder
