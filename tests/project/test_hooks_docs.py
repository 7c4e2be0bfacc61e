"""What docs/hooks.md promises to receivers is executed."""

import re
import time
from pathlib import Path

import yaml

from crawld.fetch.webhook import sign
from crawld.main.settings import HookSection, Settings

DOCUMENT = (Path(__file__).parents[2] / "docs" / "hooks.md").read_text(encoding="utf-8")


def test_the_verification_in_the_document_works() -> None:
    """It accepts what we sign, and refuses another body, another secret and what is old."""
    code = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)[0]
    names: dict[str, object] = {}
    exec(code, names)
    verify = names["is_from_crawld"]
    assert callable(verify)
    secret, body, now = b"a secret of sixteen", b'{"id": 1}', str(int(time.time()))
    headers = {"X-Crawld-Timestamp": now, "X-Crawld-Signature": sign(secret, now, body)}
    assert verify(secret, headers, body)
    assert not verify(secret, headers, body + b" ")
    assert not verify(b"another", headers, body)
    old = str(int(now) - 301)
    assert not verify(secret, {"X-Crawld-Timestamp": old, "X-Crawld-Signature": sign(secret, old, body)}, body)


def test_the_settings_in_the_document_load_and_all_are_named() -> None:
    """The example is one of each kind; every setting of a hook has its row."""
    example = yaml.safe_load(re.findall(r"```yaml\n(.*?)```", DOCUMENT, re.DOTALL)[0])
    assert [hook.kind for hook in Settings.model_validate(example).hooks] == ["webhook", "command", "notify"]
    named = re.findall(r"^\| ([a-z_, ]+) \|", DOCUMENT.split("| setting |")[1].split("\n\n")[0], re.MULTILINE)
    assert {name for cell in named for name in cell.split(", ")} == set(HookSection.model_fields)
