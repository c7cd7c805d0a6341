"""A checkpoint on a server that speaks S3: moto's, on this machine, one request at a time as if it were linearizable.

Left out unless asked for (`-m slow`), and skipped where moto and s3fs are not installed: neither is a requirement.

    pip install 'moto[server]' s3fs && python -m pytest -m slow tests/state/test_s3.py
"""

from __future__ import annotations

import dataclasses
import logging
import tempfile
import threading
from collections import Counter

import pyarrow as pa
import pytest

import evenjoin
from evenjoin.errors import CheckpointInUseError, StorageError
from evenjoin.spec import build_spec
from evenjoin.state import remote
from evenjoin.state.exclusive import conditional
from evenjoin.state.files import open_folder
from evenjoin.testing import brute_force, multiset

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::evenjoin.UnboundedStateWarning")]

BUCKET = "bucket"
SCHEMAS = {alias: pa.schema([("id", pa.int64()), ("k", pa.int64())]) for alias in "lr"}


def forgetful(environ):
    """A store that does not know the condition."""
    environ.pop("HTTP_IF_NONE_MATCH", None)


def elsewhere(environ):
    """Another store: it has the same bucket with other objects."""
    for name in ("PATH_INFO", "REQUEST_URI", "RAW_URI"):
        environ[name] = environ[name].replace(f"/{BUCKET}/", f"/{BUCKET}/elsewhere/", 1)


@pytest.fixture(scope="module")
def serve():
    """Starts servers in front of the same objects; each may change the requests. Gives the port."""
    moto = pytest.importorskip("moto.server", reason="moto, a server that speaks S3, is not installed")
    pytest.importorskip("s3fs", reason="s3fs, which has conditional requests, is not installed")
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    application, turn, servers = moto.DomainDispatcherApplication(moto.create_backend_app), threading.Lock(), []

    def start(change=lambda environ: None):
        def answer(environ, begin):
            change(environ)
            with turn:
                return [b"".join(application(environ, begin))]

        server = make_server("127.0.0.1", 0, answer, threaded=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return server.port

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def at(serve, tmp_path, monkeypatch):
    """The URI of a checkpoint on a new server."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(remote, "_HONOURED", {})
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")

    def uri(change=lambda environ: None):
        port = serve(change)
        text = (
            f"s3://key:secret@{BUCKET}/{tmp_path.name}?endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1"
        )
        conditional(text).system().call_s3("create_bucket", Bucket=BUCKET)
        return text

    return uri


def race(folder, rounds):
    """How many creators won, in so many races of two."""
    counts = Counter()
    for number in range(rounds):
        won, start, name = [], threading.Barrier(2), f"commits/{number}"

        def run(me, name=name, won=won, start=start):
            start.wait()
            if folder.create(name, b"%d" % me):
                won.append(b"%d" % me)

        threads = [threading.Thread(target=run, args=(me,)) for me in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        counts[len(won)] += 1
        assert won[1:] or [folder.load(name).to_pybytes() for _ in won] == won
    assert folder.parts("") == []
    return counts


def test_of_two_creators_exactly_one_wins(at):
    """200 races by conditional requests."""
    folder = open_folder(at())
    assert race(folder, 200) == {1: 200}
    assert set(remote._HONOURED.values()) == {True}


def test_without_the_package_at_most_one_wins(at):
    """100 races by pyarrow alone: in none do both win."""
    counts = race(dataclasses.replace(open_folder(at()), conditional=None), 100)
    assert counts.keys() <= {0, 1}
    assert counts[1] > 0


def test_a_store_that_ignores_the_condition_is_not_relied_on(at):
    """The probe finds out, and no race is won twice."""
    counts = race(open_folder(at(forgetful)), 50)
    assert set(remote._HONOURED.values()) == {False}
    assert counts.keys() <= {0, 1}


def test_two_clients_of_different_stores_are_refused(at):
    """What s3fs creates pyarrow does not see: nothing is created there, and the message says what to do."""
    folder = dataclasses.replace(open_folder(at()), conditional=conditional(at(elsewhere)))
    with pytest.raises(StorageError, match="but pyarrow does not find it there: give both the same endpoint"):
        folder.create("commits/1", b"x")
    assert folder.names("") == []


def test_a_join_keeps_its_checkpoint_on_s3(at):
    """Three starts; a second one is refused while the first lives, and touches nothing; the answer is whole."""
    uri, results, whole = at(), [], {alias: [] for alias in "lr"}
    for number in range(3):
        rows = {
            a: pa.table({"id": range(50 * number, 50 * number + 50), "k": [k % 7 for k in range(50)]}) for a in "lr"
        }
        for alias in "lr":
            whole[alias].append(rows[alias])
        with evenjoin.local(SCHEMAS, "l.k = r.k", select=["l.id AS a", "r.id AS b"], checkpoint=uri) as join:
            results.append(join.process(rows))
            with pytest.raises(CheckpointInUseError, match="whose lease is good until"):
                evenjoin.local(SCHEMAS, "l.k = r.k", select=["l.id AS a", "r.id AS b"], checkpoint=uri)
    spec = build_spec(SCHEMAS, "l.k = r.k", select=["l.id AS a", "r.id AS b"])
    expected = brute_force(spec, {alias: pa.concat_tables(parts) for alias, parts in whole.items()})
    assert multiset(pa.concat_tables(results)) == expected
