"""The functions of the host, and the errors that they raise."""

import json
from typing import Any, NoReturn, TypeVar, overload

from componentize_py_types import Err, Ok
from wit_world.imports import host

from . import _schema
from ._wit import wit

T = TypeVar("T")


class ToolError(Exception):
    """A tool error, which the model reads and may correct. Only its message is shown."""


class NoAnswer(ToolError):
    """A question has no answer; `reason` is a case of `ask-error` in `wit/types.wit`."""

    def __init__(self, reason: Any):
        super().__init__(_said(reason))
        self.reason = reason


class CannotContinue(ToolError):
    """The call does not continue with a state; the run goes on."""

    def __init__(self, why: str):
        super().__init__(f"cannot continue with the state: {why}")


def progress(done: float, total: float | None = None, message: str | None = None) -> None:
    """Reports progress to the caller; `done` must increase."""
    host.progress(done, total, message)


def status(message: str) -> None:
    """Sets the status message of the task."""
    host.status(message)


def log(level: str, data: Any, logger: str | None = None) -> None:
    """Logs a message for the client; `level` is a name from RFC 5424, such as "info"."""
    host.log(wit.LogLevel[level.upper()], logger, json.dumps(data))


def sleep(milliseconds: int) -> None:
    """Suspends the call; this uses no thread of the host."""
    host.sleep(milliseconds)


def cancelled() -> bool:
    """Whether the call is being cancelled, so that it can clean up. The host stops it in any case."""
    return host.cancelled()


def call_info() -> dict[str, Any]:
    """Information about this call: `taskId`, `attempt`, `deadline`, `tool`, `clientCapabilities`, `state`."""
    return json.loads(host.call_info())


def continue_with(state: Any) -> NoReturn:
    """Ends this run of a task that resumes (`durability = "resume"` in the manifest). The call begins again in a fresh
    instance, with the same arguments, and `restored` returns the state: a dataclass or any JSON value, at most 256 KiB.
    The host drops the journal of the task so far. Raises `CannotContinue` if that fails; then the run can go on by
    itself. Do not call it while a request is under way.
    """
    try:
        host.continue_with(json.dumps(state, ensure_ascii=False, default=_schema.plain))
    except Err as error:
        raise CannotContinue(error.value.value) from None
    raise AssertionError("the host ends a run that continues with a state")


@overload
def restored() -> Any: ...
@overload
def restored(kind: type[T]) -> T | None: ...
def restored(kind: Any = None) -> Any:
    """The state that an earlier run of the task gave to `continue_with`, as a dataclass or another type if one is given.
    None in the first run, and in a plain call.
    """
    state = call_info().get("state")
    return state if kind is None or state is None else _schema.read(kind, state)


def effects() -> None:
    """Declares that the call changes something outside from here on, so the host does not run it again by itself. Call
    it after the last question.
    """
    try:
        host.effects()
    except Err as error:
        raise NoAnswer(error.value) from None


@overload
def ask(key: str, message: str, fields: type[T]) -> T | None: ...
@overload
def ask(key: str, message: str, fields: dict[str, Any]) -> dict[str, Any] | None: ...
def ask(key: str, message: str, fields: Any) -> Any:
    """Asks the user with a form, and waits. `key` names the question in recorded answers; `fields` is a dataclass, or a
    dict of annotations, as for a tool's parameters. Returns the filled-in form, of the same kind, or None if the user
    declined or closed it.
    """
    params = {"message": message, "requestedSchema": _schema.form_schema(fields)}
    [answer] = ask_all([(key, "elicitation/create", params)])
    if answer["action"] != "accept":
        return None
    content = answer.get("content", {})
    if isinstance(fields, dict):
        return {name: _schema.read(fields.get(name), value) for name, value in content.items()}
    return _schema.read(fields, content)


def ask_all(questions: list[tuple[str, str, Any]]) -> list[Any]:
    """Asks several questions at once; each is a key, a method (elicitation, sampling, roots) and its params. Returns
    the results in the same order.
    """
    try:
        answers = host.ask([wit.Question(key, method, json.dumps(params)) for key, method, params in questions])
    except Err as error:
        raise NoAnswer(error.value) from None
    outcomes = {answer.key: answer.outcome for answer in answers}
    return [_outcome(outcomes[key]) for key, _, _ in questions]


def _outcome(outcome: Any) -> Any:
    match outcome:
        case Ok(value):
            return json.loads(value)
        case Err(reason):
            raise NoAnswer(reason)


def _said(reason: Any) -> str:
    match reason:
        case wit.AskError_Unsupported(what):
            return f"this client cannot be asked: {what}"
        case wit.AskError_TimedOut():
            return "no answer came in time"
        case wit.AskError_Refused(error):
            return f"the client refused to answer: {error.message} ({error.code})"
        case wit.AskError_Invalid(why):
            return f"the question is not valid: {why}"
        case wit.AskError_TooLate():
            return "the call has had effects, so it is too late to ask"
    return "the call is being stopped"
