"""The house rules that no other tool checks. Run by scripts/check; prints one line per breach.

Each rule is a function from a file to its breaches. An exception to a rule is a row of ALLOWED with
its reason; a row that no longer excuses anything is itself a breach.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("orchestrator", "actors", "session_store")
CODE = (*PACKAGES, "scripts", "benchmarks")

MAX_FILE_LINES = 400
MAX_TEST_FILE_LINES = 600
MAX_FUNCTION_LINES = 60
MAX_PARAMETERS = 5

# The pure core: values and folds, no clock, no chance, no I/O. A name covers what is below it.
CORE = (
    "session_store.entries",
    "session_store.items",
    "session_store.codec",
    "session_store.restore",
    "session_store.status",
    "session_store.messages",
    "session_store.requests",
    "session_store.rows",
    "session_store.rules",
    "session_store.scopes",
    "session_store.state",
    "session_store.recording",
    "session_store.delivery",
    "session_store.rewinds",
    "session_store.forks",
    "session_store.importing",
    "session_store.transactions",
    "session_store.wire_codec",
    "actors.extractor.activity",
    "actors.extractor.masking",
    "actors.extractor.ranges",
    "actors.extractor.schema",
    "actors.extractor.slices",
    "actors.extractor.trigger",
    "actors.protocol.system_items",
    "actors.protocol.permissions",
    "actors.protocol.task_log",
    "actors.protocol.tasks",
    "actors.pod.asking",
    "actors.pod.calls",
    "actors.pod.endings",
    "actors.pod.facts",
    "actors.pod.interceptors",
    "actors.pod.openings",
    "actors.pod.permits",
    "actors.pod.referring",
    "actors.pod.reminder",
    "actors.pod.replies",
    "actors.pod.rewinds",
    "actors.pod.state",
    "actors.pod.steps",
    "actors.pod.turn",
    "actors.pod.transitions",
    "actors.pod.stimuli",
    "actors.pod.instructions",
    "actors.tools.task_plans",
    "orchestrator.events",
    "orchestrator.following",
    "orchestrator.forks",
    "orchestrator.usage",
    "orchestrator.directory.actions",
    "orchestrator.directory.closing",
    "orchestrator.directory.decide",
    "orchestrator.directory.facts",
    "orchestrator.directory.losses",
    "orchestrator.directory.pool",
    "orchestrator.directory.restarts",
    "orchestrator.directory.state",
)

# (rule, path, name or "" for the whole file) -> why it is right here.
ALLOWED: dict[tuple[str, str, str], str] = {
    ("machine path", "scripts/tidy.py", ""): "names what it looks for",
    ("machine path", "tests/test_tidy.py", ""): "shows what is refused",
    ("unfinished", "scripts/tidy.py", ""): "names what it looks for",
}

VAGUE_FILE = re.compile(r"^(base|common|constants|helpers?|managers?|misc|utils?)$")
VAGUE_CLASS = re.compile(r"(Base|Common|Helpers?|Managers?|Misc|Utils?)$|^(Base|Abstract)[A-Z]")
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError)\b")
MACHINE_PATH = re.compile(
    r"(?<![\w.\-/])/(?:work|home|root|opt/(?:wheels|pypi))/|py(?:pi|thonhosted)\.org|--(?:extra-)?index-ur[l]|--find-links"
)
LOCK_LINE = re.compile(r"#.*|[\w.\-]+==[\w.]+( ; [^/]+)?( \\)?|    --hash=sha256:[0-9a-f]{64}( \\)?|")
# Calls that do something: no module makes one while it is imported.
AT_IMPORT = re.compile(
    r"^(print|open|input|exec|eval|os\.(getenv|environ\.\w+|makedirs|chdir)|sys\.path\.\w+|time\.\w+|random\.\w+"
    r"|subprocess\.\w+|socket\.\w+|logging\.basicConfig|signal\.signal|ray\.\w+|asyncio\.run)$"
)


def is_core(path: str) -> bool:
    """Whether the file belongs to the pure core."""
    module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return any(module == name or module.startswith(name + ".") for name in CORE)


@dataclass(frozen=True, slots=True)
class Source:
    """One Python file: where it is, what it says, and its tree."""

    path: str
    text: str
    tree: ast.Module

    @property
    def is_test(self) -> bool:
        return self.path.startswith("tests/")

    def line(self, number: int) -> str:
        return self.text.splitlines()[number - 1]


@dataclass(frozen=True, slots=True)
class Breach:
    """One broken rule; `name` is what ALLOWED may excuse, `line` is 0 for a whole file."""

    rule: str
    path: str
    line: int
    name: str
    says: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.says}"


Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(source: Source) -> Iterator[tuple[str, Function]]:
    """Every function with its qualified name."""

    def walk(node: ast.AST, prefix: str) -> Iterator[tuple[str, Function]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, Function):
                yield prefix + child.name, child
            scope = f"{child.name}." if isinstance(child, Function | ast.ClassDef) else ""
            yield from walk(child, prefix + scope)

    yield from walk(source.tree, "")


def long_file(source: Source) -> Iterator[Breach]:
    limit = MAX_TEST_FILE_LINES if source.is_test else MAX_FILE_LINES
    count = len(source.text.splitlines())
    if count > limit:
        yield Breach("long file", source.path, 0, "", f"{count} lines, at most {limit}")


def long_function(source: Source) -> Iterator[Breach]:
    for name, node in functions(source):
        count = (node.end_lineno or node.lineno) - node.lineno + 1
        if count > MAX_FUNCTION_LINES and not source.is_test:
            yield Breach(
                "long function", source.path, node.lineno, name, f"{name}: {count} lines, at most {MAX_FUNCTION_LINES}"
            )


def many_parameters(source: Source) -> Iterator[Breach]:
    for name, node in functions(source):
        spec = node.args
        given = [*spec.posonlyargs, *spec.args, *spec.kwonlyargs, *filter(None, (spec.vararg, spec.kwarg))]
        count = len([argument for argument in given if argument.arg not in ("self", "cls")])
        if count > MAX_PARAMETERS and not source.is_test:
            yield Breach(
                "many parameters", source.path, node.lineno, name, f"{name}: {count}, at most {MAX_PARAMETERS}"
            )


def hidden_import(source: Source) -> Iterator[Breach]:
    for name, function in functions(source):
        for node in ast.walk(function):
            if not isinstance(node, ast.Import | ast.ImportFrom) or source.is_test:
                continue
            if is_core(source.path):
                yield Breach("hidden import", source.path, node.lineno, name, "the core imports at the top only")
            elif "# lazy: " not in source.line(node.lineno):
                yield Breach("hidden import", source.path, node.lineno, name, "say why on that line: `# lazy: reason`")


def act_at_import(source: Source) -> Iterator[Breach]:
    def running(node: ast.AST) -> Iterator[ast.AST]:
        """What runs when the module is imported: not the inside of functions."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, Function | ast.Lambda):
                continue
            if isinstance(child, ast.If) and "__name__" in ast.unparse(child.test):
                continue
            yield child
            yield from running(child)

    for node in [] if source.is_test else running(source.tree):
        if isinstance(node, ast.Call) and AT_IMPORT.match(ast.unparse(node.func)):
            yield Breach("acts at import", source.path, node.lineno, "", ast.unparse(node.func))
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "os.environ":
            yield Breach("acts at import", source.path, node.lineno, "", "os.environ")


def vague_name(source: Source) -> Iterator[Breach]:
    if VAGUE_FILE.match(Path(source.path).stem):
        yield Breach("vague name", source.path, 0, "", "the file's name says nothing")
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ClassDef) and VAGUE_CLASS.search(node.name):
            yield Breach("vague name", source.path, node.lineno, node.name, f"class {node.name}")


def unfinished(source: Source) -> Iterator[Breach]:
    for number, line in enumerate(source.text.splitlines(), 1):
        if not source.is_test and (found := UNFINISHED.search(line)):
            yield Breach("unfinished", source.path, number, "", found[0])


def machine_path(path: str, text: str) -> Iterator[Breach]:
    """No tracked file names this machine or a package index; a lock holds versions and hashes, nothing else."""
    for number, line in enumerate(text.splitlines(), 1):
        if found := MACHINE_PATH.search(line):
            yield Breach("machine path", path, number, "", found[0])
        if path.endswith(".lock") and not LOCK_LINE.fullmatch(line):
            yield Breach("machine path", path, number, "", f"not a version or a hash: {line.strip()}")


RULES: tuple[Callable[[Source], Iterable[Breach]], ...] = (
    long_file,
    long_function,
    many_parameters,
    hidden_import,
    act_at_import,
    vague_name,
    unfinished,
)


def breaches_of(path: str, text: str) -> Iterator[Breach]:
    """All breaches in one file, before ALLOWED is asked."""
    yield from machine_path(path, text)
    if path.endswith(".py") and path.startswith(tuple(f"{folder}/" for folder in (*CODE, "tests"))):
        try:
            source = Source(path, text, ast.parse(text, path))
        except SyntaxError as error:
            yield Breach("syntax", path, error.lineno or 0, "", error.msg)
            return
        for rule in RULES:
            yield from rule(source)


def is_excused(breach: Breach) -> tuple[str, str, str] | None:
    """The row of ALLOWED that excuses it."""
    for name in (breach.name, ""):
        if (row := (breach.rule, breach.path, name)) in ALLOWED:
            return row
    return None


def tracked_files() -> Iterator[tuple[str, str]]:
    """Files git knows or would add, as text; binary ones are left out. Without git: the files of the code folders."""
    # The checkout may belong to someone else, as it does in many a container.
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, check=False, text=True)
    paths = set(filter(None, listing.stdout.split("\0")))
    if listing.returncode != 0:
        paths = {p.relative_to(ROOT).as_posix() for folder in (*CODE, "tests") for p in (ROOT / folder).rglob("*.py")}
    for path in sorted(paths):
        try:
            yield path, (ROOT / path).read_text(encoding="utf-8")
        except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
            continue


def main() -> int:
    files = dict(tracked_files())
    found = [breach for path, text in files.items() for breach in breaches_of(path, text)]
    used = {row for breach in found if (row := is_excused(breach))}
    open_breaches = [breach for breach in found if not is_excused(breach)]
    for breach in open_breaches:
        print(breach)
    stale = [row for row in ALLOWED if row not in used and row[1] in files]
    for rule, path, name in stale:
        print(f"{path}: ALLOWED excuses {rule!r} {name!r}, but nothing needs it: remove the row")
    return 1 if open_breaches or stale else 0


if __name__ == "__main__":
    sys.exit(main())
