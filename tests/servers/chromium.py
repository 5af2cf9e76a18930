"""Chromium without a screen, driven over its DevTools protocol through two pipes: no port, no library."""

import json
import os
import subprocess
import tempfile
from contextlib import contextmanager

import pytest

from servers import require

_OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--remote-debugging-pipe",
)
_KEYS = {"Tab": 9, "Enter": 13, "ArrowLeft": 37, "ArrowRight": 39}
TROUBLE = ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown")
"""Events of a page that has said something on its console, been refused something by its policy, or failed."""


class Browser:
    """One process with one tab at a time.

    ``events`` are what the tab has told since they were last cleared.
    """

    def __init__(self, sent, told):
        self._sent, self._told, self._calls = sent, told, 0
        self._tab = ""
        self.events = []

    def call(self, method, session=None, **params):
        """The result of a command; an AssertionError with what Chromium says where it refuses."""
        self._calls += 1
        to = {} if session is None else {"sessionId": session}
        self._sent.write(
            json.dumps({"id": self._calls, "method": method, "params": params, **to}).encode()
            + b"\0"
        )
        self._sent.flush()
        while (answer := self._read()).get("id") != self._calls:
            self.events.append(answer)
        assert "error" not in answer, (method, answer)
        return answer["result"]

    def await_event(self, method):
        """Wait for this event, if it has not come since the events were cleared."""
        while not any(each["method"] == method for each in self.events):
            self.events.append(self._read())

    def _read(self):
        read = bytearray()
        while (byte := self._told.read(1)) != b"\0":
            assert byte, "Chromium has ended"
            read += byte
        return json.loads(read)

    def open_tab(self, *, width=1280, height=900, scheme="light", has_script=True):
        """An empty tab of this size, in one of both colour schemes, with or without JavaScript."""
        if self._tab:
            self.call("Target.closeTarget", targetId=self._tab)
        self._tab = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=self._tab, flatten=True)
        tab = Tab(self, attached["sessionId"])
        for domain in ("Page", "Network", "Log", "Runtime"):
            tab.call(f"{domain}.enable")
        tab.set_scheme(scheme)
        tab.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        tab.call("Emulation.setScriptExecutionDisabled", value=not has_script)
        return tab


class Tab:
    """One page that a person would look at."""

    def __init__(self, browser, session):
        self._browser, self._session = browser, session

    def call(self, method, **params):
        return self._browser.call(method, self._session, **params)

    def set_scheme(self, name):
        """Prefer light or dark colours."""
        scheme = {"name": "prefers-color-scheme", "value": name}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def go(self, url):
        """Load the page and wait until all of it is there."""
        self._browser.events.clear()
        self.call("Page.navigate", url=url)
        self._browser.await_event("Page.loadEventFired")

    def run(self, script):
        """The value of an expression in the page, awaited."""
        done = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def press(self, key):
        given = {"key": key, "code": key, "windowsVirtualKeyCode": _KEYS[key]}
        text = {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", **given, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **given)

    def press_and_go(self, key):
        """A key that leads to another page."""
        self._browser.events.clear()
        self.press(key)
        self._browser.await_event("Page.loadEventFired")


@contextmanager
def browsing():
    """A browser with a profile of its own; both go at the end."""
    program = require("chromium", "chromium-browser", "google-chrome")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        # Chromium reads commands from descriptor 3 and answers on 4. It ends when its commands end:
        # also when pytest is killed.
        command = [
            "/bin/sh",
            "-c",
            'exec "$@" 3<&0 4>&1 </dev/null >/dev/null',
            "sh",
            program,
            *_OPTIONS,
        ]
        with subprocess.Popen(
            [*command, f"--user-data-dir={profile}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": profile},
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            browser = Browser(process.stdin, process.stdout)
            try:
                yield browser
                browser.call("Browser.close")
            finally:
                process.kill()


@pytest.fixture(scope="session")
def chromium():
    """One for all tests: to start it takes longer than to show most pages."""
    with browsing() as browser:
        yield browser


_SHOWN = """({text: document.body.innerText,
    notes: [...document.querySelectorAll('svg circle title')].map((each) => each.textContent),
    spans: [...document.querySelectorAll('svg .span title')].map((each) => each.textContent),
    levels: [...document.querySelectorAll('svg .level + text')].map((each) => each.textContent),
    has_script: document.getElementById('hover') !== null,
    border: getComputedStyle(document.querySelector('.card') || document.body).borderTopWidth,
    wide: document.documentElement.scrollWidth - innerWidth})"""


def shown_in_browser(browser, file):
    """Text and charts of one file, opened from disk: it asks for nothing else, complains of nothing and fits its window."""
    tab = browser.open_tab()
    tab.go(file.absolute().as_uri())
    shown = tab.run(_SHOWN)
    told = browser.events
    asked = {
        each["params"]["request"]["url"]
        for each in told
        if each["method"] == "Network.requestWillBeSent"
    }
    assert asked == {file.absolute().as_uri()}
    assert not [each for each in told if each["method"] in TROUBLE]
    assert shown["wide"] == 0
    return shown
