"""What a new Pod is created with: profiles, models, limits, scopes, names."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from actors.protocol.config import ModelSpec, PodConfig, ReminderRule
from actors.protocol.ids import child_id
from actors.protocol.permissions import PermissionRules
from actors.protocol.tasks import TASK_TOOLS, Face
from actors.protocol.tools import CallKey, SpawnOrder
from orchestrator.directory.settings import DirectorySettings
from orchestrator.pods import OrderRefused, PodFactory
from orchestrator.ports import NewPod
from orchestrator.runtime import Limits, PermissionSpec, ProfileSpec, RuntimeSettings
from session_store.entries import ToolSpec
from session_store.items import Segment
from session_store.requests import Create, PodRow, Scope

ROOT = "01a22e7a-5667-7071-b9d2-82ed22f41e3f"
NEW = NewPod("acme", "m1", (Segment("text", "go"),))


def specs(names: tuple[str, ...]) -> tuple[ToolSpec, ...]:
    return tuple(ToolSpec(name, "", {}) for name in names)


def factory(**profiles: ProfileSpec) -> PodFactory:
    settings = RuntimeSettings(
        models={
            "big": ModelSpec("big", "openai", "gpt"),
            "small": ModelSpec("small", "openai", "mini"),
            "toy": ModelSpec("toy", "scripted", script="scripts/toy.jsonl"),
        },
        profiles=profiles,
        directory=DirectorySettings(max_depth=3, max_children=10, max_pods=99),
        workspace="/ws",
        memory_root="/ws/memory",
        default_model="big",
    )
    return PodFactory(settings, specs)


def config_of(create: Create) -> PodConfig:
    return PodConfig.read(create.start.config)


def row_of(create: Create, depth: int = 0) -> PodRow:
    known: dict[str, Any] = dict.fromkeys(PodRow.__dataclass_fields__)
    known |= {"id": create.session, "tenant": create.tenant, "name": create.name, "depth": depth}
    known |= {"root_id": ROOT, "config": create.start.config, "scope": create.scope}
    return PodRow(**known)


def order(**fields: Any) -> SpawnOrder:
    return replace(SpawnOrder(CallKey(ROOT, 7, 1), "run-1", 4, "do it"), **fields)


def test_a_root_by_default() -> None:
    create = factory().root(NEW, ROOT)
    config = config_of(create)
    assert (config.name, create.name) == ("task-22f41e3f", "task-22f41e3f")
    assert (config.model.name, config.profile, config.workspace) == ("big", "default", "/ws")
    assert (config.limits.requests, config.max_depth, config.max_children) == (1000, 3, 10)
    assert "SpawnPod" in config.tools
    assert "Shell" in config.tools
    assert [s.name for s in create.start.tools] == list(config.tools)
    assert "SpawnPod" in create.start.system_prompt
    (message,) = create.messages
    assert (message.message_id, message.kind, message.sender) == ("m1", "prompt", "user")
    assert (create.tenant, create.limits.max_pods, create.parent) == ("acme", 99, None)


def test_a_pod_without_a_prompt_has_no_message() -> None:
    assert factory().root(NewPod("acme", "m1"), ROOT).messages == ()


def test_a_profile_says_model_tools_prompt_workspace_and_limits() -> None:
    profile = ProfileSpec("q", "small", "Be brief.", ("Read",), "todo", "/other", Limits(requests=5, depth=1))
    create = factory(q=profile).root(replace(NEW, profile="q"), ROOT)
    config = config_of(create)
    assert (config.model.name, config.tools, config.planning, config.workspace) == (
        "small",
        ("Read", "todo"),
        "todo",
        "/other",
    )
    assert (config.limits.requests, config.max_depth) == (5, 1)
    assert create.start.system_prompt == "Be brief."


@dataclass(frozen=True)
class Faced:
    planning: Face | None
    tools: tuple[str, ...] | None
    face: Face
    planning_tools: tuple[str, ...]


FACES = [
    Faced(None, None, "tasks", TASK_TOOLS),
    Faced("tasks", None, "tasks", TASK_TOOLS),
    Faced("todo", None, "todo", ("todo",)),
    Faced("none", None, "none", ()),
    Faced(None, ("Read",), "none", ()),
    Faced(None, ("TaskList", "Read"), "tasks", ("TaskList",)),
    Faced(None, ("Read", "todo"), "todo", ("todo",)),
    Faced("tasks", ("TaskGet", "Read"), "tasks", ("TaskGet", "TaskCreate", "TaskUpdate", "TaskList")),
    Faced("todo", ("Read",), "todo", ("todo",)),
    Faced("none", ("Read",), "none", ()),
]


@pytest.mark.parametrize("case", FACES, ids=lambda c: f"{c.planning} {c.tools}")
def test_a_profile_chooses_the_planning_face_and_its_tools(case: Faced) -> None:
    profile = ProfileSpec("q", tools=case.tools, planning=case.planning)
    config = config_of(factory(q=profile).root(replace(NEW, profile="q"), ROOT))
    assert config.planning == case.face
    assert tuple(t for t in config.tools if t in (*TASK_TOOLS, "todo")) == case.planning_tools
    assert ("Shell" in config.tools) == (case.tools is None)


def test_the_reminder_is_fixed_when_a_tree_begins() -> None:
    made = factory()
    early = replace(made, settings=replace(made.settings, reminder=ReminderRule(3, 5)))
    parent = early.root(NEW, ROOT)
    assert config_of(parent).reminder == ReminderRule(3, 5)
    assert config_of(made.child(row_of(parent), order())).reminder == ReminderRule(3, 5)


def test_the_order_beats_the_profile_and_limits_only_get_narrower() -> None:
    made = factory(q=ProfileSpec("q", "small", limits=Limits(requests=5, seconds=9.0)))
    new = replace(NEW, profile="q", model="big", workspace="/mine", limits={"requests": 50, "seconds": 2.5, "depth": 9})
    config = config_of(made.root(new, ROOT))
    assert (config.model.name, config.workspace) == ("big", "/mine")
    assert (config.limits.requests, config.limits.seconds, config.max_depth) == (5, 2.5, 3)


def test_a_script_is_an_absolute_path() -> None:
    assert config_of(factory().root(replace(NEW, model="toy"), ROOT)).model.script == "/ws/scripts/toy.jsonl"


def test_a_child_follows_from_its_call_and_its_parent() -> None:
    parent = factory().root(replace(NEW, limits={"tokens": 100}), ROOT)
    create = factory().child(row_of(parent), order())
    config = config_of(create)
    assert create.session == child_id(ROOT, 7, 1)
    assert create.message_id == create.messages[0].message_id == f"{ROOT}:7:1"
    assert create.messages[0].sender == ROOT
    assert create.parent is not None
    assert (create.parent.session, create.parent.epoch, create.parent.run_id) == (ROOT, 4, "run-1")
    assert (create.name, config.parent_id, config.root_id, config.depth) == ("pod-7-2", ROOT, ROOT, 1)
    assert (config.model.name, config.workspace, config.limits.tokens) == ("big", "/ws", 100)
    assert (create.scope, config.scope) == (None, None)
    assert create.tenant == "acme"
    assert "report" in create.start.system_prompt


def test_S11_a_child_has_its_parents_model_also_when_the_settings_have_changed() -> None:
    parent = factory().root(NEW, ROOT)
    changed = factory()
    changed = replace(changed, settings=replace(changed.settings, default_model="small"))
    assert config_of(changed.child(row_of(parent), order())).model.name == "big"


def test_depth_is_counted_from_the_pod_that_is_limited() -> None:
    parent = factory().root(NEW, ROOT)
    config = config_of(factory().child(row_of(parent), order(limits={"depth": 1, "children": 2})))
    assert (config.max_depth, config.max_children) == (2, 2)
    leaf = config_of(factory().child(row_of(parent), order(limits={"depth": 0})))
    assert leaf.max_depth == 1


def test_a_pod_at_the_lowest_level_is_not_told_of_children() -> None:
    parent = factory().root(replace(NEW, limits={"depth": 1}), ROOT)
    create = factory().child(row_of(parent), order())
    assert "SpawnPod" not in create.start.system_prompt


def test_a_child_shares_its_parents_scope_and_an_explicit_one_moves() -> None:
    parent = factory().root(replace(NEW, scope=Scope(("docs",), ("src",))), ROOT)
    shared = factory().child(row_of(parent), order())
    assert (shared.scope, config_of(shared).scope) == (None, Scope(("docs",), ("src",)))
    own = factory().child(row_of(parent), order(scope=Scope(("docs/a",), ("/ws/src/b",))))
    assert own.scope == config_of(own).scope == Scope(("docs/a",), ("/ws/src/b",))


REFUSED = [
    ({"profile": "quik"}, r"no profile `quik`.*Did you mean `quick`"),
    ({"model": "bigg"}, r"no model `bigg`.*Did you mean `big`"),
    ({"name": "../x"}, r"name"),
    ({"limits": {"request": 5}}, r"no limit `request`.*`requests`"),
    ({"limits": {"requests": 0}}, r"`requests` is a whole number of at least 1"),
    ({"limits": {"requests": 1.5}}, r"`requests` is a whole number"),
    ({"limits": {"tokens": 10**23}}, r"`tokens` is a whole number"),
    ({"limits": {"seconds": 1e300}}, r"`seconds` is a number above 0"),
    ({"limits": {"seconds": True}}, r"`seconds` is a number above 0"),
    ({"limits": {"seconds": float("nan")}}, r"`seconds` is a number above 0"),
    ({"scope": Scope(write=("/etc",))}, r"write /etc, which is outside the workspace"),
    ({"scope": Scope(read=("../x",))}, r"read \.\./x, which is outside the workspace"),
]


@pytest.mark.parametrize(("fields", "says"), REFUSED)
def test_a_root_that_cannot_be_is_refused_in_words(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(OrderRefused, match=says):
        factory(quick=ProfileSpec("quick")).root(replace(NEW, **fields), ROOT)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"scope": Scope(write=("docs",))}, r"write docs, which is outside the scope of its parent"),
        ({"scope": Scope(read=("lib",))}, r"read lib, which is outside"),
        ({"profile": "far"}, r"read /far, which is outside the scope of its parent"),
        ({"profile": "none"}, r"no profile `none`"),
        ({"name": ""}, r"must not be empty"),
        ({"limits": {"depth": -1}}, r"`depth` is a whole number of at least 0"),
    ],
)
def test_L01_a_child_that_cannot_be_is_refused_in_words(fields: dict[str, Any], says: str) -> None:
    made = factory(far=ProfileSpec("far", workspace="/far"))
    parent = made.root(replace(NEW, scope=Scope(("docs",), ("src",))), ROOT)
    with pytest.raises(OrderRefused, match=says):
        made.child(row_of(parent), order(**fields))


def test_a_child_in_a_workspace_of_its_own_keeps_its_parents_bounds() -> None:
    made = factory(near=ProfileSpec("near", workspace="/ws/src/lib"))
    parent = made.root(replace(NEW, scope=Scope(("docs",), ("src",))), ROOT)
    config = config_of(made.child(row_of(parent), order(profile="near")))
    assert (config.workspace, config.scope) == ("/ws/src/lib", Scope(("/ws/docs",), ("/ws/src",)))


def test_no_model_at_all_says_what_to_do() -> None:
    bare = replace(factory(), settings=replace(factory().settings, models={}, default_model=None))
    with pytest.raises(OrderRefused, match="No model is configured"):
        bare.root(NEW, ROOT)


CAREFUL = ProfileSpec("careful", permissions=PermissionSpec(ask=("Shell",), deny=("Read(.env)",)))
BOLD = ProfileSpec("bold", permissions=PermissionSpec(allow=("Shell",), bypass=True))


def test_S11_permission_rules_are_fixed_in_the_config_with_the_folder_they_speak_of() -> None:
    create = factory(careful=CAREFUL).root(replace(NEW, profile="careful", workspace="/else"), ROOT)
    assert config_of(create).permissions == (PermissionRules("careful", "/else", ask=("Shell",), deny=("Read(.env)",)),)
    assert config_of(factory().root(NEW, ROOT)).permissions == ()


def test_a_child_escapes_no_rule_of_the_pods_above_by_another_profile() -> None:
    made = factory(careful=CAREFUL, bold=BOLD)
    parent = made.root(replace(NEW, profile="careful"), ROOT)
    (above,) = config_of(parent).permissions
    own = PermissionRules("bold", "/ws", allow=("Shell",), bypass=True)
    child = made.child(row_of(parent), order(profile="bold"))
    assert config_of(child).permissions == (own, above)
    grandchild = made.child(row_of(child, 1), order(profile="default"))
    assert config_of(grandchild).permissions == (own, above)
    same = made.child(row_of(parent), order())
    assert config_of(same).permissions == (above,)


def test_every_pod_has_clarify_unless_its_profile_names_its_tools() -> None:
    made = factory(few=ProfileSpec("few", tools=("Read",)))
    assert "clarify" in config_of(made.root(NEW, ROOT)).tools
    assert config_of(made.root(replace(NEW, profile="few"), ROOT)).tools == ("Read",)
