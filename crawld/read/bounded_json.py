"""JSON from strangers: parsed only where it cannot take much more memory than its text."""

import json
from typing import Any

from crawld.model.errors import InputError


def load_json(text: str, most_values: int) -> Any:
    """What the text says; InputError where it is not JSON, or may hold more than so many values.

    Every list, object and further value needs one of the characters counted here; some of them stand in texts.
    """
    values = text.count("[") + text.count("{") + text.count(",")
    if values > most_values:
        raise InputError(f"JSON of more than {most_values:,} values")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON: {str(error)[:100]}") from None
