"""The proof that no Pod process of an earlier owner lives."""

import os
import subprocess
import sys
from pathlib import Path

from orchestrator.presence import be_present, nobody_present

ROOT = Path(__file__).resolve().parent.parent.parent
HOLD = (
    "import sys; from pathlib import Path; from orchestrator.presence import be_present;"
    "be_present(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
)


def test_nobody_is_present_in_a_new_home(tmp_path: Path) -> None:
    assert nobody_present(tmp_path / "home")


def test_a_living_process_is_noticed_and_a_killed_one_is_not(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        mine = be_present(tmp_path)  # others may hold it too
        os.close(mine)
        assert not nobody_present(tmp_path)
        process.kill()
        process.wait(10)
        assert nobody_present(tmp_path)
