"""Draw the turn machine's table of moves as a Mermaid diagram into docs/turn-machine.md.

python -m scripts.draw_states           write the file
python -m scripts.draw_states --check   say whether it is up to date (exit 1 if not)
"""

import sys
from collections import defaultdict
from pathlib import Path

from actors.pod.transitions import TRANSITIONS, Phase

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "docs" / "turn-machine.md"

PHASES = {
    Phase.NEW: "restored from the log, not begun",
    Phase.RESTING: "nothing is in flight; the Pod may be parked",
    Phase.COMMITTING: "one append is in flight; its answer decides what comes next",
    Phase.RESOLVING: "the references of a prompt are looked up",
    Phase.FIXING: "before a compaction: the extractor takes its range",
    Phase.COMPACTING: "the history is being made shorter",
    Phase.REQUESTING: "a model request is in flight, nothing else",
    Phase.CALLING: "tools run; results are appended as they finish",
    Phase.STALLED: "the store cannot commit; the run's end is tried again",
    Phase.RESTORING: "a rewind is committed; the whole log is folded anew",
    Phase.RELEASING: "the lease is being given up",
    Phase.GONE: "parked, ended or fenced; every stimulus is ignored",
}


def drawing() -> str:
    """The whole file. Moves from a phase to itself are left out of the drawing and stand in the table."""
    arrows: dict[tuple[Phase, Phase], list[str]] = defaultdict(list)
    rows = []
    for (phase, stimulus), afters in TRANSITIONS.items():
        for after in Phase:
            if after in afters and after is not phase:
                arrows[phase, after].append(stimulus.__name__)
        names = ", ".join(a for a in Phase if a in afters)
        rows.append(f"| {phase} | {stimulus.__name__} | {names} |")
    lines = [f"    {a} --> {b}: {', '.join(names)}" for (a, b), names in arrows.items()]
    phases = [f"- **{phase}**: {text}" for phase, text in PHASES.items()]
    return "\n".join(
        [
            "# The turn machine",
            "",
            "Drawn by `scripts/draw_states.py` from `actors/pod/transitions.py`; a test keeps it true.",
            "What a move does is in `actors/pod/turn.py`. A pair that is not in the table raises",
            "`IllegalStimulus` and changes nothing.",
            "",
            *phases,
            "",
            "```mermaid",
            "stateDiagram-v2",
            "    [*] --> new",
            *lines,
            "    gone --> [*]",
            "```",
            "",
            "| phase | stimulus | then |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


def main(arguments: list[str]) -> int:
    text = drawing()
    if "--check" in arguments:
        current = FILE.exists() and FILE.read_text(encoding="utf-8") == text
        print(f"{FILE.relative_to(ROOT)} is {'up to date' if current else 'out of date'}")
        return 0 if current else 1
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
