"""Giving back to the file system what is free inside the files of the database."""

from __future__ import annotations

import shutil

from monitor.errors import DatabaseError
from monitor.storage.address import describe, file_of
from monitor.storage.connecting import Database


def vacuum(database: Database) -> None:
    """Write a SQLite file anew without its free pages; nobody else can write meanwhile, and it takes its size once more.

    On PostgreSQL the ordinary VACUUM, which holds nobody up: it makes room usable again, and partitions are dropped with their
    files. DatabaseError where the disk has no room for it.
    """
    file = file_of(database.url)
    if file is not None and (free := shutil.disk_usage(file.parent).free) < 2 * file.stat().st_size:
        msg = (
            f"{describe(database.url)} cannot be written anew: that takes twice its size for a while, "
            f"{2 * file.stat().st_size:,} bytes, and {free:,} are free: free some space"
        )
        raise DatabaseError(msg)
    database.alone("VACUUM", patience_s=86_400.0)
