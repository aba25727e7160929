"""Write the table of all metrics, as the code has them, into docs/formats/metrics.md.

python -m scripts.list_metrics           write the file
python -m scripts.list_metrics --check   say whether it is up to date (exit 1 if not)
"""

import sys
from pathlib import Path

from orchestrator.metrics.catalogue import METRICS, Metric

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "docs" / "formats" / "metrics.md"
BEGIN, END = "<!-- made by scripts/list_metrics.py -->", "<!-- until here -->"


def table() -> str:
    rows = "\n".join(map(_row, METRICS))
    return f"{BEGIN}\n\n| metric | kind | labels | from | what |\n|---|---|---|---|---|\n{rows}\n\n{END}"


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    return f"| `{metric.name}` | {metric.kind} | {labels} | {metric.source} | {metric.about} |"


def page(text: str) -> str:
    """The page with the table of now in its place."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + table() + after


def main(arguments: list[str]) -> int:
    text = FILE.read_text(encoding="utf-8")
    if "--check" in arguments:
        current = text == page(text)
        print(f"{FILE.relative_to(ROOT)} is {'up to date' if current else 'out of date'}")
        return 0 if current else 1
    FILE.write_text(page(text), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
