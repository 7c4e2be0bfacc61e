"""`WHERE column IN (thousands of values)` as one parameter, on both databases."""

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Column, ColumnElement, bindparam, func, select
from sqlalchemy.dialects.postgresql import ARRAY


def among(dialect: str, column: Column[Any], values: Sequence[Any]) -> tuple[ColumnElement[bool], dict[str, Any]]:
    """The condition and its parameter; ids and texts alike."""
    if dialect == "postgresql":
        return column == func.any(bindparam("chosen", type_=ARRAY(column.type))), {"chosen": list(values)}
    each = func.json_each(bindparam("chosen")).table_valued("value")
    return column.in_(select(each.c.value)), {"chosen": json.dumps(values, ensure_ascii=False)}
