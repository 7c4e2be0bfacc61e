"""A verifier of HTTP message signatures, written from RFC 9421 and the Web Bot Auth drafts alone."""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

_MEMBER = re.compile(
    r'\s*([a-z][a-z0-9_.*-]*)=(\((?:[^")]|"[^"]*")*\)(?:;[a-z*]+=(?:"[^"]*"|\d+))*|:[A-Za-z0-9+/=]*:|"[^"]*")'
)
_COMPONENT = re.compile(r'"([^"]+)"((?:;[a-z]+(?:="[^"]*")?)*)')
_PARAMETER = re.compile(r';([a-z]+)=(?:"([^"]*)"|(\d+))')


class NotVerifiedError(Exception):
    """A signature that does not hold, and why."""


@dataclass(frozen=True)
class Verified:
    """What a valid signature says."""

    key_id: str
    nonce: str
    created: int
    expires: int
    components: tuple[str, ...]


def dictionary(text: str) -> dict[str, str]:
    """The members of a structured dictionary, as they are written."""
    found, at = {}, 0
    while at < len(text):
        member = _MEMBER.match(text, at)
        if member is None:
            raise NotVerifiedError(f"no dictionary: {text[at:]!r}")
        found[member[1]] = member[2]
        at = member.end() + (1 if text[member.end() : member.end() + 1] == "," else 0)
    return found


def keys_of(directory: str) -> dict[str, Ed25519PublicKey]:
    """The keys of a directory by their thumbprints (RFC 7638), which must be their names."""
    found = {}
    for jwk in json.loads(directory)["keys"]:
        members = {name: jwk[name] for name in ("crv", "kty", "x")}
        packed = json.dumps(members, separators=(",", ":"), sort_keys=True).encode()
        thumbprint = base64.urlsafe_b64encode(hashlib.sha256(packed).digest()).decode().rstrip("=")
        if thumbprint != jwk["kid"]:
            raise NotVerifiedError("a key is not named by its thumbprint")
        found[thumbprint] = Ed25519PublicKey.from_public_bytes(base64.urlsafe_b64decode(jwk["x"] + "=="))
    return found


def verify(
    headers: Mapping[str, str],
    authority: str,
    keys: Mapping[str, Ed25519PublicKey],
    now: float,
    *,
    tag: str = "web-bot-auth",
    wanted: tuple[str, ...] = ("@authority", "signature-agent"),
) -> list[Verified]:
    """What every signature of a message to that authority says; NotVerifiedError where one does not hold."""
    inputs, signatures = dictionary(headers["signature-input"]), dictionary(headers["signature"])
    if not inputs or inputs.keys() != signatures.keys():
        raise NotVerifiedError("not every input has its signature")
    return [_verify(headers, authority, keys, now, inputs[name], signatures[name], tag, wanted) for name in inputs]


def _verify(
    headers: Mapping[str, str],
    authority: str,
    keys: Mapping[str, Ed25519PublicKey],
    now: float,
    given: str,
    signature: str,
    tag: str,
    wanted: tuple[str, ...],
) -> Verified:
    inner, _, _ = given[1:].partition(")")
    lines, components = [], []
    for name, parameters in _COMPONENT.findall(inner):
        lines.append(f'"{name}"{parameters}: {_value(headers, authority, name, parameters)}')
        components.append(name)
    said = {name: text or number for name, text, number in _PARAMETER.findall(given[len(inner) + 2 :])}
    base = "\n".join([*lines, f'"@signature-params": {given}'])
    if tuple(components) != wanted or said.get("tag") != tag:
        raise NotVerifiedError(f"another profile: {components} {said}")
    if not int(said["created"]) <= now < int(said["expires"]) or len(base64.b64decode(said["nonce"])) < 32:
        raise NotVerifiedError("not valid at this time, or without a nonce")
    if said["keyid"] not in keys:
        raise NotVerifiedError("an unknown key")
    try:
        keys[said["keyid"]].verify(base64.b64decode(signature.strip(":")), base.encode())
    except InvalidSignature:
        raise NotVerifiedError("the signature is of something else") from None
    return Verified(said["keyid"], said["nonce"], int(said["created"]), int(said["expires"]), tuple(components))


def _value(headers: Mapping[str, str], authority: str, name: str, parameters: str) -> str:
    if name == "@authority":
        return authority.lower()
    whole = headers[name].strip()
    member = re.fullmatch(r';key="([^"]+)"', parameters)
    return whole if member is None else dictionary(whole)[member[1]]
