"""The sizes and times of tools, in one place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ToolLimits:
    """Characters are Unicode code points, times seconds, sizes bytes."""

    result: int = 30_000
    """Characters of one result that the model is shown."""
    read_lines: int = 2_000
    editable: int = 32 * 1024 * 1024
    """The largest file that Edit and Write replace."""
    shell_timeout: float = 120.0
    shell_timeout_max: float = 3_600.0
    live: int = 200_000
    """Characters of live output of one call."""
    spill: int = 1024 * 1024 * 1024
    """The most that one call's whole output takes on disk."""
    search_timeout: float = 30.0
    search_results: int = 1_000
    outcome_text: int = 4_000
    """Characters of one child's final text in a WaitForPods result."""
