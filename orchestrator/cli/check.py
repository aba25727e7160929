"""`check`: every damage in the home's store, by session and place. Reads only, also beside an owner."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import asdict

from orchestrator.cli.embedding import settings_of
from orchestrator.cli.failure import FAILED, FINISHED
from orchestrator.cli.paint import screen
from orchestrator.cli.reaching import home_of
from session_store.opening import damage_of, shown


def check(options: Namespace) -> int:
    url = settings_of(home_of(options)).store_url
    store, out = shown(url), screen()
    looked = damage_of(url)
    found = looked or []
    if options.json:
        out.json({"store": store, "damage": [asdict(damage) for damage in found]})
        return FAILED if found else FINISHED
    for damage in found:
        where = f"{damage.session} entry {damage.seq}" if damage.seq else damage.session or "the store"
        harmless = " (harmless: it is derived from the log)" if damage.harmless else ""
        out.line(f"{where}: {damage.reason}{harmless}", "yellow" if damage.harmless else "red")
    nothing = " (no store yet)" if looked is None else ""
    places = f"{len(found)} damaged place{'s' if len(found) != 1 else ''}"
    out.line(f"{store}: {places}" if found else f"{store}: no damage{nothing}")
    return FAILED if found else FINISHED
