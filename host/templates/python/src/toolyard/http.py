"""HTTP by `wasi:http`, as far as `[http] allow` of the manifest grants it. The host does TLS, and adds the headers of
`[http.inject]`.

`urllib.request` uses it too, with every opener. The functions here have the names of requests and httpx:

    answer = http.get("https://api.example.com/v1/now", params={"city": "Oslo"})
    celsius = answer.raise_for_status().json()["celsius"]
"""

import contextlib
import http.client
import io
import json as _json
import urllib.error
import urllib.parse
import urllib.request
from email.message import Message
from typing import Any

from componentize_py_types import Err, Ok
from wit_world.imports import monotonic_clock, outgoing_handler, poll, streams
from wit_world.imports import wasi_http_types as wasi

from ._host import ToolError

# How long a request may take, in seconds, unless the caller says otherwise.
TIMEOUT = 30.0

_PIECE = 64 << 10
_METHODS = {"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"}
# The host sets these.
_OF_THE_HOST = {"connection", "host", "keep-alive", "proxy-connection", "te", "transfer-encoding", "upgrade"}


class HTTPError(ToolError):
    """A request failed, or was answered with an error. If a tool does not catch it, the model reads its message."""


class RequestError(HTTPError):
    """There is no answer."""


class RequestDenied(RequestError):
    """The manifest does not grant the request."""


class ConnectError(RequestError):
    """There is no connection: the name has no address, no server answers, or its certificate is not valid."""


class TimeoutException(RequestError, TimeoutError):
    """The answer did not come in time."""


class HTTPStatusError(HTTPError):
    """The status of the answer says that the request failed."""

    def __init__(self, message: str, response: "Response"):
        super().__init__(message)
        self.response = response


class Response:
    """An answer, with its whole body."""

    def __init__(self, url: str, status: int, headers: Message, content: bytes):
        self.url = url
        self.status_code = status
        self.headers = headers
        self.content = content

    @property
    def reason(self) -> str:
        return http.client.responses.get(self.status_code, "")

    @property
    def ok(self) -> bool:
        return self.status_code < 400

    @property
    def encoding(self) -> str:
        return self.headers.get_content_charset("utf-8")

    @property
    def text(self) -> str:
        try:
            return self.content.decode(self.encoding, "replace")
        except LookupError:  # the server names an unknown encoding
            return self.content.decode("utf-8", "replace")

    def json(self) -> Any:
        return _json.loads(self.content)

    def raise_for_status(self) -> "Response":
        """Raises `HTTPStatusError` if the status is 400 or above, and else returns the response."""
        if self.ok:
            return self
        place = urllib.parse.urlsplit(self.url).netloc.rpartition("@")[2]
        said = self.text.strip()[:1000]
        message = f"{place} answered {self.status_code} {self.reason}".rstrip() + (f": {said}" if said else "")
        raise HTTPStatusError(message, self)


def request(
    method: str,
    url: str,
    *,
    params: Any = None,
    headers: dict[str, str] | None = None,
    data: Any = None,
    json: Any = None,
    timeout: float | None = TIMEOUT,
    follow_redirects: bool = True,
) -> Response:
    """Sends a request, and waits for the whole answer, `timeout` seconds at most.

    `params` are added to the URL's query, encoded. The body is `json`, or `data`: bytes, a text, or a dict, which is
    sent as a form. Each answer is returned, whatever its status. Raises a `RequestError` if there is none.
    """
    if params:
        url += ("&" if "?" in url else "?") + urllib.parse.urlencode(params, doseq=True)
    given = {"User-Agent": "toolyard"} | (headers or {})
    names = {name.lower() for name in given}
    body, kind = _body(data, json)
    if kind and "content-type" not in names:
        given["Content-Type"] = kind
    deadline = None if timeout is None else monotonic_clock.now() + _nanoseconds(timeout)
    for _ in range(10):
        answer = _exchange(method.upper(), url, given, body, deadline)
        location = answer.headers.get("location")
        if not (follow_redirects and location and answer.status_code in (301, 302, 303, 307, 308)):
            return answer
        target = urllib.parse.urljoin(url, location)
        if urllib.parse.urlsplit(target).netloc != urllib.parse.urlsplit(url).netloc:
            # A key is for the host that it was meant for.
            given = {name: value for name, value in given.items() if name.lower() not in ("authorization", "cookie")}
        if answer.status_code < 307 and method.upper() not in ("GET", "HEAD"):
            method, body = "GET", None
            given = {name: value for name, value in given.items() if name.lower() != "content-type"}
        url = target
    raise RequestError(f"there were too many redirects; the last led to {url}")


def get(url: str, **options: Any) -> Response:
    return request("GET", url, **options)


def head(url: str, **options: Any) -> Response:
    return request("HEAD", url, **options)


def post(url: str, **options: Any) -> Response:
    return request("POST", url, **options)


def put(url: str, **options: Any) -> Response:
    return request("PUT", url, **options)


def patch(url: str, **options: Any) -> Response:
    return request("PATCH", url, **options)


def delete(url: str, **options: Any) -> Response:
    return request("DELETE", url, **options)


def _body(data: Any, json: Any) -> tuple[bytes | None, str | None]:
    if json is not None:
        return _json.dumps(json, ensure_ascii=False).encode(), "application/json"
    if isinstance(data, dict):
        return urllib.parse.urlencode(data, doseq=True).encode(), "application/x-www-form-urlencoded"
    return (data.encode(), "text/plain; charset=utf-8") if isinstance(data, str) else (data, None)


# --- urllib.request --------------------------------------------------------------------------


class _Answer:
    """Stands for the socket from which `http.client` reads an answer."""

    def __init__(self, answer: Response):
        head = [f"HTTP/1.1 {answer.status_code} {answer.reason}"]
        head += [f"{name}: {value}" for name, value in answer.headers.items()]
        self.data = "\r\n".join([*head, "", ""]).encode("latin-1", "replace") + answer.content

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self.data)


def _open(handler: Any, request: urllib.request.Request) -> http.client.HTTPResponse:
    timeout = request.timeout if isinstance(request.timeout, (int, float)) else TIMEOUT
    body: Any = request.data
    if body is not None and not isinstance(body, bytes):
        body = body.read() if hasattr(body, "read") else b"".join(body)
    headers = {**request.unredirected_hdrs, **request.headers}
    try:
        deadline = monotonic_clock.now() + _nanoseconds(timeout)
        answer = _exchange(request.get_method(), request.full_url, headers, body, deadline)
    except RequestError as error:
        raise urllib.error.URLError(error) from None
    response = http.client.HTTPResponse(_Answer(answer), method=request.get_method())
    response.begin()
    response.url = request.full_url
    response.msg = response.reason  # as urllib does
    return response


# Python without sockets and TLS has no use for the original methods. So openers that a tool makes itself work too.
_Handler: Any = urllib.request.HTTPHandler
_Handler.http_open = _Handler.https_open = _open
_Handler.https_request = urllib.request.AbstractHTTPHandler.do_request_


# --- wasi:http -------------------------------------------------------------------------------


def _exchange(method: str, url: str, headers: dict[str, str], body: bytes | None, deadline: int | None) -> Response:
    """One request. `deadline` is a time of the monotonic clock, in nanoseconds."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise RequestError(f"{url!r} is no URL of http or https")
    if body is not None and method in ("GET", "HEAD"):
        raise RequestError(f"a request with {method} has no body; use POST")
    place = _authority(parts)
    # Resources are dropped in the reverse order, on every path: children before their parents.
    with contextlib.ExitStack() as stack:
        timer = None if deadline is None else _kept(stack, monotonic_clock.subscribe_instant(deadline))
        try:
            outgoing = _kept(stack, _request(stack, method, parts, place, headers, body))
            content = None if body is None else _kept(stack, outgoing.body())
            future = _kept(stack, outgoing_handler.handle(outgoing, None))
            if content is not None:
                _write(content, body or b"", timer)
            _wait(future.subscribe(), timer)
            match future.get():
                case Ok(Ok(incoming)):
                    return _read(stack, url, _kept(stack, incoming), timer)
                case Ok(Err(code)):
                    raise _error(code, place)
            raise RequestError(f"there is no answer from {place}")
        except _TimeIsUp:
            raise TimeoutException(f"{place} did not answer in time; a tool may wait longer with `timeout`") from None
        except Err as error:
            raise _error(error.value, place) from None


def _authority(parts: urllib.parse.SplitResult) -> str:
    place = parts.netloc.rpartition("@")[2]
    try:
        return place if place.isascii() else place.encode("idna").decode()
    except UnicodeError as error:
        raise RequestError(f"{place!r} is no name of a host: {error}") from None


def _request(
    stack: contextlib.ExitStack, method: str, parts: Any, place: str, headers: dict[str, str], body: bytes | None
) -> wasi.OutgoingRequest:
    fields = _kept(stack, wasi.Fields())
    # Without compression the answer needs no decoding.
    given = {"Accept-Encoding": "identity"} | {name.title(): str(value) for name, value in headers.items()}
    if body is not None:
        given["Content-Length"] = str(len(body))
    for name, value in given.items():
        if name.lower() in _OF_THE_HOST:
            continue
        try:
            fields.append(name, value.encode())
        except Err:
            raise RequestError(f"the header {name!r} cannot be sent") from None
    outgoing = _kept(stack, wasi.OutgoingRequest(fields))
    path = urllib.parse.quote(parts.path or "/", safe="%/:=&~+!$,;'@()*")
    query = urllib.parse.quote(parts.query, safe="%/:=&?~+!$,;'@()*[]")
    known = method in _METHODS
    try:
        outgoing.set_method(getattr(wasi, f"Method_{method.title()}")() if known else wasi.Method_Other(method))
        outgoing.set_scheme(wasi.Scheme_Https() if parts.scheme == "https" else wasi.Scheme_Http())
        outgoing.set_authority(place)
        outgoing.set_path_with_query(f"{path}?{query}" if query else path)
    except Err:
        raise RequestError(f"{method} {parts.geturl()!r} has a part that cannot be sent") from None
    return outgoing


def _write(content: wasi.OutgoingBody, body: bytes, timer: poll.Pollable | None) -> None:
    with contextlib.ExitStack() as stack:
        stream = _kept(stack, content.write())
        rest = memoryview(body)
        try:
            while rest:
                room = stream.check_write()
                if room:
                    stream.write(bytes(rest[:room]))
                    rest = rest[room:]
                else:
                    _wait(stream.subscribe(), timer)
        except Err as error:
            _dropped(error)
            return  # the server, or the host, wants no more of it: the answer says why
    wasi.OutgoingBody.finish(content, None)


def _read(
    stack: contextlib.ExitStack, url: str, incoming: wasi.IncomingResponse, timer: poll.Pollable | None
) -> Response:
    headers = Message()
    with incoming.headers() as fields:
        for name, value in fields.entries():
            headers[name] = value.decode("utf-8", "replace")
    stream = _kept(stack, _kept(stack, incoming.consume()).stream())
    pieces = []
    while True:
        _wait(stream.subscribe(), timer)
        try:
            pieces.append(stream.read(_PIECE))
        except Err as error:
            code = _dropped(error)
            if code is None:
                return Response(url, incoming.status(), headers, b"".join(pieces))
            raise Err(code) from None


def _dropped(error: Err[Any]) -> Any:
    """Drops the resource in an error of a stream. Returns its code, or None if the stream has ended."""
    match error.value:
        case streams.StreamError_LastOperationFailed(reason):
            with reason:
                return wasi.http_error_code(reason) or wasi.ErrorCode_InternalError(reason.to_debug_string())
    return None


class _TimeIsUp(Exception):
    pass


def _wait(ready: poll.Pollable, timer: poll.Pollable | None) -> None:
    with ready:
        if timer is None:
            ready.block()
        elif 0 not in poll.poll([ready, timer]):
            raise _TimeIsUp


def _kept(stack: contextlib.ExitStack, resource: Any) -> Any:
    """Drops the resource at the end of the stack, unless it was handed over before."""
    stack.callback(lambda: getattr(resource, "handle", None) is not None and resource.__exit__(None, None, None))
    return resource


def _nanoseconds(seconds: float) -> int:
    return max(0, int(seconds * 1_000_000_000))


def _error(code: Any, place: str) -> RequestError:
    match code:
        case wasi.ErrorCode_HttpRequestDenied():
            return RequestDenied(
                f'requests to {place} are not granted: the operator can add "{place}" to `[http] allow` of the '
                "plugin's manifest"
            )
        case wasi.ErrorCode_DestinationIpProhibited():
            return RequestDenied(
                f"{place} is not at a public address: the operator can grant it by name, see `[http] allow` of the "
                "plugin's manifest"
            )
        case wasi.ErrorCode_DnsError() | wasi.ErrorCode_DestinationNotFound():
            return ConnectError(f"the name {place} has no address")
        case wasi.ErrorCode_DnsTimeout():
            return TimeoutException(f"the name {place} was not resolved in time")
        case wasi.ErrorCode_ConnectionRefused():
            return ConnectError(f"no server answers at {place}: the connection was refused")
        case wasi.ErrorCode_DestinationUnavailable() | wasi.ErrorCode_DestinationIpUnroutable():
            return ConnectError(f"{place} cannot be reached")
        case wasi.ErrorCode_TlsCertificateError():
            return ConnectError(f"the certificate of {place} is not valid")
        case wasi.ErrorCode_TlsProtocolError() | wasi.ErrorCode_TlsAlertReceived():
            return ConnectError(f"{place} cannot be reached by TLS")
        case wasi.ErrorCode_ConnectionTimeout():
            return TimeoutException(f"the connection to {place} was not made in time")
        case (
            wasi.ErrorCode_ConnectionReadTimeout()
            | wasi.ErrorCode_ConnectionWriteTimeout()
            | wasi.ErrorCode_HttpResponseTimeout()
        ):
            return TimeoutException(f"{place} did not answer in the time that `http-time` of the manifest allows")
        case wasi.ErrorCode_ConnectionLimitReached():
            return RequestError("there are more requests at once than `http-concurrent` of the manifest allows")
        case wasi.ErrorCode_HttpRequestMethodInvalid():
            return RequestError(f"the request to {place} has a method that the host never sends")
        case wasi.ErrorCode_HttpRequestBodySize():
            return RequestError("the request is larger than `http-request` of the manifest allows")
        case wasi.ErrorCode_HttpResponseBodySize():
            return RequestError(f"the answer of {place} is larger than `http-response` of the manifest allows")
        case wasi.ErrorCode_ConnectionTerminated() | wasi.ErrorCode_HttpResponseIncomplete():
            return RequestError(f"{place} closed the connection before its answer was complete")
        case wasi.ErrorCode_InternalError(str() as why):
            return RequestError(f"the request to {place} failed: {why}")
    return RequestError(f"the request to {place} failed: {type(code).__name__.removeprefix('ErrorCode_')}")
