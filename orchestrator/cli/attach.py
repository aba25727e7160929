"""`attach`: one Pod on the whole screen, live, with a box to write in. A client: somebody else owns the home."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from pathlib import Path

from orchestrator.cli.cells import clean
from orchestrator.cli.failure import FINISHED, UsageError
from orchestrator.cli.forest import Pod
from orchestrator.cli.paint import screen
from orchestrator.cli.reaching import GatewayReader, find_pod, home_of, reach
from orchestrator.cli.seam import Gateway
from orchestrator.home import Home

RETRY_PATIENCE = 1.0
"""Seconds that one try to find the owner again may take; tries repeat."""


def attach(options: Namespace) -> int:
    home = home_of(options)
    gateway = reach(home)
    if gateway is None:
        raise UsageError(
            f"nobody owns the home {home.path}, so there is nobody to attach to\n"
            "start its owner in another terminal with `polypod serve`; `polypod logs POD` reads without one"
        )
    reader = GatewayReader(gateway)
    pod = find_pod(reader, options.pod) if options.pod is not None else latest(reader)
    # The screen is drawn on the error channel: sent into a file, the terminal would stay blank.
    if not (sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty()):
        raise UsageError(
            "attach needs a terminal for its input, its output and its errors\n"
            "`polypod logs POD --follow` writes to a pipe or a file"
        )
    from orchestrator.tui.app import AttachApp  # lazy: no other command pays for Textual
    from orchestrator.tui.desk import Desk  # lazy: as above

    desk = Desk(lambda: _reach_again(home), os.fspath(Path.cwd()))
    app = AttachApp(desk, None if pod is None else desk.open(pod["id"]))
    app.run()
    left = app.attachment
    if left is not None:
        name = clean(str(left.pod.get("name") or left.pod_id))
        words = f"{name} is {left.history.status or left.pod.get('status')}"
        screen().line(f"{words}; `polypod attach {left.pod_id}` shows it again", "dim")
    return app.return_code or FINISHED


def latest(reader: GatewayReader) -> Pod | None:
    """The root that was busy last; None in a home without open Pods."""
    pods = [pod for pod in reader.pods() if pod["status"] != "ended"]
    roots = {pod["id"]: pod for pod in pods if pod.get("parent_id") is None}
    if not roots:
        return None
    latest = max(pods, key=lambda pod: str(pod.get("updated_at")))
    return roots.get(latest["root_id"]) or latest


def _reach_again(home: Home) -> Gateway | None:
    return reach(home, patience=RETRY_PATIENCE)
