"""Creating an object only if its name is free, by one conditional request to the store.

pyarrow's own file systems have no such request: their streams replace what is there, and so does `move` (on HDFS it
deletes the target first). The fsspec packages have it, as `pipe_file(path, data, mode="create")`:

    s3://            s3fs     PUT with `If-None-Match: *`
    gs://, gcs://    gcsfs    upload with `ifGenerationMatch=0`
    abfs://          adlfs    upload with `overwrite=False`

Where the package is installed, it creates; pyarrow reads, lists and writes everything else. Both find keys, region and
endpoint in the same environment, and what a URI says of them is handed to both.

Some stores that speak S3 do not know the condition and replace the object. So remote.py tries the request once, on a
name of its own, before it relies on it.

Guarantee: of all that create a name by `Conditional`, one gets True. If the answer to a request is lost and the client
asks again, nobody may get True although the object is there; then the driver stops, and the next start goes on.
Not guaranteed: anything against somebody who creates in another way (remote.py says how that works without a package).
So either all drivers of a checkpoint have the package, or none.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

import pyarrow.fs as pafs

PACKAGES = {"s3": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "abfs": "adlfs", "abfss": "adlfs"}
"""The package that has conditional requests to a store, by the scheme of a URI."""
ATTEMPTS = 4
"""How often a create is asked for that the store puts off because of another one under way (HTTP 409)."""


@dataclass(frozen=True, slots=True)
class Conditional:
    """How to create objects on one store. It holds no connection, so it may be sent to other processes."""

    scheme: str
    options: dict[str, Any] = field(repr=False, hash=False)

    def system(self) -> Any | None:
        """The fsspec file system; None if its version is too old to create exclusively."""
        fsspec = importlib.import_module("fsspec")
        return exclusive(fsspec.filesystem(self.scheme, **self.options))


def conditional(uri: str) -> Conditional | None:
    """How to create objects at a URI of pyarrow. None if no package can, or if the URI has options that only pyarrow
    understands."""
    parts = urlsplit(uri)
    package = PACKAGES.get(parts.scheme)
    if package is None or find_spec(package) is None:
        return None
    options = _OPTIONS[package](parts, dict(parse_qsl(parts.query)))
    return None if options is None else Conditional(parts.scheme, options)


def wrapped(filesystem: pafs.FileSystem) -> Any | None:
    """The fsspec file system inside of a pyarrow one, if there is one."""
    handler = filesystem.handler if isinstance(filesystem, pafs.PyFileSystem) else None
    return handler.fs if isinstance(handler, pafs.FSSpecHandler) else None


def exclusive(system: Any) -> Any | None:
    """The fsspec file system again if it is one of those that create by a conditional request; else None. Others look
    and then write."""
    protocols = [system.protocol] if isinstance(system.protocol, str) else system.protocol
    if PACKAGES.keys().isdisjoint(protocols):
        return None
    known = inspect.signature(type(system)._pipe_file).parameters
    return system if "mode" in known or "overwrite" in known else None  # adlfs takes `mode` for `overwrite`


def create(system: Any, path: str, data: bytes) -> bool:
    """Create an object. False if the name is taken."""
    for attempt in range(ATTEMPTS):
        try:
            system.pipe_file(path, data, mode="create")
            return True
        except FileExistsError:
            return False
        except Exception as error:
            status = _status(error)
            if status == 412:
                return False
            if status != 409 or attempt == ATTEMPTS - 1:
                raise
    raise AssertionError("the last attempt returns or raises")


def _status(error: BaseException) -> int | None:
    """The status of the HTTP answer that an error tells of. Not every store's answer becomes a FileExistsError."""
    for one in (error, error.__cause__):
        response = getattr(one, "response", None)
        if isinstance(response, dict):  # botocore's errors
            return int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        code = getattr(one, "code", None)
        if isinstance(code, int):  # gcsfs's
            return code
    return None


def _s3(parts: SplitResult, query: dict[str, str]) -> dict[str, Any] | None:
    endpoint, scheme, region = (query.pop(name, None) for name in ("endpoint_override", "scheme", "region"))
    query.pop("allow_bucket_creation", None)
    if query:
        return None
    client = {"region_name": region} if region else {}
    if endpoint:
        client["endpoint_url"] = endpoint if "://" in endpoint else f"{scheme or 'https'}://{endpoint}"
    options: dict[str, Any] = {"client_kwargs": client} if client else {}
    if parts.username and parts.password:
        options |= {"key": unquote(parts.username), "secret": unquote(parts.password)}
    return options


def _gs(parts: SplitResult, query: dict[str, str]) -> dict[str, Any] | None:
    if query or parts.username not in (None, "anonymous"):
        return None
    return {"token": "anon"} if parts.username else {}


def _abfs(parts: SplitResult, query: dict[str, str]) -> dict[str, Any] | None:
    """Only `abfs://container@account.dfs.core.windows.net/...`, with the credentials of the environment."""
    account, _, domain = (parts.hostname or "").partition(".")
    if query or parts.password or not parts.username or domain != "dfs.core.windows.net":
        return None
    return {"account_name": account, "anon": False}


_OPTIONS: dict[str, Callable[[SplitResult, dict[str, str]], dict[str, Any] | None]] = {
    "s3fs": _s3,
    "gcsfs": _gs,
    "adlfs": _abfs,
}
