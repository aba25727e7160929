"""`polypod.toml`: where it is found, what overrides it, and what is said about mistakes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from actors.protocol.config import CompactionRule, ModelSpec, ReminderRule
from orchestrator.runtime import MemorySpec, PermissionSpec
from orchestrator.settings import Settings, SettingsError, load_settings

SCRIPTED = '[models.default]\nprovider = "scripted"\nscript = "demo.jsonl"\n'


def load(folder: Path, text: str | None = None, **environ: str) -> Settings:
    environ.setdefault("POLYPOD_HOME", str(folder / "dot"))
    if text is not None:
        (folder / "polypod.toml").write_text(text, encoding="utf-8")
    return load_settings(folder, environ)


def refusal(folder: Path, text: str | None = None, **environ: str) -> SettingsError:
    with pytest.raises(SettingsError) as caught:
        load(folder, text, **environ)
    return caught.value


def test_no_file_and_no_key_is_usable_and_says_what_is_missing(tmp_path: Path) -> None:
    settings = load(tmp_path)
    assert settings.file is None
    assert settings.store_url == f"sqlite://{tmp_path}/dot/store.db"
    assert settings.gateway.port == 7420
    problem = settings.model_problem(None, {})
    assert problem is not None
    assert "OPENAI_API_KEY" in problem
    assert "polypod demo" in problem


KEYED = [
    ({"OPENAI_API_KEY": "k"}, ModelSpec("default", "openai", "gpt-5-mini", api_key_env="OPENAI_API_KEY")),
    (
        {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://127.0.0.1:1/v1", "OPENAI_MODEL": "m"},
        ModelSpec("default", "openai", "m", "http://127.0.0.1:1/v1", "OPENAI_API_KEY"),
    ),
    (
        {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": "http://127.0.0.1:1", "ANTHROPIC_MODEL": "c"},
        ModelSpec("default", "anthropic", "c", "http://127.0.0.1:1", "ANTHROPIC_API_KEY"),
    ),
]


@pytest.mark.parametrize(("environ", "expect"), KEYED)
def test_a_key_alone_makes_the_default_model(tmp_path: Path, environ: dict[str, str], expect: ModelSpec) -> None:
    settings = load(tmp_path, **environ)
    assert settings.runtime().models == {"default": expect}
    assert settings.runtime().default_model == "default"
    assert settings.model_problem(None, environ) is None


def test_a_key_does_not_add_a_model_beside_those_of_a_file(tmp_path: Path) -> None:
    assert set(load(tmp_path, SCRIPTED, OPENAI_API_KEY="k").runtime().models) == {"default"}


def test_the_nearest_file_upward_wins_and_the_home_is_last(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    home = tmp_path / "elsewhere"
    home.mkdir()
    (home / "polypod.toml").write_text("[gateway]\nport = 1\n")
    assert load(inner, POLYPOD_HOME=str(home)).gateway.port == 1
    (tmp_path / "polypod.toml").write_text("[gateway]\nport = 2\n")
    assert load(inner, POLYPOD_HOME=str(home)).gateway.port == 2
    assert load(inner, "[gateway]\nport = 3\n", POLYPOD_HOME=str(home)).gateway.port == 3


def test_paths_are_relative_to_the_file_that_names_them(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    text = SCRIPTED + '[memory]\nroot = "notes"\n[profiles.p]\nworkspace = "w"\n[store]\nurl = "sqlite:s.db"\n'
    (tmp_path / "polypod.toml").write_text(text)
    settings = load(inner)
    runtime = settings.runtime()
    assert runtime.models["default"].script == str(tmp_path / "demo.jsonl")
    assert runtime.profiles["p"].workspace == str(tmp_path / "w")
    assert runtime.memory_root == str(tmp_path / "notes")
    assert settings.store_url == f"sqlite://{tmp_path}/s.db"
    assert runtime.workspace == str(inner)
    changed = load(inner, POLYPOD__MODELS__DEFAULT__SCRIPT="mine.jsonl", POLYPOD__STORE__URL="sqlite:///abs/x.db")
    assert changed.runtime().models["default"].script == str(inner / "mine.jsonl")
    assert changed.store_url == "sqlite:///abs/x.db"


@dataclass(frozen=True)
class Override:
    variable: str
    text: str
    path: str
    expect: Any


OVERRIDES = [
    Override("POLYPOD__DIRECTORY__LEASE", "8", "directory.lease", 8.0),
    Override("POLYPOD__DIRECTORY__WARM_POOL", "0", "directory.warm_pool", 0),
    Override("POLYPOD__GATEWAY__TOKEN", "123", "gateway.token", "123"),
    Override("POLYPOD__GATEWAY__TOKENS__ACME", "ACME_TOKEN", "gateway.tokens", {"acme": "ACME_TOKEN"}),
    Override("POLYPOD__MODELS__MY_FAST__MODEL", "7", "models.my-fast.model", "7"),
    Override("POLYPOD__MODELS__MY_FAST__PRICES", "{ input = 1.5 }", "models.my-fast.prices.input", 1.5),
    Override("POLYPOD__MODELS__MY_FAST__PRICES__OUTPUT", "2", "models.my-fast.prices.output", 2),
    Override("POLYPOD__PROFILES__P__TOOLS", '["Read"]', "profiles.p.tools", ["Read"]),
    Override("POLYPOD__PROFILES__P__LIMITS__REQUESTS", "5", "profiles.p.limits.requests", 5),
    Override("POLYPOD__GATEWAY__HOST", "", "gateway.host", "127.0.0.1"),
]


@pytest.mark.parametrize("case", OVERRIDES, ids=lambda c: c.variable)
def test_variables_override_the_file(tmp_path: Path, case: Override) -> None:
    text = '[models.my-fast]\nprovider = "openai"\nmodel = "m"\n[profiles.p]\nplanning = "todo"\n'
    value: Any = load(tmp_path, text, **{case.variable: case.text}).tables
    for part in case.path.split("."):
        value = value[part] if isinstance(value, dict) else getattr(value, part)
    assert value == case.expect


@dataclass(frozen=True)
class Mistake:
    text: str
    key: str
    says: str
    environ: tuple[tuple[str, str], ...] = ()
    source: str = "polypod.toml"


MISTAKES = [
    Mistake("[directory]\nleas = 3\n", "directory.leas", "Did you mean `lease`?"),
    Mistake("[modles.x]\n", "modles", "Did you mean `models`?"),
    Mistake("[directory]\nlease = true\n", "directory.lease", "valid number"),
    Mistake("[directory]\nlease = 0\n", "directory.lease", "greater than 0"),
    Mistake('[gateway]\nport = "7420"\n', "gateway.port", "valid integer"),
    Mistake("[gateway]\nport = 70000\n", "gateway.port", "65535"),
    Mistake("directory = 3\n", "directory", "[directory]"),
    Mistake('[models.x]\nprovider = "opnai"\n', "models.x.provider", "'openai'"),
    Mistake('[models.x]\nprovider = "openai"\n', "models.x", "needs `model`"),
    Mistake('[models.x]\nprovider = "scripted"\n', "models.x", "needs `script`"),
    Mistake('[models.x]\nprovider = "chaos"\nprices = { inptu = 1 }\n', "models.x.prices.inptu", "`input`"),
    Mistake(SCRIPTED + '[profiles.p]\nmodel = "defualt"\n', "profiles.p.model", "Did you mean `default`?"),
    Mistake('[profiles.p]\nplanning = "tasks"\ntools = ["todo"]\n', "profiles.p", "names todo tools"),
    Mistake('[profiles.p]\nplanning = "none"\ntools = ["TaskList"]\n', "profiles.p", "names tasks tools"),
    Mistake('[profiles.p]\ntools = ["todo", "TaskList"]\n', "profiles.p", "one of the two"),
    Mistake("[reminder]\nrequests = -1\n", "reminder.requests", "greater than or equal to 0"),
    Mistake("[compaction]\nthreshold = 9\nretained_tokens = 9\n", "compaction", "must be below 9"),
    Mistake('[compaction]\nmodel = "x"\n', "compaction.model", "no model `x`"),
    Mistake('[models."../x"]\nprovider = "chaos"\n', "models.../x", "match pattern"),
    Mistake('[store]\nurl = "mysql://x"\n', "store", "no store url"),
    Mistake("[gateway\nport = 1\n", "", "line 1"),
    Mistake("", "gateway.prot", "Did you mean `port`?", (("POLYPOD__GATEWAY__PROT", "1"),), "POLYPOD__GATEWAY__PROT"),
    Mistake("", "gatway", "`gateway`", (("POLYPOD__GATWAY__PORT", "1"),), "POLYPOD__GATWAY__PORT"),
    Mistake("", "gateway.port", "valid integer", (("POLYPOD__GATEWAY__PORT", "x"),), "POLYPOD__GATEWAY__PORT"),
    Mistake("", "", "names a table", (("POLYPOD__GATEWAY", "x"),), "POLYPOD__GATEWAY"),
    Mistake("", "gateway.port.x", "no such key", (("POLYPOD__GATEWAY__PORT__X", "1"),), "POLYPOD__GATEWAY__PORT__X"),
]


@pytest.mark.parametrize("case", MISTAKES, ids=lambda c: c.key or c.text)
def test_a_mistake_is_named_with_its_place_and_the_way_out(tmp_path: Path, case: Mistake) -> None:
    error = refusal(tmp_path, case.text, **dict(case.environ))
    assert error.key == case.key
    assert case.says in str(error)
    assert error.source.endswith(case.source)


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "polypod.toml").write_bytes(b"a = '\xff'")
    assert "not UTF-8" in str(refusal(tmp_path))


def test_G06_no_error_and_no_repr_shows_a_token(tmp_path: Path) -> None:
    settings = load(tmp_path, '[gateway]\ntoken = "s3cret"\n')
    assert "s3cret" not in repr(settings)
    error = refusal(tmp_path, '[gateway]\ntoken = ["s3cret"]\n')
    assert "s3cret" not in str(error)
    assert error.__cause__ is None


def test_tenant_tokens_come_from_their_variables(tmp_path: Path) -> None:
    settings = load(tmp_path, '[gateway]\ntoken = "t0"\ntokens = { acme = "ACME", zeta = "ZETA" }\n')
    found = settings.tenant_tokens({"ACME": "t1", "ZETA": "t2"})
    assert found == {"t0": "default", "t1": "acme", "t2": "zeta"}
    with pytest.raises(SettingsError, match="variable ZETA is not set"):
        settings.tenant_tokens({"ACME": "t1"})
    with pytest.raises(SettingsError, match="same token"):
        settings.tenant_tokens({"ACME": "t1", "ZETA": "t1"})


def test_thresholds_and_permissions_are_checked_and_kept(tmp_path: Path) -> None:
    text = """
    [compaction]
    threshold = 100
    request_threshold = 200
    [memory]
    extract_threshold = 5
    [profiles.p.permissions]
    deny = ["Shell"]
    """
    settings = load(tmp_path, text)
    assert settings.tables.compaction.request_threshold == 200
    assert settings.tables.memory.extract_threshold == 5
    assert settings.runtime().profiles["p"].permissions == PermissionSpec(deny=("Shell",))
    assert settings.runtime().compaction == CompactionRule(100, 200)


def test_the_compaction_s_settings_reach_the_control_plane(tmp_path: Path) -> None:
    text = (
        SCRIPTED
        + """
    [compaction]
    threshold = 100
    retained_tokens = 20
    timeout = 7.5
    model = "default"
    """
    )
    runtime = load(tmp_path, text).runtime()
    assert runtime.compaction == CompactionRule(100, 0, 20, runtime.models["default"], 7.5)
    assert not load(tmp_path, SCRIPTED).runtime().compaction.on


RULES_REFUSED = [
    ("Shel", r"'Shel' names no tool\. Did you mean Shell\?"),
    ("Fly(x)", r"names no tool\. The tools are: Read, "),
    ("Read(a", r"is no rule"),
    ("Read()", r"has an empty pattern"),
    ("clarify(x)", r"clarify takes no pattern"),
    ("StopPod(x)", r"StopPod takes no pattern"),
    ("Read(*.{env,key})", r"has no meaning in a rule"),
    ("Write(src/*/../x)", r"cannot come after a wildcard"),
]


@pytest.mark.parametrize(("rule", "says"), RULES_REFUSED)
@pytest.mark.parametrize("kind", ["allow", "deny", "ask"])
def test_permission_rules_that_could_not_be_kept_are_refused(tmp_path: Path, kind: str, rule: str, says: str) -> None:
    with pytest.raises(SettingsError, match=rf"profiles\.p\.permissions\.{kind}.*{says}"):
        load(tmp_path, f'[profiles.p.permissions]\n{kind} = ["{rule}"]\n')


def test_permission_rules_come_through_in_one_form(tmp_path: Path) -> None:
    text = """
    [profiles.p.permissions]
    allow = [" Read ", "Write( src/** )"]
    ask = ["Shell(git push *)", "*"]
    deny = ["*(.env)"]
    away = true
    """
    assert load(tmp_path, text).runtime().profiles["p"].permissions == PermissionSpec(
        ("Read", "Write(src/**)"), ("*(.env)",), ("Shell(git push *)", "*"), away=True
    )


def test_K03_the_reminder_and_the_planning_face_are_settings_that_count(tmp_path: Path) -> None:
    settings = load(tmp_path, '[reminder]\nrequests = 0\ncooldown = 3\n[profiles.p]\nplanning = "todo"\n')
    assert settings.runtime().reminder == ReminderRule(0, 3)
    assert settings.runtime().profiles["p"].planning == "todo"
    assert load(tmp_path, "").runtime().reminder == ReminderRule(8, 8)


def test_the_memory_s_settings_reach_the_control_plane(tmp_path: Path) -> None:
    text = (
        SCRIPTED
        + """
    [memory]
    root = "notes"
    language = "Japanese"
    extract_threshold = 5
    extract_worker_max_input_tokens = 7
    """
    )
    runtime = load(tmp_path, text).runtime()
    assert runtime.memory == MemorySpec("Japanese", None, 5, 7)
    assert load(tmp_path, SCRIPTED).runtime().memory == MemorySpec()


DEFAULTS = [
    (SCRIPTED, "default"),
    ('[models.one]\nprovider = "chaos"\n', "one"),
    ('[models.a]\nprovider = "chaos"\n[models.b]\nprovider = "chaos"\n', None),
    (SCRIPTED + '[models.b]\nprovider = "chaos"\n[profiles.default]\nmodel = "b"\n', "b"),
]


@pytest.mark.parametrize(("text", "expect"), DEFAULTS)
def test_which_model_is_the_default_one(tmp_path: Path, text: str, expect: str | None) -> None:
    assert load(tmp_path, text).runtime().default_model == expect


def test_a_missing_key_names_its_variable_and_the_way_without(tmp_path: Path) -> None:
    text = '[models.x]\nprovider = "openai"\nmodel = "m"\napi_key_env = "MY_KEY"\n'
    problem = load(tmp_path, text).model_problem("x", {})
    assert problem is not None
    assert "MY_KEY" in problem
    assert "polypod demo" in problem
    local = '[models.x]\nprovider = "openai"\nmodel = "m"\nbase_url = "http://127.0.0.1:1/v1"\n'
    assert load(tmp_path, local).model_problem("x", {}) is None


def test_a_script_that_is_not_there_is_named(tmp_path: Path) -> None:
    problem = load(tmp_path, SCRIPTED).model_problem(None, {})
    assert problem is not None
    assert str(tmp_path / "demo.jsonl") in problem
    (tmp_path / "demo.jsonl").touch()
    assert load(tmp_path).model_problem(None, {}) is None


def test_the_script_of_a_spoiled_model_is_relative_to_its_file_too(tmp_path: Path) -> None:
    text = '[models.x]\nprovider = "chaos"\noptions = { model = { provider = "scripted", script = "a.jsonl" } }\n'
    options = load(tmp_path, text).runtime().models["x"].options
    assert options["model"]["script"] == str(tmp_path / "a.jsonl")


def test_a_number_that_the_log_could_not_hold_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path, f"[directory]\nmax_wakes = {10**20}\n").key == "directory.max_wakes"
