"""Names of folders: paths of this machine, and URIs."""

from __future__ import annotations

import os

import pytest

from evenjoin.errors import SpecError
from evenjoin.runtime.spark.files import located
from evenjoin.state.files import LocalFolder, open_folder
from evenjoin.state.locations import open_uri
from evenjoin.state.places import open_place


@pytest.mark.parametrize("open_", [open_folder, open_place])
@pytest.mark.parametrize("name", ["hdfs:/out", "dbfs:/out", "s3a:/bucket/out"])
def test_a_uri_without_a_host_is_no_path_of_this_machine(open_, name):
    with pytest.raises(SpecError, match=r"no path of this machine: write it with a host"):
        open_(name)


@pytest.mark.parametrize("open_", [open_folder, open_place, open_uri])
def test_a_file_system_that_pyarrow_has_not(open_):
    with pytest.raises(SpecError, match="'dbfs://x/out' cannot be opened"):
        open_("dbfs://x/out")


def test_a_file_that_spark_lists_and_pyarrow_does_not_open():
    with pytest.raises(SpecError, match="cannot be opened"):
        located("dbfs:/a/b.parquet")


def test_paths_of_this_machine():
    """A colon makes no URI of a name."""
    assert open_folder("a:b/c") == LocalFolder(os.path.abspath("a:b/c"))
    assert open_folder("file:///a/b") == open_folder("file:/a/b") == LocalFolder("/a/b")
    assert open_place("x/y:/z").path == os.path.abspath("x/y:/z")
