"""Secrets are masked by their names and by their places in URLs, and nothing else is."""

import time
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ledger.cleaning import _texts
from ledger.events import EVENTS
from ledger.masking import MASK, is_secret, line, masked, secret_argument, text

SECRET = "hunter2-Zq81"


@pytest.mark.parametrize(
    "name",
    [
        *("password", "PASSWORD", "dbPassword", "db_passwd", "DB_PWD", "passphrase"),
        *("api_key", "apiKey", "APIKey", "X-Api-Key", "OPENAI_API_KEY", "API_KEY_2", "apikey"),
        *("token", "hub_token", "hubToken", "push_to_hub_token", "HF_TOKEN", "HFToken"),
        *("access_token", "wandb.api_key", "secret", "client_secret", "aws_secret_access_key"),
        *("credentials", "private_key", "Authorization", "auth"),
    ],
)
def test_a_value_under_the_name_of_a_secret_is_masked(name: str) -> None:
    """U20."""
    said = {"outer": [{name: SECRET, "lr": 0.1}], name: {"user": "ana", "value": [SECRET]}}

    assert masked(said) == {
        "outer": [{name: MASK, "lr": 0.1}],
        name: {"user": MASK, "value": [MASK]},
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_memory_tokens", 4),
        ("max_tokens", "512"),
        ("tokenizer", "llama"),
        ("token_count", 9),
        ("eos_token", "<|im_end|>"),
        ("eosToken", "</s>"),
        ("pad_token", "[PAD]"),
        ("bos_token", "begin"),
        ("new_special_token", "<tool>"),
        ("image_token", 32_000),
        ("password_file", "/run/secrets/db"),
        ("api_key_env", "OPENAI_API_KEY"),
        ("secret_name", "db"),
        ("key", "loss"),
        ("primary_key", "run_id"),
        ("token", None),
        ("token", True),
        ("hub_token", ""),
        ("PWD", "/srv"),
        ("secretary", "ana"),
        ("author", "ana"),
        ("keyboard", "de"),
    ],
)
def test_a_name_that_only_sounds_alike_keeps_its_value(name: str, value: object) -> None:
    """U20: innocent keys such as num_memory_tokens keep their value."""
    assert masked({name: value}) == {name: value}


def test_a_number_is_a_password_but_no_token() -> None:
    assert masked({"password": 1234, "reply_token": 7}) == {"password": MASK, "reply_token": 7}


@pytest.mark.parametrize(
    ("said", "clean"),
    [
        ("https://ana:pw@host/rows.jsonl", "https://***@host/rows.jsonl"),
        ("https://ghp_abc@github.com/x.git", "https://***@github.com/x.git"),
        ("postgresql://u:p@ss@db:5432/x?sslmode=off", "postgresql://***@db:5432/x?sslmode=off"),
        ("see s3://k:s@b/x and s3://b/y", "see s3://***@b/x and s3://b/y"),
        ("https://h/x?token=abc&page=2", "https://h/x?token=***&page=2"),
        ("https://h/x?sig=ab%2F&se=2026", "https://h/x?sig=***&se=2026"),
        (
            "https://h/?X-Amz-Signature=ab&X-Amz-Date=1",
            "https://h/?X-Amz-Signature=***&X-Amz-Date=1",
        ),
        ("ssh://git@host/x.git", "ssh://git@host/x.git"),
        ("git@github.com:x/y.git", "git@github.com:x/y.git"),
        ("write to ana@example.com", "write to ana@example.com"),
        ("https://host/a@b", "https://host/a@b"),
        ("login failed, password=abc, try 2", "login failed, password=***, try 2"),
        ("HF_TOKEN=hf_abc python train.py lr=0.1", "HF_TOKEN=*** python train.py lr=0.1"),
        ("pad_token=<pad> max_tokens=9", "pad_token=<pad> max_tokens=9"),
        ('{"api_key": "a\\"b", "n": "1"', '{"api_key": "***", "n": "1"'),
        ('{"api_key":"ab', '{"api_key":"***'),
        ("no secret: 1 = 1 @ home", "no secret: 1 = 1 @ home"),
        ("{'api_key': 'a', 'lr': 1, 'name': 'b'}", "{'api_key': '***', 'lr': 1, 'name': 'b'}"),
        ("{'password': \"it's\", 'n': 'x'", "{'password': \"***\", 'n': 'x'"),
        ("Config(api_key='a b', name='c')", "Config(api_key='***', name='c')"),
        ('export HF_TOKEN = "a', 'export HF_TOKEN = "***'),
        ("pad_token='<pad>' title='x'", "pad_token='<pad>' title='x'"),
        ("curl -H 'Authorization: Bearer a.b' h", "curl -H 'Authorization: Bearer ***' h"),
        ("authorization: required", "authorization: required"),
        ("sent tlk_aWSAaq-uvKSvonWppZJOswnyXWy2T4FH", "sent tlk_***"),
    ],
)
def test_a_text_loses_what_its_urls_and_assignments_hold(said: str, clean: str) -> None:
    """U20: credentials in URLs."""
    assert text(said) == clean
    assert text(clean) == clean


def test_a_line_of_json_is_masked_by_its_names_and_else_stays_as_it_came() -> None:
    """U20: a line that is no report is kept, without its secrets."""
    kept = '{"kind":  "nix", "n": 1.0, "text": "é"}'

    assert line(kept) == kept
    assert line('{"kind": "nix", "credentials": {"a": ["b", 1]}}') == (
        '{"kind": "nix", "credentials": {"a": ["***", "***"]}}'
    )
    assert line('{"token": "abc", "lr": NaN}') == '{"token": "***", "lr": NaN}'


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=20),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["password", "n", "eos_token", "hub_token"]), inner)
        ),
        max_leaves=8,
    )
)
def test_masking_again_changes_nothing_and_no_secret_is_left(said: Any) -> None:
    """U20: for any document."""
    clean = masked(said)

    assert masked(clean) == clean
    for value in _under_password(clean):
        assert value in (MASK, None, True, False, ""), value


def _under_password(said: Any, *, inside: bool = False) -> list[Any]:
    """Every leaf that stands under a password."""
    if isinstance(said, dict):
        return [
            leaf
            for name, each in said.items()
            for leaf in _under_password(each, inside=inside or name == "password")
        ]
    if isinstance(said, list):
        return [leaf for each in said for leaf in _under_password(each, inside=inside)]
    return [said] if inside else []


@given(st.text(alphabet="ab@:/?&=\"\\' .-_;{,tokenpassword", max_size=60))
def test_a_text_that_was_masked_stays_as_it_is(said: str) -> None:
    assert text(text(said)) == text(said)


@pytest.mark.parametrize(
    "piece",
    [
        '\\"',
        '"',
        "a",
        "@",
        "a@",
        "://",
        "a://",
        "?a",
        "a=",
        "=",
        '"a":"',
        ',"a',
        ',\\"',
        "-a",
        "&;",
        "'",
        "'a':'",
        ",'a': \"",
        "a='",
        'a="\\',
        "authorization: bearer ",
        "tlk_",
    ],
)
def test_a_hostile_text_costs_no_more_than_its_length(piece: str) -> None:
    """U19: a worker may write lines of a megabyte, and the ledger is locked meanwhile."""
    hostile = piece * (1_000_000 // len(piece))
    began = time.perf_counter()

    text(f"{hostile}@='\"{hostile[:9]}")
    text(f"{hostile}\\")

    assert time.perf_counter() - began < 5


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        (("python", "train.py", "--lr", "0.1"), None),
        (("train", "--api-key", SECRET), 3),
        (("train", f"--hf-token={SECRET}"), 2),
        (("env", f"HF_TOKEN={SECRET}", "train"), 2),
        (("train", f"https://ana:{SECRET}@host/rows"), 2),
        (("train", "--tokenizer", "llama", "--eos-token", "</s>"), None),
        (("train", "--token"), None),
        (("train", "--ask-password", "--verbose"), None),
        (("password", "x"), None),
    ],
)
def test_the_argument_of_a_command_that_is_a_secret_is_found(
    arguments: tuple[str, ...], place: int | None
) -> None:
    assert secret_argument(arguments) == place


def test_updates_are_not_looked_through() -> None:
    """U5: thousands a second, and numbers hold no secret."""
    looked = {kind.__name__ for kind in EVENTS if _texts(kind)}

    assert "StepReported" not in looked
    assert {"RunSubmitted", "RunAnnotated", "HparamsResolved", "LineRejected"} <= looked


def test_a_name_of_any_length_is_judged_by_its_end() -> None:
    assert is_secret("x" * 10_000 + "_password")
    assert not is_secret("password_" + "x" * 10_000)
    assert not is_secret("")
    assert not is_secret("密码")
