"""Groups of options.

A group is a dataclass. The default of a field is an `option`, or its type is annotated with `typer.Option`. A command
takes a group as one parameter. `with_options` expands it into options of the command line:

>>> from dataclasses import dataclass
>>> @dataclass(frozen=True)
... class Limits:
...     count: int = option(10, "Exit after this many events.", "--count", "-n")
>>> @with_options
... def ping(text: str, *, limits: Limits) -> None: ...
>>> list(inspect.signature(ping).parameters)
['text', 'count']
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, field, fields, is_dataclass
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer


def option(default: Any, help: str, *names: str, **settings: Any) -> Any:
    """Declare a field of a group of options.

    default: value without the option; `...` if the option is required
    names: names of the option; without them it has the name of the field
    settings: further arguments of `typer.Option`
    """
    metadata = {"names": names, "settings": {"help": help, **settings}}
    # a required field may follow fields with defaults, for example those of a base class
    return field(default=MISSING if default is ... else default, metadata=metadata, kw_only=default is ...)


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Replace each parameter of a command that is a group of options by one option per field."""
    signature = inspect.signature(command, eval_str=True)

    @wraps(command)
    def expanded(**values: Any) -> None:
        command(**{parameter.name: _argument(parameter, values) for parameter in signature.parameters.values()})

    parameters = [item for parameter in signature.parameters.values() for item in _expand(parameter)]
    expanded.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    expanded.__annotations__ = {item.name: item.annotation for item in parameters}
    return expanded


def _expand(parameter: inspect.Parameter) -> Iterator[inspect.Parameter]:
    """Yield the fields of a group, also of groups in it, as parameters; or the parameter itself, if it is no group."""
    if is_dataclass(parameter.annotation):
        for item in _fields(parameter.annotation):
            yield from _expand(item)
    else:
        yield parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)


def _argument(parameter: inspect.Parameter, values: Mapping[str, Any]) -> Any:
    if not is_dataclass(parameter.annotation):
        return values[parameter.name]
    group: Any = parameter.annotation
    return group(**{item.name: _argument(item, values) for item in _fields(group)})


def _fields(group: Any) -> Iterator[inspect.Parameter]:
    types = get_type_hints(group, include_extras=True)
    for item in fields(group):
        annotation = types[item.name]
        if item.metadata:
            names = item.metadata["names"] or (f"--{item.name.replace('_', '-')}",)
            annotation = Annotated[annotation, typer.Option(*names, **item.metadata["settings"])]
        default = inspect.Parameter.empty if item.default is MISSING else item.default
        yield inspect.Parameter(item.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
