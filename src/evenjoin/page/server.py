"""The live page: Bokeh's server, on this machine unless somebody asks for more.

    serve("ck", port=5007)           in this thread, until it is interrupted           evenjoin ui
    open_page("ck")                  in a thread of its own; `url`, `stop()`           query.ui()

    GET /          the page, a session for each reader          GET /metrics   Prometheus (metrics.py)

Who may read it:

* Without a token the server listens on a loopback address only; another address without a token is refused.
* With a token every page, web socket and metric asks for it: once as `?token=`, then by a cookie, or by the header
  `Authorization: Bearer`. Sessions are signed, so nobody opens a socket without having been given the page.
* The name in a request's `Host` must be one the server was started for, so that a foreign web site cannot have its own
  name point here; and Bokeh compares the origin of every web socket with the same names.

One follower reads for all readers, and only while there is one. Nothing of the page can be changed by a reader but
his own view of it.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from html import escape
from typing import Any

from bokeh.document import Document
from bokeh.events import DocumentReady
from bokeh.server.auth_provider import AuthProvider
from bokeh.server.server import BaseServer
from bokeh.server.tornado import BokehTornado
from tornado.httpserver import HTTPServer
from tornado.ioloop import IOLoop
from tornado.netutil import bind_sockets
from tornado.web import RequestHandler
from tornado.websocket import WebSocketHandler

from evenjoin.errors import EvenJoinError
from evenjoin.page.address import PORT as PORT
from evenjoin.page.address import Address as Address
from evenjoin.page.board import Board
from evenjoin.page.follow import BUDGET_S, Checkpoint, Follower
from evenjoin.page.frame import Frame, Framed, asked, framed
from evenjoin.page.metrics import CONTENT_TYPE, exposition
from evenjoin.page.whereabouts import Finder

EVERY_MS = 1000
"""How often a page looks for new commits."""
UNUSED_MS = 15_000
"""A reader who has gone is forgotten after this."""


class Page:
    """A page that is being served in a thread of its own."""

    def __init__(self, address: Address, loop: IOLoop, server: BaseServer, thread: threading.Thread) -> None:
        self._loop, self._server, self._thread, self._address = loop, server, thread, address

    @property
    def url(self) -> str:
        """What to open in a browser."""
        return self._address.url

    def stop(self) -> None:
        """Stop serving."""
        if self._thread.is_alive():
            self._loop.add_callback(_stop, self._server, self._loop)
            self._thread.join(10)

    def __repr__(self) -> str:
        return f"EvenJoin's page: {self.url}"

    def _repr_html_(self) -> str:
        return f'<a href="{escape(self.url)}" target="_blank" rel="noopener">EvenJoin\'s page</a>'


def open_page(checkpoint: Checkpoint, address: Address | None = None) -> Page:
    """Serve the page of a checkpoint in a thread of its own."""
    follower, ready = Follower(checkpoint), threading.Event()
    made: list[Any] = []

    def run() -> None:
        asyncio.set_event_loop(asyncio.new_event_loop())
        try:
            loop = IOLoop.current()
            made.extend((*start(follower, address or Address(), loop), loop))
        except BaseException as error:
            made.append(error)
            return
        finally:
            ready.set()
        loop.start()
        loop.close()

    thread = threading.Thread(target=run, name="evenjoin-page", daemon=True)
    thread.start()
    ready.wait()
    if isinstance(made[0], BaseException):
        raise made[0]
    server, bound, loop = made
    return Page(bound, loop, server, thread)


def serve(checkpoint: Checkpoint, address: Address, opened: Callable[[str], None]) -> None:
    """Serve the page of a checkpoint until the process is interrupted; `opened` is called with its URL."""
    asyncio.set_event_loop(asyncio.new_event_loop())
    loop = IOLoop.current()
    server, bound = start(Follower(checkpoint), address, loop)
    opened(bound.url)
    try:
        loop.start()
    except KeyboardInterrupt:
        pass
    finally:
        server.stop()


def start(follower: Follower, address: Address, loop: IOLoop) -> tuple[BaseServer, Address]:
    """A server that has begun to listen, and where."""
    try:
        sockets = bind_sockets(address.port, address.host)
    except OSError as error:
        raise EvenJoinError(f"nothing can be served at {address.host}:{address.port}: {error.strerror}") from None
    bound = replace(address, port=sockets[0].getsockname()[1])
    _warm(follower)
    guard = _Guard(bound)
    pages = BokehTornado(
        {"/": lambda document: show(document, follower)},
        extra_websocket_origins=[f"{name}:{bound.port}" for name in bound.allowed],
        extra_patterns=[(r"/metrics", _Metrics, {"follower": follower, "guard": guard})],
        auth_provider=guard,
        sign_sessions=True,
        secret_key=secrets.token_bytes(32),
        check_unused_sessions_milliseconds=UNUSED_MS // 3,
        unused_session_lifetime_milliseconds=UNUSED_MS,
    )
    listening = HTTPServer(pages)
    listening.add_sockets(sockets)
    server = BaseServer(loop, pages, listening)
    server.start()
    return server, bound


def _warm(follower: Follower) -> None:
    """Make a page that nobody reads. It reads the newest commits, and what Bokeh does only once is done: half a second
    that the first reader need not wait for. What is wrong with the checkpoint is told on the page."""
    document = Document()
    show(document, follower)
    document.to_json()


def show(document: Document, follower: Follower) -> None:
    """Fill the document of one reader, and keep it new. A page is of one checkpoint: if another one has come to its
    place, the browser is told to open the page again."""
    begun = follower.past
    board = Board(begun.join, Finder(begun.join, begun.seed))
    framed(document, [Framed("", "", board)], Frame("EvenJoin", asked(begun.join)), live=True)

    def refresh(budget_s: float = BUDGET_S) -> None:
        try:
            past = follower.refresh(budget_s)
        except EvenJoinError as error:
            board.stop(str(error))
            return
        if past.uuid == begun.uuid:
            board.show(past, time.time())
        else:
            board.reopen()

    refresh(0.0 if follower.past.moments else BUDGET_S)
    # not before the page is drawn: reading older commits would keep the reader waiting for it
    document.on_event(DocumentReady, lambda _event: document.add_periodic_callback(refresh, EVERY_MS))


class _Guard(AuthProvider):
    """Lets a request in or not."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._names = {name.strip("[]") for name in address.allowed}  # in small letters, as tornado has them
        self._cookie, self._pass = f"evenjoin_{address.port}", secrets.token_urlsafe(24)
        super().__init__()

    @property
    def get_user(self) -> Callable[[Any], str | None]:
        return self.admitted

    @property
    def login_url(self) -> str:
        return "/refused"

    @property
    def login_handler(self) -> type[RequestHandler]:
        return _Refused

    def admitted(self, handler: RequestHandler) -> str | None:
        """A name for whoever may read; None for whoever may not."""
        if handler.request.host_name.strip("[]") not in self._names:
            return None
        token = self._address.token
        if not token:
            return "reader"
        given = handler.get_query_argument("token", "")
        bearer = handler.request.headers.get("Authorization", "").removeprefix("Bearer ")
        if _same(given, token):
            if not isinstance(handler, WebSocketHandler):
                handler.set_cookie(self._cookie, self._pass, httponly=True, samesite="Strict")
            return "reader"
        known = _same(handler.get_cookie(self._cookie, "") or "", self._pass)
        return "reader" if known or _same(bearer, token) else None


class _Refused(RequestHandler):
    def get(self) -> None:
        self.set_status(403)
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.write("This page asks for a token (add ?token=... to its address), and for a name it was started for.\n")


class _Metrics(RequestHandler):
    def initialize(self, follower: Follower, guard: _Guard) -> None:
        self._follower, self._guard = follower, guard

    def get(self) -> None:
        if self._guard.admitted(self) is None:
            self.send_error(403)
            return
        self.set_header("Content-Type", CONTENT_TYPE)
        self.write(exposition(self._follower.refresh()))


def _same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode(), token.encode())


def _stop(server: BaseServer, loop: IOLoop) -> None:
    server.stop()
    loop.stop()
