"""The parameters of a tool: the JSON Schema a model is shown, and the check every call goes through.

Arguments have two faces. `Arguments.values` are Python objects of the hinted types, which the function is
called with; `Arguments.json` is the same thing as plain JSON, which people see, digests bind and journals name.
Both always hold every parameter, defaults included: what a person approves must not depend on a default that a
deployment changes meanwhile.
"""

from __future__ import annotations

import copy
import inspect
import json
import types
import typing
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import TYPE_CHECKING, Annotated, Any, Protocol

from hitl import _core
from hitl.errors import HitlError
from hitl.strict_json import read_json
from hitl.tools.docstrings import DocString
from hitl.tools.hints import OrNone, field_definition, fields_without_none
from hitl.tools.names import all_names, as_shown, shown_name
from hitl.tools.read_back import find_hidden, find_unread, validated
from hitl.tools.sets import is_written_by_author, members_in_order, members_of
from hitl.turn.undescribed import why_not

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError
    from pydantic.errors import PydanticUserError
    from pydantic.fields import FieldInfo

JsonObject = dict[str, Any]


class InvalidArguments(HitlError, ValueError):
    """The arguments of a call do not fit its tool; the message names each wrong field, for the model to mend."""

    code = "invalid_arguments"


@dataclass(frozen=True)
class Arguments:
    """Checked arguments of one call."""

    values: dict[str, Any]
    """Parameter name -> Python object of the hinted type."""

    json: JsonObject
    """The same, as JSON."""

    given: Mapping[str, Any] = dataclass_field(repr=False, compare=False)
    """What they were made from."""

    unordered: JsonObject | None = dataclass_field(default=None, repr=False, compare=False)
    """The JSON as earlier releases had it: with its sets as they came, and by the names that pydantic writes. None
    where that is the same."""

    ordered: JsonObject | None = dataclass_field(default=None, repr=False, compare=False)
    """The JSON as it is now, where `json` is not that: in the replay of an earlier release's turn."""

    @property
    def in_order(self) -> JsonObject:
        """The JSON with its sets in order, by the names of the schema."""
        return self.json if self.ordered is None else self.ordered

    def is_json(self, json: JsonObject) -> bool:
        """Whether this is their JSON, with sets in order or as they came."""
        return json in (self.json, self.unordered, self.ordered)


class Parameters(Protocol):
    """What a tool takes."""

    @property
    def json_schema(self) -> JsonObject:
        """The JSON Schema of the argument object, as the model is shown it."""

    @property
    def edit_schema(self) -> JsonObject:
        """The same, of arguments that a person gives."""

    @property
    def names(self) -> frozenset[str] | None:
        """The parameter names; None where a schema allows any."""

    @property
    def made(self) -> Mapping[str, frozenset[str]]:
        """The parameters whose default is made anew for each call, by their names in JSON; what each may be called."""

    def check(self, given: Mapping[str, Any]) -> Arguments:
        """Check and convert arguments; raises `InvalidArguments`."""

    def replaced(self, given: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments that are not checked yet, with others in their places, by whichever of their names."""

    def to_json(self, values: Mapping[str, Any]) -> JsonObject:
        """Checked values as JSON once more; `ValueError` when they are none any more."""

    def in_order(self, values: Mapping[str, Any], json: JsonObject) -> JsonObject:
        """JSON of such values with its sets in order; also what somebody else wrote for them."""

    def find_unread(self, values: Mapping[str, Any], json: JsonObject) -> str | None:
        """Where checked values are more than their JSON says, and why; None where it says all."""

    def find_hidden(self) -> str | None:
        """The parameter of which that would be so with every call, and why."""


class OneName:
    """For those in which each argument has one name."""

    made: Mapping[str, frozenset[str]] = types.MappingProxyType({})

    def replaced(self, given: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
        return {**given, **patch}


class JsonParameters(OneName):
    """For those whose function gets the very JSON that people see."""

    json_schema: JsonObject

    @property
    def edit_schema(self) -> JsonObject:
        return self.json_schema

    def in_order(self, values: Mapping[str, Any], json: JsonObject) -> JsonObject:
        return json

    def find_unread(self, values: Mapping[str, Any], json: JsonObject) -> str | None:
        return None if values == json else "arguments: what is shown of them does not say what would run"

    def find_hidden(self) -> str | None:
        return None


def parse_arguments(raw: str) -> JsonObject:
    """The argument object a model wrote, or `InvalidArguments` that says where its JSON is wrong."""
    if not raw.strip():  # how several providers write "no arguments"
        return {}
    try:
        given = read_json(raw)
    except ValueError as error:
        raise InvalidArguments(f"arguments are not valid JSON: {error}") from None
    if not isinstance(given, dict):
        raise InvalidArguments(f"arguments must be a JSON object, got {_json_type(given)}")
    return given


def _json_type(value: object) -> str:
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "an array"}
    return "null" if value is None else names.get(type(value), "an object")


def describe_errors(error: ValidationError) -> str:
    """`path: Field required; items.0.count: Input should be a valid integer`."""
    parts = []
    for item in error.errors(include_url=False, include_context=False, include_input=False):
        field = ".".join(str(part) for part in item["loc"]) or "arguments"
        parts.append(f"{field}: {item['msg']}")
    return "; ".join(parts)


# --- from a function's signature ---------------------------------------------------------------------------------


class FunctionParameters:
    """Parameters from type hints and docstring."""

    def __init__(
        self,
        label: str,
        parameters: list[inspect.Parameter],
        hints: Mapping[str, Any],
        doc: DocString,
        fixed: Collection[str] = (),
    ):
        """`fixed`: the parameters whose default is all that they may be."""
        from pydantic import ConfigDict, create_model
        from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError, PydanticUserError
        from pydantic.fields import FieldInfo
        from pydantic.json_schema import GenerateJsonSchema

        class Untitled(GenerateJsonSchema):
            # "title": "Path" beside "path" costs tokens and tells the model nothing.
            def field_title_should_be_set(self, schema: Any) -> bool:
                return False

            def render_warning_message(self, kind: Any, detail: str) -> str | None:
                # A default that is no JSON stays in Python (see _find_private_defaults): nothing to warn of.
                return None if kind == "non-serializable-default" else super().render_warning_message(kind, detail)

        # Fields get names of ours and the parameters' names as aliases: a parameter may then be called
        # `schema`, `copy` or `_private` without meeting an attribute of BaseModel.
        names = {f"argument_{index}": parameter.name for index, parameter in enumerate(parameters)}
        fields: dict[str, Any] = {
            field: field_definition(parameter, hints.get(parameter.name, Any), doc.parameters.get(parameter.name))
            for field, parameter in zip(names, parameters, strict=True)
        }
        # It is asked about the fields of a plain dataclass as well, which keep their names.
        config = ConfigDict(extra="forbid", alias_generator=lambda field: names.get(field, field), allow_inf_nan=False)
        try:
            self._model: type[BaseModel] = create_model(label, __config__=config, **fields)
            # The model is shown what the author wrote, whatever is taken besides.
            schema = self._model.model_json_schema(schema_generator=Untitled)
            self.edit_schema: JsonObject = schema
            if missed := fields_without_none(self._model):
                fields.update({field: (Annotated[fields[field][0], OrNone()], fields[field][1]) for field in missed})
                self._model = create_model(label, __config__=config, **fields)
                # Of what a person was shown of a call, nulls too, some other value may be all that they change.
                self.edit_schema = self._model.model_json_schema(schema_generator=Untitled)
        except (PydanticSchemaGenerationError, PydanticInvalidForJsonSchema, PydanticUserError) as error:
            raise TypeError(_undescribed(label, {names[field]: fields[field] for field in fields}, error)) from error
        for each in (schema, self.edit_schema):
            each.pop("title", None)
            each.setdefault("properties", {})
        self._fields = names
        self.json_schema: JsonObject = schema
        self.names: frozenset[str] | None = frozenset(names.values())
        self._private_defaults = self._find_private_defaults()
        self._aliases = {
            name: shown_name(name, info)
            for field, info in self._model.model_fields.items()
            if shown_name(name := names[field], info) not in names.values()
        }
        self._fixed = [field for field, name in names.items() if name in fixed]
        self.made: Mapping[str, frozenset[str]] = {
            self._aliases.get(names[field], names[field]): frozenset([names[field]])
            for field, info in self._model.model_fields.items()
            if _is_made(info) and field not in self._private_defaults
        }
        self._is_plain = all(
            _is_plain(hints.get(parameter.name)) and not isinstance(parameter.default, FieldInfo)
            for parameter in parameters
        )

    def _find_private_defaults(self) -> frozenset[str]:
        """Fields whose default is no JSON (a sentinel object): it stays in Python, nobody is shown it."""
        private = set()
        for field, info in self._model.model_fields.items():
            if info.is_required():
                continue
            probe = self._model.model_construct(**{field: info.get_default(call_default_factory=True)})
            try:
                probe.model_dump(mode="json", include={field}, warnings="none")
            except ValueError:  # PydanticSerializationError is one
                private.add(field)
        return frozenset(private)

    def check(self, given: Mapping[str, Any]) -> Arguments:
        from pydantic import ValidationError

        try:
            checked = validated(self._model, self._as_shown(given))
        except ValidationError as error:
            raise InvalidArguments(describe_errors(error)) from None
        kept = [f for f in self._fields if f not in self._private_defaults or f in checked.model_fields_set]
        values = {self._fields[field]: getattr(checked, field) for field in kept}
        try:
            arguments = _arguments(self, values, given)
        except ValueError as error:
            raise InvalidArguments(f"arguments cannot be written as JSON: {error}") from None
        self._refuse_other(arguments.json, checked.model_fields_set)
        return arguments

    def replaced(self, given: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
        return {**self._as_shown(given), **self._as_shown(patch)}

    def _as_shown(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """With the name that the model knows of each parameter, where Python or a guardrail says its own."""
        if self._aliases.keys().isdisjoint(given):
            return given
        if twice := next((name for name, alias in self._aliases.items() if name in given and alias in given), None):
            raise InvalidArguments(f"{twice}: given twice, as {self._aliases[twice]} as well")
        return {self._aliases.get(name, name): value for name, value in given.items()}

    def _refuse_other(self, json: JsonObject, given: Collection[str]) -> None:
        """`InvalidArguments` for another value than the fixed one."""
        for field in self._fixed:
            if field not in given:
                continue
            name = self._fields[field]
            default = {name: self._model.model_fields[field].get_default(call_default_factory=True)}
            if field in self._private_defaults or not self.to_json(default).items() <= json.items():
                raise InvalidArguments(f"{name}: is fixed for this tool; leave it out")

    def to_json(self, values: Mapping[str, Any]) -> JsonObject:
        return self.in_order(values, self.write(values)[1])

    def in_order(self, values: Mapping[str, Any], json: JsonObject) -> JsonObject:
        if all(type(value) in _SCALARS for value in values.values()):
            return json
        infos = self._model.model_fields
        members = [
            (shown_name(name, infos[field]), values[name])
            for field, name in self._fields.items()
            if name in values and not is_written_by_author(infos[field])
        ]
        return members_in_order(members, json)

    def write(self, values: Mapping[str, Any]) -> tuple[JsonObject, JsonObject]:
        """The JSON of values as earlier releases had it, and by the names of the schema, with sets as they come."""
        if self._is_plain and all(type(value) in _SCALARS for value in values.values()):
            plain = {name: values[name] for name in self._fields.values() if name in values}  # they are their own JSON
            return plain, plain
        fields = {field: values[name] for field, name in self._fields.items() if name in values}
        model = self._model.model_construct(_fields_set=set(fields), **fields)
        written = model.model_dump(mode="json", by_alias=True, include=set(fields), warnings="none")
        return written, as_shown(model, written)

    def find_unread(self, values: Mapping[str, Any], json: JsonObject) -> str | None:
        if self._is_plain and all(type(value) in _SCALARS for value in values.values()):
            return None if values == json else "arguments: they are not what is shown"
        fields = {name: field for field, name in self._fields.items()}
        return find_unread(self._model, fields, values, json)

    def find_hidden(self) -> str | None:
        return find_hidden(self._model, self._fields)


def _undescribed(label: str, fields: Mapping[str, Any], error: PydanticUserError) -> str:
    """What to say of the parameter that pydantic makes no schema of."""
    reason, hint = why_not(error)
    name = next((name for name, field in fields.items() if not _is_described(field)), None)
    which = "has a parameter that" if name is None else f"has the parameter {name!r}, which"
    return f"tool {label!r} {which} JSON cannot describe: {reason}\n\nhint: {hint or _DESCRIBABLE}"


def _is_described(field: Any) -> bool:
    from pydantic import create_model
    from pydantic.errors import PydanticUserError

    try:
        create_model("one", field=field).model_json_schema()
    except PydanticUserError:
        return False
    return True


_DESCRIBABLE = (
    "use a JSON-like type or a pydantic model, or pass schema=...; what the run is to fill in, and not the model, is "
    "Annotated[..., hitl.Resource]"
)


def _is_plain(hint: Any) -> bool:
    """Whether pydantic takes values of this type as they are, and writes them so: nothing of its author's is asked."""
    if typing.get_origin(hint) in (list, dict, tuple, typing.Union, types.UnionType):
        return all(_is_plain(item) for item in typing.get_args(hint))
    return hint in _PLAIN


_PLAIN = (str, int, float, bool, None, types.NoneType, list, dict, Any)
_SCALARS = (str, int, bool, types.NoneType)


# --- from a schema the user wrote --------------------------------------------------------------------------------


class ModelParameters:
    """Parameters from a pydantic model; the function is called with its fields."""

    def __init__(self, model: type[BaseModel]):
        self._model = model
        self._shown = {name: shown_name(name, info) for name, info in model.model_fields.items()}
        self.json_schema: JsonObject = model.model_json_schema()
        self.edit_schema: JsonObject = self.json_schema
        self.names: frozenset[str] | None = frozenset(model.model_fields)
        self.made: Mapping[str, frozenset[str]] = {
            self._shown[name]: frozenset(all_names(name, info))
            for name, info in model.model_fields.items()
            if _is_made(info)
        }

    def check(self, given: Mapping[str, Any]) -> Arguments:
        from pydantic import ValidationError

        try:
            checked = validated(self._model, given, by_name=True)
        except ValidationError as error:
            raise InvalidArguments(describe_errors(error)) from None
        values = {name: getattr(checked, name) for name in type(checked).model_fields}
        extra = checked.model_extra or {}
        if twice := next((name for name in extra if name in values), None):
            # Nothing looked at the one that is called as the field is, and it would be what the function gets.
            raise InvalidArguments(f"{twice}: given twice, as {self._shown[twice]} as well")
        values.update(extra)
        try:
            return _arguments(self, values, given)
        except ValueError as error:
            raise InvalidArguments(f"arguments cannot be written as JSON: {error}") from None

    def replaced(self, given: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
        names = [all_names(name, info) for name, info in self._model.model_fields.items()]
        gone: set[str] = set().union(*(each for each in names if not each.isdisjoint(patch)))
        return {**{name: value for name, value in given.items() if name not in gone}, **patch}

    def to_json(self, values: Mapping[str, Any]) -> JsonObject:
        return self.in_order(values, self.write(values)[1])

    def in_order(self, values: Mapping[str, Any], json: JsonObject) -> JsonObject:
        return members_in_order(members_of(self._model.model_construct(**values)), json)

    def write(self, values: Mapping[str, Any]) -> tuple[JsonObject, JsonObject]:
        """The same."""
        model = self._model.model_construct(**values)
        written = model.model_dump(mode="json", by_alias=True, warnings="none")
        shown = as_shown(model, written)
        # Those of these fields had the names of the schema in earlier releases too, but not those inside.
        outer = {info.serialization_alias or name: self._shown[name] for name, info in self._model.model_fields.items()}
        earlier = {outer.get(name, name): value for name, value in written.items()}
        return shown if earlier == shown else earlier, shown

    def find_unread(self, values: Mapping[str, Any], json: JsonObject) -> str | None:
        return find_unread(self._model, {name: name for name in self._model.model_fields}, values, json)

    def find_hidden(self) -> str | None:
        return find_hidden(self._model)


def _arguments(
    parameters: FunctionParameters | ModelParameters, values: dict[str, Any], given: Mapping[str, Any]
) -> Arguments:
    written, shown = parameters.write(values)
    json = parameters.in_order(values, shown)
    return Arguments(values, json, given, None if json is written else written)


def _is_made(field: FieldInfo) -> bool:
    """Whether a default is made anew for each call, and need not be the same: what `list` makes is."""
    return field.default_factory not in (None, *_EMPTY)


_EMPTY = (list, dict, set, frozenset, tuple, str, bytes, int, float, bool)


_NO_OBJECT = "the schema of a tool must describe an object: a model calls it with named arguments"


class SchemaParameters(JsonParameters):
    """Parameters from a JSON Schema; the function is called with the JSON as it is."""

    def __init__(self, schema: Mapping[str, Any], *, trusted: bool = False):
        """`trusted`: written by this library or checked elsewhere, so it is not compiled here. One that describes no
        object fails its own calls then, and says so."""
        self.json_schema: JsonObject = json.loads(json.dumps(schema))
        if not trusted:
            check_schema("schema", self.json_schema)
        self._is_of_object = True
        if (kind := self.json_schema.get("type", "object")) != "object":
            if not trusted:
                raise ValueError(_NO_OBJECT)
            self._is_of_object = isinstance(kind, list) and "object" in kind
            # Providers take no other type of a tool's, and refuse all tools of a request where one has it.
            self.json_schema = {**self.json_schema, "type": "object"} if self._is_of_object else {"type": "object"}
        properties = self.json_schema.get("properties")
        if not isinstance(properties, dict):
            properties = {}
        closed = self.json_schema.get("additionalProperties") is False
        self.names: frozenset[str] | None = frozenset(properties) if closed or properties else None

    def check(self, given: Mapping[str, Any]) -> Arguments:
        if not self._is_of_object:
            raise InvalidArguments(f"{_NO_OBJECT}; this one cannot be called")
        try:
            # The copy keeps caller and tool apart, and proves that it is JSON.
            plain: JsonObject = json.loads(json.dumps(given, allow_nan=False))
        except (TypeError, ValueError) as error:
            raise InvalidArguments(f"arguments cannot be written as JSON: {error}") from None
        wrong = _core.validate(self.json_schema, plain)
        if wrong:
            raise InvalidArguments("; ".join(f"{dotted(item['loc'])}: {item['msg']}" for item in wrong))
        return Arguments(copy.deepcopy(plain), plain, given)

    def to_json(self, values: Mapping[str, Any]) -> JsonObject:
        plain: JsonObject = json.loads(json.dumps(values, allow_nan=False))
        return plain


def check_schema(option: str, schema: JsonObject) -> None:
    """ValueError that names the option, for what is no JSON Schema or refers to another document."""
    try:
        _core.check_response_schema(schema)
    except ValueError as error:
        raise ValueError(str(error).replace("response_schema", option, 1)) from None


def dotted(location: Any) -> str:
    """Where something is wrong with arguments."""
    if isinstance(location, str):
        return location or "arguments"
    return ".".join(str(part) for part in location) or "arguments"
