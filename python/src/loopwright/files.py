"""Files, their JSON and their SHA-256, by the least of the standard library: `json` and `hashlib` take
longer to import than a kernel to load."""
from __future__ import annotations

from .errors import BadRequest, EnvironmentFailed

TYPE_CHECKING = False                      # errors.py says why
if TYPE_CHECKING:
    from typing import Any

# The parts of CPython that those two are made of, as its own `random` takes them.
try:
    from _sha2 import sha256
except ImportError:
    try:
        from _sha256 import sha256         # before 3.12
    except ImportError:
        from hashlib import sha256
try:
    import _json

    _make_scanner: Any = _json.make_scanner
except ImportError:
    _make_scanner = None


def read_bytes(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise EnvironmentFailed(f"cannot read {path}: {error.strerror}") from error


def sha256_hex(data: bytes) -> str:
    return str(sha256(data).hexdigest())


def read_json(path: str) -> dict[str, Any]:
    try:
        value = parse_json(read_bytes(path).decode())
    except ValueError as error:
        raise BadRequest(f"{path} is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise BadRequest(f"{path} describes no kernel")
    return value


def parse_json(text: str) -> Any:
    """As json.loads(), which is left to say what is wrong with a text that has something wrong."""
    if _make_scanner is not None:
        whole = text.strip(" \t\r\n")
        try:
            value, end = _make_scanner(_Defaults)(whole, 0)
            if end == len(whole):
                return value
        except Exception:                  # StopIteration, or what `json` is not there to raise
            pass
    import json

    return json.loads(text)


class _Defaults:
    """What a scanner asks its decoder for: those of json.loads()."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float, parse_int, parse_constant = float, int, float
