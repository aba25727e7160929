"""What `run` and `send` make of a typed prompt."""

from orchestrator.cli.arguments import build_parser
from orchestrator.cli.run import spoken


def test_references_are_sent_as_segments_and_plain_text_as_it_is() -> None:
    assert spoken("see me@example.com", "prompt", literal=False) == {"prompt": "see me@example.com"}
    assert spoken(r"see \@a", "content", literal=False) == {"content": "see @a"}
    assert spoken("/review @a", "prompt", literal=True) == {"prompt": "/review @a"}
    assert spoken("/review @a", "prompt", literal=False) == {
        "segments": [
            {"type": "workflow_invoke", "text": "/review", "slug": "review"},
            {"type": "text", "text": " "},
            {"type": "file_ref", "text": "@a", "path": "a"},
        ]
    }


def test_literal_is_an_option_of_run_and_send() -> None:
    parse = build_parser().parse_args
    assert [parse(a).literal for a in (["run", "x"], ["run", "--literal", "x"])] == [False, True]
    assert parse(["send", "pod", "x", "--literal"]).literal
