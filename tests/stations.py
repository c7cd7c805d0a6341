"""What a single station needs to run alone: the work of one batch, made by hand."""

from __future__ import annotations

from evenjoin.instance.program import store_schemas
from evenjoin.instance.programs import program_of
from evenjoin.instance.work import Work, sub_window_widths
from evenjoin.state.tuples import tuple_schemas


def work_of(spec, table, runs=(), **more) -> Work:
    """The work of batch 0 (or another) of a join under a table, with these runs by place."""
    program = program_of(spec, table.program)
    values = {
        "batch": 0,
        "start": 0,
        "trial": 1,
        "seed": 7,
        "masks": {},
        "sub_windows": sub_window_widths(spec, program, None),
        "merge_budget": 1_000_000,
        "pair_limit": 1 << 17,
        **more,
    }
    schemas = store_schemas(spec, program, tuple_schemas(spec))
    return Work(spec=spec, program=program, schemas=schemas, table=table, runs=dict(runs), **values)
