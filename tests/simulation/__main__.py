"""Run seeds: `python -m tests.simulation [--seed N] [--count N] [--trace]`."""

from __future__ import annotations

import argparse
import sys
import time

from tests.simulation.run import SimulationFailed, simulate


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="first seed (default 0)")
    parser.add_argument("--count", type=int, default=1, help="how many seeds, one after the other (default 1)")
    parser.add_argument(
        "--trace", action="store_true", help="print every step of a seed that fails, or of the only one"
    )
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first seed that fails")
    options = parser.parse_args()
    started, failed = time.perf_counter(), []
    totals = [0, 0, 0, 0, 0]
    for seed in range(options.seed, options.seed + options.count):
        try:
            done = simulate(seed)
        except SimulationFailed as failure:
            failed.append(seed)
            if options.trace:
                print("\n".join(failure.trace))
            print(f"seed {seed}: {failure}")
            if not options.keep_going:
                return 1
            continue
        found = (done.steps, done.sessions, done.entries, done.requests, done.opened)
        totals = [a + b for a, b in zip(totals, found, strict=True)]
    seconds = time.perf_counter() - started
    steps, sessions, entries, requests, opened = totals
    print(
        f"{options.count} seeds, {len(failed)} failed {failed or ''}: {steps} steps, {sessions} sessions, {entries}"
        f" entries, {requests} requests, {opened} incarnations; {options.count / seconds:.1f} seeds/s"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
