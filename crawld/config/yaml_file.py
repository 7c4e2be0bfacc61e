"""A settings file as YAML: words that look like text are text, and a name stands once in a section."""

import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from crawld.access import access_refused
from crawld.errors import ConfigError


class _Loader(yaml.SafeLoader):
    """YAML in which `off`, `no` and `1:30` are text, as they look, and a name stands once in a section.

    YAML 1.1 takes them for false, false and ninety.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Refuse a name that is given twice: the first value would be lost without a word."""
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value != "<<" and key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"{key.value} is given twice", key.start_mark)
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


# Of what YAML 1.1 does not read as text only null keeps its meaning; the rest follows below.
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag.endswith((":null", ":merge"))]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile("(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"[-+]?(?:0|[1-9][0-9_]*)$"), list("-+0123456789"))
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(
        r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+][0-9]+)?$|[-+]?\.(?:inf|Inf|INF)$|\.(?:nan|NaN|NAN)$"
    ),
    list("-+0123456789."),
)


def read_yaml(path: Path) -> dict[str, Any]:
    """What a settings file says, before it is checked; ConfigError where it is not YAML."""
    try:
        given = yaml.load(path.read_text(encoding="utf-8-sig"), _Loader)  # noqa: S506 - a SafeLoader
    except PermissionError:
        raise access_refused(path) from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 at byte {error.start}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        hint = " (put quotes around a value that begins with *)" if "alias" in str(error) else ""
        said = str(error).replace('in "<unicode string>", ', "")
        raise ConfigError(f"{path}: not YAML: {said}{hint}") from None
    if given is None:
        return {}
    if not isinstance(given, dict):
        what = "a list" if isinstance(given, list) else "text (`crawld run FILE` takes a URL list)"
        raise ConfigError(f"{path}: settings are written as `name: value`, this is {what}")
    return {str(name): value for name, value in given.items()}
