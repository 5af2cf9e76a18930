"""The container image without an engine: a Dockerfile's own steps, each in a root of its own, and the container that they make.

In place of the base image stand this machine's /usr and Python, read-only; all else in a root is made by the steps. A step
runs under chroot in a mount namespace that ends with it. The container runs as its numbered user, without capabilities, on a
root mounted read-only, in a network and a process tree of its own. What an engine does besides (layers, seccomp) takes no part.
Needs root.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from servers import missing, require

_INSIDE = Path(__file__).with_name("image_inside.py")
_BASE = ("bin", "sbin", "usr", *(path.name for path in sorted(Path("/").glob("lib*"))))
_ETC = (
    *(
        "ca-certificates",
        "ca-certificates.conf",
        "default",
        "ld.so.cache",
        "ld.so.conf",
        "ld.so.conf.d",
        "login.defs",
    ),
    *("nsswitch.conf", "pip.conf", "resolv.conf", "ssl"),
)
_HOSTS_OWN = re.compile(
    r"(?i)PIP_(?!CONSTRAINT|BUILD_CONSTRAINT).*|(https?|no|all)_proxy|SSL_CERT_.*|REQUESTS_CA_BUNDLE"
)
"""How packages are reached from here, which is no part of the image."""


@dataclass(slots=True, kw_only=True)
class Stage:
    """One FROM and what follows: a root, and the settings that instructions leave."""

    root: Path
    environment: dict[str, str] = field(
        default_factory=lambda: {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}
    )
    settings: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)

    @property
    def workdir(self) -> str:
        return self.settings.get("WORKDIR", "/")


def instructions(dockerfile: Path) -> list[tuple[str, str]]:
    """Each instruction with its arguments on one line.

    Those before it that are ARGs are filled in.
    """
    lines = [
        line
        for line in dockerfile.read_text(encoding="utf-8").splitlines()
        if not line.startswith("#")
    ]
    text = "\n".join(lines).replace("\\\n", " ")
    found = [
        (line.split()[0], line.split(maxsplit=1)[1].strip())
        for line in text.splitlines()
        if line.strip()
    ]
    given = dict(arguments.split("=", 1) for word, arguments in found if word == "ARG")
    return [
        (word, re.sub(r"\$\{(\w+)\}", lambda name: given.get(name[1], name[0]), arguments))
        for word, arguments in found
    ]


def build(dockerfile: Path, context: Path, home: Path) -> Stage:
    """The last stage of the Dockerfile, with its root below ``home``.

    Fails the test with what a step wrote when it fails.

    Only the package itself is compiled: all the others would take a third of the time, and the
    container needs few of them."""
    if os.geteuid() != 0:
        missing("the image's steps need root")
    stages: dict[str, Stage] = {}
    stage = Stage(root=home)
    for word, arguments in instructions(dockerfile):
        if word == "FROM":
            name = arguments.partition(" AS ")[2] or str(len(stages))
            stage = stages[name] = Stage(root=_root(home / name))
        elif word == "COPY":
            _copy(stage, arguments, context, stages)
        elif word == "RUN":
            _run(stage, arguments)
        elif word in {"ENV", "LABEL"}:
            pairs = dict(pair.split("=", 1) for pair in shlex.split(arguments))
            kept = stage.environment if word == "ENV" else stage.labels
            kept |= {
                key: value.replace("$PATH", kept.get("PATH", "")) for key, value in pairs.items()
            }
        else:
            stage.settings[word] = arguments
            if word == "WORKDIR":
                _inner(stage, arguments).mkdir(parents=True, exist_ok=True)
    return stage


def run(stage: Stage, config: Path, state: Path) -> dict[str, Any]:
    """Start the container on the folder ``config`` until its health check passes, then stop it.

    What was seen.

    ``state`` stands in for the volume. Keys: see image_inside.py.
    """
    owner = int(stage.settings["USER"].partition(":")[0])
    shutil.copytree(_inner(stage, stage.settings["VOLUME"]), state)
    os.chown(state, owner, owner)
    plan = {
        "root": str(stage.root),
        "mounts": [
            [str(config), "/etc/rankwatch", "ro"],
            [str(state), stage.settings["VOLUME"], "rw"],
            *_mounts(),
        ],
        "environment": stage.environment,
        "workdir": stage.workdir,
        "user": stage.settings["USER"],
        "command": json.loads(stage.settings["ENTRYPOINT"]) + json.loads(stage.settings["CMD"]),
        "health": json.loads(stage.settings["HEALTHCHECK"].partition("CMD")[2]),
    }
    for _, place, _ in plan["mounts"]:
        _inner(stage, str(place)).mkdir(parents=True, exist_ok=True)
    done = _unshared("--net", "--pid", "--fork", "--kill-child", plan=plan)
    if done.returncode:
        pytest.fail(f"the container did not run:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


def _inner(stage: Stage, path: str) -> Path:
    return (
        stage.root / stage.workdir.lstrip("/") / path
        if not path.startswith("/")
        else stage.root / path.lstrip("/")
    )


def _root(root: Path) -> Path:
    """An empty root: places to mount the base at, and the little of /etc that its programs read."""
    for name in ("dev", "proc", "tmp", "root/.cache/pip", "etc"):
        (root / name).mkdir(parents=True)
    (root / "tmp").chmod(0o1777)
    for name in _BASE:
        if Path("/", name).is_symlink():
            (root / name).symlink_to(Path("/", name).readlink())
        else:
            (root / name).mkdir()
    for source in (Path("/etc", name) for name in _ETC):
        if source.is_dir():
            shutil.copytree(source, root / "etc" / source.name, symlinks=True)
        elif source.exists():
            shutil.copy(source, root / "etc" / source.name)
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n", encoding="utf-8")
    (root / "etc/group").write_text("root:x:0:\n", encoding="utf-8")
    for source in (Path(".config/pip/pip.conf"), Path(".pip/pip.conf")):
        if (Path.home() / source).exists():
            (root / "root" / source).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(Path.home() / source, root / "root" / source)
    (root / sys.base_prefix.lstrip("/")).mkdir(parents=True, exist_ok=True)
    return root


def _mounts() -> list[list[str]]:
    """The base, read-only: source, place, mode."""
    kept = [f"/{name}" for name in _BASE if not Path("/", name).is_symlink()]
    prefix = [] if Path(sys.base_prefix).is_relative_to("/usr") else [sys.base_prefix]
    return [[path, path, "ro"] for path in (*kept, *prefix)] + [["/dev", "/dev", "rw"]]


def _copy(stage: Stage, arguments: str, context: Path, stages: dict[str, Stage]) -> None:
    *sources, destination = arguments.split()
    if sources[0].startswith("--from="):
        origin = stages[sources.pop(0).partition("=")[2]].root
        sources = [source.lstrip("/") for source in sources]
    else:
        origin = context
    for source in sources:
        target = _inner(stage, destination) / (source if destination.endswith("/") else "")
        target.parent.mkdir(parents=True, exist_ok=True)
        if (origin / source).is_dir():
            leave = shutil.ignore_patterns("__pycache__", "*.pyc") if origin is context else None
            # What comes from another stage is half a gigabyte, and no step changes it any more.
            how = shutil.copy2 if origin is context else os.link
            shutil.copytree(
                origin / source,
                target,
                symlinks=True,
                ignore=leave,
                copy_function=how,
                dirs_exist_ok=True,
            )
        else:
            shutil.copy(origin / source, target)


def _run(stage: Stage, arguments: str) -> None:
    cached, command = re.fullmatch(
        r"(?:--mount=type=cache,target=(\S+) +)?(.*)", arguments
    ).groups()  # type: ignore[union-attr]
    cache = Path(os.environ.get("PIP_CACHE_DIR", Path.home() / ".cache" / "pip"))
    cache.mkdir(parents=True, exist_ok=True)
    outside = {name: value for name, value in os.environ.items() if _HOSTS_OWN.fullmatch(name)}
    plan = {
        "root": str(stage.root),
        "mounts": [*_mounts(), *([[str(cache), cached, "rw"]] if cached else [])],
        "environment": outside | stage.environment | {"HOME": "/root"},
        "workdir": stage.workdir,
        "command": [
            "/bin/sh",
            "-c",
            re.sub(r"(-m compileall .*/lib)$", r"\1/*/site-packages/monitor", command),
        ],
    }
    done = _unshared(plan=plan)
    if done.returncode:
        pytest.fail(f"the step failed: RUN {arguments}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")


def _unshared(*namespaces: str, plan: dict[str, Any]) -> "subprocess.CompletedProcess[str]":
    plan["prefix"] = sys.base_prefix
    command = [require("unshare"), "--mount", *namespaces, sys.executable, str(_INSIDE)]
    return subprocess.run(
        command, input=json.dumps(plan), capture_output=True, text=True, check=False
    )
