"""What image.py runs in new namespaces: mounts a root, then carries out a step in it, or starts a container.

The plan is JSON on standard input. What was seen of a container is JSON on standard output: ``exit_code`` after SIGTERM,
``health_before`` it was up and ``health`` once it was, ``owner`` its user's number, ``may`` its capabilities as the kernel has
them, ``refused`` which of some writes failed because the file system is read-only, and ``log``.
"""

import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

_SET_FLAGS, _UP = 0x8914, 1
_PATIENCE_S = 90.0


def _call(*command: str) -> None:
    subprocess.run(command, check=True, stdout=sys.stderr)


def _mount(plan: dict[str, Any]) -> Path:
    root = Path(plan["root"])
    _call("mount", "--make-rprivate", "/")
    _call("mount", "--bind", str(root), str(root))
    for source, place, mode in plan["mounts"]:
        target = str(root) + place
        _call("mount", "--rbind", source, target)
        if mode == "ro":
            _call("mount", "--options", "remount,bind,ro", target)
    _call("mount", "--types", "proc", "proc", f"{root}/proc")
    if plan["prefix"] != "/usr/local":
        _put_where_the_base_has_it(Path(plan["prefix"]), root / "usr/local")
    return root


def _put_where_the_base_has_it(prefix: Path, local: Path) -> None:
    """Let this machine's Python stand in /usr/local, as python."""
    _call("mount", "--types", "tmpfs", "tmpfs", str(local))
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for name, source in (("bin/python", f"bin/{version}"), (f"lib/{version}", f"lib/{version}")):
        (local / name).parent.mkdir()
        (local / name).symlink_to(prefix / source)


def _start(
    plan: dict[str, Any], command: list[str], *before: str, **more: Any
) -> "subprocess.Popen[bytes]":
    inner = [*before, "/usr/bin/env", f"--chdir={plan['workdir']}", *command]
    return subprocess.Popen(
        ["/usr/sbin/chroot", plan["root"], *inner],
        env=plan["environment"],
        stdin=subprocess.DEVNULL,
        **more,
    )


def _confine(user: str) -> list[str]:
    number, group = user.split(":")
    ids = [f"--reuid={number}", f"--regid={group}", "--clear-groups"]
    return ["/usr/bin/setpriv", *ids, "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all"]


def _raise_loopback() -> None:
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sh14x", b"lo", _UP))


def _refuses(path: Path) -> bool:
    """Whether root itself may not write there."""
    try:
        path.touch()
    except OSError as error:
        return error.strerror == "Read-only file system"
    return False


def _contain(plan: dict[str, Any]) -> dict[str, Any]:
    root = Path(plan["root"])
    _raise_loopback()
    scratch = root / "tmp"
    _call("mount", "--types", "tmpfs", "tmpfs", str(scratch))
    _call("mount", "--options", "remount,bind,ro", str(root))
    confined = _confine(plan["user"])

    def health() -> int:
        return _start(
            plan, plan["health"], *confined, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ).wait()

    seen: dict[str, Any] = {"health_before": health()}
    with (scratch / "log").open("wb") as log:
        container = _start(plan, plan["command"], *confined, stdout=log, stderr=log)
    deadline = time.monotonic() + _PATIENCE_S
    while (code := health()) and container.poll() is None and time.monotonic() < deadline:
        time.sleep(1)  # each question is a process
    status = dict(
        line.split(":\t", 1)
        for line in (root / f"proc/{container.pid}/status").read_text().splitlines()
        if ":\t" in line
    )
    seen |= {
        "health": code,
        "owner": int(status["Uid"].split()[0]),
        "may": status["CapBnd"] + status["CapEff"],
    }
    seen["refused"] = [
        place
        for place in ("/opt/rankwatch/x", "/etc/x", "/etc/rankwatch/x", "/usr/x")
        if _refuses(Path(f"{root}{place}"))
    ]
    container.send_signal(signal.SIGTERM)
    return seen | {"exit_code": container.wait(60), "log": (scratch / "log").read_text()}


def main() -> int:
    plan = json.load(sys.stdin)
    _mount(plan)
    if "user" not in plan:
        return _start(plan, plan["command"], stdout=sys.stdout, stderr=sys.stderr).wait()
    json.dump(_contain(plan), sys.stdout)
    return 0


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main())
