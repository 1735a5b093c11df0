"""What a client says about itself when a server has introduced itself; secrets go nowhere else."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from nats import errors

from thinwire.brokers.nats.options import Options
from thinwire.errors import ConfigError, MissingExtra

_JWT, _SEED = b"BEGIN NATS USER JWT", b"BEGIN USER NKEY SEED"


def read_info(line: bytes) -> dict[str, Any]:
    """What the server tells of itself in its first line."""
    if not line.startswith(b"INFO "):
        raise errors.Error("nats: expecting INFO")
    try:
        info = json.loads(line[5:])
    except ValueError:
        raise errors.Error("nats: expecting INFO") from None
    if not isinstance(info, dict):
        raise errors.Error("nats: expecting INFO")
    return info


def connect_command(info: dict[str, Any], options: Options) -> bytes:
    """The line by which the server knows this client."""
    told = {
        "verbose": False,
        "pedantic": False,
        "lang": "python",
        "version": "thinwire",
        "protocol": 1,
        "headers": True,
        "no_responders": True,
        **_identity(str(info.get("nonce", "")), options),
    }
    if options.name is not None:
        told["name"] = options.name
    return b"CONNECT %b\r\n" % json.dumps(told, separators=(",", ":")).encode()


def _identity(nonce: str, options: Options) -> dict[str, str]:
    """By the first of the ways that is given."""
    if options.token is not None:
        return {"auth_token": options.token}
    if options.user is not None and options.password is not None:
        return {"user": options.user, "pass": options.password}
    if options.credentials is None and options.nkey is None:
        return {}
    try:
        return _signed(nonce, options)
    except ImportError:
        raise MissingExtra("credentials and nkey files need the package nkeys", extra="nats") from None
    except Exception as error:
        # whatever a reader of keys says, it may quote what it has read
        raise ConfigError("the credentials or nkey file cannot be used", kind=type(error).__name__) from None


def _signed(nonce: str, options: Options) -> dict[str, str]:
    import nkeys  # type: ignore[import-untyped]

    if options.credentials is not None:
        text = Path(options.credentials).read_bytes()
        seed, identity = _part(text, _SEED), {"jwt": _part(text, _JWT).decode()}
    else:
        assert options.nkey is not None
        seed, identity = Path(options.nkey).read_bytes().strip(), {}
    pair = nkeys.from_seed(bytearray(seed))
    if not identity:
        identity = {"nkey": pair.public_key.decode()}
    signature = base64.b64encode(pair.sign(nonce.encode())).decode()
    pair.wipe()
    return {**identity, "sig": signature}


def _part(text: bytes, heading: bytes) -> bytes:
    """The line behind a heading of a file of credentials."""
    return text.partition(heading)[2].splitlines()[1].strip()
