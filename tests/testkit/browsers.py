"""Chromium and Firefox without a screen."""

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

# Without the port, Chromium ends at once, and Firefox asks its maker's servers.
FLAGS = ["--headless", "--remote-debugging-port=0"]
CHROMIUM = [
    *FLAGS,
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
    "--host-resolver-rules=MAP *.example 127.0.0.1",
]
# Firefox has no flags for these. By itself it tries HTTPS first for a name that isn't the host's own.
FIREFOX = """
user_pref("network.dns.localDomains", "app.example,evil.example");
user_pref("dom.security.https_first", false);
"""


def command(browser: str, profile: str) -> list[str]:
    match browser:
        case "chromium":
            return ["chromium", *CHROMIUM, f"--user-data-dir={profile}"]
        case "firefox":
            Path(profile, "user.js").write_text(FIREFOX)
            return ["firefox-esr", *FLAGS, "--new-instance", f"--profile={profile}"]
    raise ValueError(f"no browser {browser}")


@contextlib.contextmanager
def page(browser: str, url: str) -> Iterator[None]:
    """Shows a page. The names app.example and evil.example are this host's."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        child = subprocess.Popen(
            [*command(browser, profile), url],
            env={**os.environ, "HOME": profile},
            stdout=sys.stderr,
            stderr=sys.stderr,
        )
        try:
            yield
        finally:
            child.terminate()
            child.wait(30)
