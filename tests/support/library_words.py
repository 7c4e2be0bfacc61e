"""The vocabulary of the library that checks settings, which messages to people avoid."""

import re

FOREIGN = re.compile(
    r"(?<!ai-)input|valid (string|integer|number|list|boolean|dictionary)|should|unable|instance|validation|"
    r"value error|pydantic|_type|_parsing|extra_forbidden",
    re.IGNORECASE,
)
"""Words of the library that checks the settings, which no person needs to know of."""
