"""What was asked: SQL text and arguments -> JoinSpec. Pure: no Spark, no files, no clock.

The way through:

    window, event_time                       the arguments about time
    skeleton                                 tokens -> what a join must understand of SQL, and slices of the rest
    reader -> literals, zone, meeting        without Spark: the skeleton -> expressions, or refused by name (refusals)
    scope, expr -> functions, coercion       names; expressions and how they are evaluated
    linear -> condition -> order, band       the condition taken apart: keys, ranges, filters, residual
    classes -> two_sides, many_sides         put together as a graph: indexes of sides, edges between them (graph)
    select, graph -> join_spec               output columns; sides and edges; all of it as one value

Not here: everything that runs. A JoinSpec says what a result is, not how it is found.
"""

from evenjoin.spec.condition import Condition, Key, Prepared, Range, read_condition
from evenjoin.spec.expr import Expr
from evenjoin.spec.join_spec import JoinSpec, SideSpec, build_spec
from evenjoin.spec.reader import read
from evenjoin.spec.scope import Scope
from evenjoin.spec.select import Output, Outputs
from evenjoin.spec.window import Window, parse_duration, sliding, tumbling

__all__ = [
    "Condition",
    "Expr",
    "JoinSpec",
    "Key",
    "Output",
    "Outputs",
    "Prepared",
    "Range",
    "Scope",
    "SideSpec",
    "Window",
    "build_spec",
    "parse_duration",
    "read",
    "read_condition",
    "sliding",
    "tumbling",
]
