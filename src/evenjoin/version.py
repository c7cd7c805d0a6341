"""Which EvenJoin this is, and which format its checkpoints have.

`FORMAT` is raised whenever a file of a checkpoint changes its meaning. A checkpoint of another format is refused in
words (commit/identity.py); nothing reads older ones.
"""

from __future__ import annotations

VERSION = "0.1.0"
FORMAT = 7
