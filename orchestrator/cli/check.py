"""`check`: every damage in the home's store, by session and place. Reads only, also beside an owner."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import asdict
from pathlib import Path

from orchestrator.cli.embedding import settings_of
from orchestrator.cli.failure import FAILED, FINISHED, UsageError
from orchestrator.cli.paint import screen
from orchestrator.cli.reaching import home_of
from orchestrator.home import Home
from session_store.check import check as look
from session_store.opening import sqlite_path


def check(options: Namespace) -> int:
    store = store_file(home_of(options))
    out = screen()
    found = look(store) if store.exists() else []
    if options.json:
        out.json({"store": str(store), "damage": [asdict(damage) for damage in found]})
        return FAILED if found else FINISHED
    for damage in found:
        where = f"{damage.session} entry {damage.seq}" if damage.seq else damage.session or "the store"
        harmless = " (harmless: it is derived from the log)" if damage.harmless else ""
        out.line(f"{where}: {damage.reason}{harmless}", "yellow" if damage.harmless else "red")
    places = f"{len(found)} damaged place{'s' if len(found) != 1 else ''}"
    out.line(f"{store}: {places}" if found else f"{store}: no damage" + ("" if store.exists() else " (no store yet)"))
    return FAILED if found else FINISHED


def store_file(home: Home) -> Path:
    """The SQLite file of this home. Raises `UsageError` for a store of another kind."""
    url = settings_of(home).store_url
    path = None if url.startswith("postgres") else sqlite_path(url)
    if path is None:
        raise UsageError("this command reads SQLite stores; the settings name another kind (`[store] url`)")
    return path
