"""`WHERE column IN (thousands of values)` as one parameter, on both databases."""

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Column, ColumnElement, bindparam, func, select
from sqlalchemy.dialects.postgresql import ARRAY


def among(dialect: str, column: Column[Any], values: Sequence[Any]) -> tuple[ColumnElement[bool], dict[str, Any]]:
    """The condition and its parameter; ids and texts alike."""
    return chosen(dialect, column), choice(dialect, values)


def chosen(dialect: str, column: Column[Any]) -> ColumnElement[bool]:
    """The condition alone, for a query that is built once."""
    if dialect == "postgresql":
        return column == func.any(bindparam("chosen", type_=ARRAY(column.type)))
    return column.in_(select(func.json_each(bindparam("chosen")).table_valued("value").c.value))


def choice(dialect: str, values: Sequence[Any]) -> dict[str, Any]:
    """The condition's parameter."""
    return {"chosen": list(values) if dialect == "postgresql" else json.dumps(values, ensure_ascii=False)}
