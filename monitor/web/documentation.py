"""Serves the documentation that `make wheel` builds into the package, under /docs/."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from monitor.model.immutable import immutable

SITE = Path(__file__).parent / "documentation"
"""The built pages. They are missing in a checkout, and in an installation from a checkout."""
ABSENT_MESSAGE = (
    "This rankwatch was installed without the built documentation. Install the wheel that `make "
    "wheel` makes, or read the folder docs of the source."
)
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".txt": "text/plain; charset=utf-8",
}


@immutable
class File:
    """One file of the site."""

    body: bytes
    media_type: str

    @property
    def tag(self) -> str:
        """The ETag of the file."""
        return f'"{hashlib.sha256(self.body).hexdigest()[:32]}"'


@dataclass
class Documentation:
    """The built site in a folder. The list of its files is read once."""

    folder: Path = SITE

    @cached_property
    def files(self) -> Mapping[str, Path]:
        """All files by their paths in the folder. No other file is ever read."""
        return {
            path.relative_to(self.folder).as_posix(): path
            for path in self.folder.rglob("*")
            if path.is_file()
        }

    @property
    def is_built(self) -> bool:
        """Whether this installation has the built site."""
        return "index.html" in self.files

    def lacks_slash(self, path: str) -> bool:
        """Return whether the path names a folder with an index, but lacks the slash at its end."""
        return path != "" and f"{path}/index.html" in self.files

    def read(self, path: str) -> File | None:
        """Return the file at this path, or None. The path need not end with .html."""
        for name in (path, f"{path}.html", f"{path}index.html"):
            file = self.files.get(name)
            if file is not None:
                media_type = _TYPES.get(file.suffix, "application/octet-stream")
                return File(body=file.read_bytes(), media_type=media_type)
        return None
