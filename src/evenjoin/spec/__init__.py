"""What was asked: SQL text and arguments -> JoinSpec. Pure: no Spark, no files, no clock.

The way through: window, event_time (time); sql, scope, parse -> expr; linear, condition, order, select -> join_spec.
"""

from evenjoin.spec.condition import Condition, Key, Range, read_condition
from evenjoin.spec.expr import Expr
from evenjoin.spec.join_spec import JoinSpec, SideSpec, build_spec
from evenjoin.spec.parse import parse
from evenjoin.spec.scope import Scope
from evenjoin.spec.select import Output
from evenjoin.spec.window import Window, parse_duration, sliding, tumbling

__all__ = [
    "Condition",
    "Expr",
    "JoinSpec",
    "Key",
    "Output",
    "Range",
    "Scope",
    "SideSpec",
    "Window",
    "build_spec",
    "parse",
    "parse_duration",
    "read_condition",
    "sliding",
    "tumbling",
]
