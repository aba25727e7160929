"""The tidy rules: the repository keeps them, and each one notices what it is for."""

import pytest

from scripts import tidy


def test_the_repository_is_tidy(capsys: pytest.CaptureFixture[str]) -> None:
    assert (tidy.main(), capsys.readouterr().out) == (0, "")


LONG_BODY = "def f() -> None:\n" + "    pass\n" * 60
OPTION = "-".join(("index", "url"))  # in one word, no file of this project may hold it
HASH = "    --hash=sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("path", "text", "rules"),
    [
        ("actors/a.py", "X = 1\n", []),
        ("actors/a.py", "X = 1\n" * 401, ["long file"]),
        ("tests/a.py", "X = 1\n" * 401, []),
        ("tests/a.py", "X = 1\n" * 601, ["long file"]),
        ("actors/a.py", LONG_BODY, ["long function"]),
        ("tests/a.py", LONG_BODY, []),
        ("actors/a.py", "class A:\n    def f(self, a, b, c, d, e): ...\n", []),
        ("actors/a.py", "def f(a, b, c, *, d, e, f): ...\n", ["many parameters"]),
        ("actors/a.py", "def f():\n    import json\n", ["hidden import"]),
        ("actors/a.py", "def f():\n    import json  # lazy: only the export needs it\n", []),
        ("session_store/codec.py", "def f():\n    import json  # lazy: no excuse here\n", ["hidden import"]),
        ("actors/a.py", "print(1)\n", ["acts at import"]),
        ("actors/a.py", "import os\nX = os.environ['A']\n", ["acts at import"]),
        ("actors/a.py", "import os\nX = os.environ.get('A')\n", ["acts at import"]),
        ("actors/a.py", "import os\ndef f():\n    return os.environ['A']\n", []),
        ("scripts/a.py", "if __name__ == '__main__':\n    print(1)\n", []),
        ("actors/utils.py", "", ["vague name"]),
        ("actors/a.py", "class PodManager: ...\n", ["vague name"]),
        ("actors/a.py", "class BaseTool: ...\n", ["vague name"]),
        ("actors/a.py", "class Database: ...\n", []),
        ("actors/a.py", "raise NotImplementedError\n", ["unfinished"]),
        ("actors/a.py", "# TODO later\n", ["unfinished"]),
        ("actors/a.py", "def f(:\n", ["syntax"]),
        ("docs/a.md", "see /root/x/y\n", ["machine path"]),
        ("docs/a.md", "GET /v1/pods?root=1 and scope/root/x\n", []),
        ("a.lock", f"ray==2.60.0 ; python_version < '4' \\\n{HASH} \\\n{HASH}\n", []),
        ("a.lock", f"--extra-{OPTION} https://example.org\n", ["machine path", "machine path"]),
        ("a.lock", "ray @ file:///tmp/ray.whl\n", ["machine path"]),
    ],
)
def test_each_rule_notices_its_breach(path: str, text: str, rules: list[str]) -> None:
    assert [breach.rule for breach in tidy.breaches_of(path, text)] == rules
