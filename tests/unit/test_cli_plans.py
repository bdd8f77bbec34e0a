"""Plan files, and the resolved plan as YAML."""

from pathlib import Path

import pytest
import yaml

from cli.errors import CommandError, Exit
from cli.plans import read
from cli.render.plan import resolved_plan


def written(folder: Path, text: str, name: str = "plan.yaml") -> str:
    """A plan file with this text."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_paths_are_relative_to_the_folder_of_the_plan(tmp_path: Path) -> None:
    """I1: ./ and ../ are made absolute, everything else stays."""
    plan = read(
        written(
            tmp_path,
            "baseModel: ./models/a\ndataset: ../data/train.jsonl\n"
            "validation: {dataset: ./val.jsonl}\nengine: {command: [./t.py], directory: .}\n",
        )
    )

    assert plan == {
        "baseModel": str(tmp_path / "models/a"),
        "dataset": str(tmp_path.parent / "data/train.jsonl"),
        "validation": {"dataset": str(tmp_path / "val.jsonl")},
        "engine": {"command": ["./t.py"], "directory": str(tmp_path)},
    }


def test_a_command_without_a_folder_starts_in_the_folder_of_the_plan(tmp_path: Path) -> None:
    """I1: where the author of the plan would start it."""
    plan = read(written(tmp_path, "baseModel: label\nengine: {command: [python, train.py]}\n"))

    assert plan["engine"]["directory"] == str(tmp_path)
    assert plan["baseModel"] == "label"


def test_json_and_yaml_say_the_same(tmp_path: Path) -> None:
    """I1: a plan is JSON or YAML, with a byte order mark or without."""
    as_json = written(tmp_path, '\ufeff{"name": "\\ud83d\\ude00", "a": [1, 2.0e-4]}', "p.json")
    as_yaml = written(tmp_path, "name: 😀\na: [1, 2.0e-4]\n")

    assert read(as_json) == read(as_yaml) == {"name": "😀", "a": [1, 2.0e-4]}


def test_a_date_is_a_name_and_infinity_is_a_string(tmp_path: Path) -> None:
    """U11: what JSON cannot say becomes what our wire says."""
    plan = read(written(tmp_path, "name: 2026-11-29\nx: [.nan, .inf, -.inf]\n"))

    assert plan == {"name": "2026-11-29", "x": ["NaN", "Infinity", "-Infinity"]}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [1\nb: 2\n", "line 2"),
        ("- a\n- b\n", "no mapping of fields"),
        ("", "no mapping of fields"),
        ("a: !!python/object:os.system x\n", "neither JSON nor YAML"),
        ("a: !!binary aGk=\n", "something that JSON cannot say"),
        ("a: \x00\n", "neither JSON nor YAML"),
    ],
)
def test_a_plan_that_cannot_be_read_is_a_usage_error(tmp_path: Path, text: str, said: str) -> None:
    """D8, I1: exit 2 with a sentence that says where."""
    with pytest.raises(CommandError) as refused:
        read(written(tmp_path, text))

    assert refused.value.code is Exit.USAGE
    assert said in refused.value.message


def test_a_plan_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    """D8: the sentence names the file."""
    with pytest.raises(CommandError, match=r"no-plan\.yaml cannot be read: No such file"):
        read(str(tmp_path / "no-plan.yaml"))


def test_the_resolved_plan_marks_what_was_stated_and_reads_back_the_same() -> None:
    """I1, I25: the dry run's YAML is a plan again."""
    resolved = {
        "kind": "run",
        "name": "a: b # c\u202e",
        "description": None,
        "config": {"learningRate": 2e-4, "epochs": None, "schedule": {"kind": "cosine"}},
        "engine": {"sim": [{"steps": 3, "measured": {}, "seconds": 0.5}, {"stage": "损失, [x]"}]},
        "switches": ["yes", "1.0", "2026-11-29", "", "multi\nline", "{", True],
        "empty": {},
    }

    text = resolved_plan(resolved, ["config.learningRate", "engine", "name"])

    assert yaml.safe_load(text) == resolved
    assert "\u202e" not in text
    stated = [line.split(":")[0].strip() for line in text.split("\n") if line.endswith("# stated")]
    assert stated == ["name", "learningRate", "engine"]
