"""Signatures of requests by RFC 9421 in the Web Bot Auth profile: Ed25519 keys, their directory, and the signer.

A key is named by its JWK thumbprint (RFC 7638). Keys live in one file that only its owner may use. Each has a time
from which it signs and, once another one took over, a time at which it ends; until then both are in the directory,
so that a site that looks up the key of a signature finds it on either side of a rotation.
"""

import base64
import hashlib
import json
import os
import secrets
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crawld.model.access import access_refused
from crawld.model.errors import ConfigError, InputError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


@dataclass(frozen=True)
class SigningLimits:
    """Numbers that bound and tune this module."""

    nonce_bytes: int = 32
    directory_seconds: int = 300
    """For which the signature of a served directory is valid."""
    skew: int = 5
    """Seconds by which a signature is dated back: clocks differ."""


LIMITS = SigningLimits()


DIRECTORY_PATH = "/.well-known/http-message-signatures-directory"
DIRECTORY_TYPE = "application/http-message-signatures-directory+json"
REQUEST_TAG, DIRECTORY_TAG = "web-bot-auth", "http-message-signatures-directory"
LABEL = "sig1"


def _b64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _unb64(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


@dataclass(frozen=True, slots=True)
class SigningKey:
    """One key pair. It signs from `signs_from` on; `ends` is when it leaves the directory, None while it is in use."""

    public: bytes
    private: bytes = field(repr=False)
    created: float
    signs_from: float
    ends: float | None = None

    @property
    def key_id(self) -> str:
        """The JWK thumbprint, by which signatures name the key."""
        members = f'{{"crv":"Ed25519","kty":"OKP","x":"{_b64(self.public)}"}}'
        return _b64(hashlib.sha256(members.encode()).digest())

    def public_jwk(self) -> dict[str, object]:
        """The key as the directory shows it."""
        jwk: dict[str, object] = {"kty": "OKP", "crv": "Ed25519", "x": _b64(self.public), "kid": self.key_id}
        jwk |= {"use": "sig", "alg": "EdDSA", "nbf": int(self.created)}
        return jwk if self.ends is None else jwk | {"exp": int(self.ends)}

    def valid(self, now: float) -> bool:
        """Whether sites should accept its signatures."""
        return self.ends is None or now < self.ends

    def state(self, now: float, signing: "SigningKey | None") -> str:
        """How the key stands, in a word."""
        if not self.valid(now):
            return "ended"
        if signing is not None and self.key_id == signing.key_id:
            return "signing"
        return "next" if self.signs_from > now else "valid"


def _cryptography() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise ConfigError("signing needs a package: pip install 'crawld[signing]'") from None
    return ed25519


def new_key(now: float, signs_from: float | None = None) -> SigningKey:
    """A new key, drawn at random."""
    made = _cryptography().Ed25519PrivateKey.generate()
    public, private = made.public_key().public_bytes_raw(), made.private_bytes_raw()
    return SigningKey(public, private, now, now if signs_from is None else signs_from)


def signing_key(keys: Sequence[SigningKey], now: float) -> SigningKey | None:
    """The key that signs at a time: of those that are valid and have begun, the latest."""
    begun = [key for key in keys if key.valid(now) and key.signs_from <= now]
    return max(begun, key=lambda key: key.signs_from, default=None)


def rotated(keys: Sequence[SigningKey], now: float, lead: float, overlap: float) -> list[SigningKey]:
    """The keys with a new one that signs after `lead` seconds; those before end `overlap` seconds later than that.

    Keys that have ended are dropped.
    """
    ends = now + lead + overlap
    before = [replace(key, ends=ends if key.ends is None else key.ends) for key in keys if key.valid(now)]
    return [*before, new_key(now, now + lead)]


def directory(keys: Sequence[SigningKey], now: float) -> str:
    """The key directory as it is served, or put on a site of the operator's own."""
    return json.dumps({"keys": [key.public_jwk() for key in keys if key.valid(now)]}, indent=2) + "\n"


def read_keys(path: Path) -> list[SigningKey]:
    """The keys of a file; InputError where there is none, where others may use it, or where it holds something else."""
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise InputError(f"{path}: others may use this file: `chmod 600 {path}` keeps them out")
            document = json.load(file)
        return [
            SigningKey(
                _unb64(one["x"]), _unb64(one["d"]), float(one["created"]), float(one["signs_from"]), one.get("ends")
            )
            for one in document["keys"]
        ]
    except FileNotFoundError:
        raise InputError(f"{path}: there is no key yet: `crawld keys create` makes one") from None
    except PermissionError:
        raise InputError(str(access_refused(path))) from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{path}: this is not a file of keys that `crawld keys create` made") from None


def write_keys(path: Path, keys: Sequence[SigningKey]) -> None:
    """Write the file anew, whole or not at all, for its owner alone; root makes it for whose directory it is."""
    document = {
        "keys": [
            {"kty": "OKP", "crv": "Ed25519", "kid": key.key_id, "x": _b64(key.public), "d": _b64(key.private)}
            | {"created": key.created, "signs_from": key.signs_from, "ends": key.ends}
            for key in keys
        ]
    }
    aside = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            json.dump(document, file, indent=2)
            file.flush()
            os.fsync(file.fileno())
            if os.geteuid() == 0:
                owner = (path if path.exists() else path.parent).stat()
                os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
        aside.replace(path)
    except PermissionError:
        raise InputError(str(access_refused(path))) from None
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None


class Signer:
    """Signs requests, each for its own authority, and the directory of its keys."""

    def __init__(self, keys: Sequence[SigningKey], agent: str, seconds: int, *, dictionary: bool = True) -> None:
        load = _cryptography().Ed25519PrivateKey.from_private_bytes
        self._keys, self._seconds = list(keys), seconds
        self._loaded: dict[SigningKey, tuple[str, Ed25519PrivateKey]] = {
            key: (key.key_id, load(key.private)) for key in self._keys
        }
        self._current: tuple[float, SigningKey | None] = (-1.0, None)  # the key that signs, as of a second
        # Today's draft has a dictionary with the label of the signature as key; those before had the bare string.
        self._agent = f'{LABEL}="{agent}"' if dictionary else f'"{agent}"'
        component = f'"signature-agent";key="{LABEL}"' if dictionary else '"signature-agent"'
        self._components = f'("@authority" {component})'
        self._agent_line = f'\n{component}: "{agent}"'

    def headers(self, authority: str, now: float) -> dict[str, str]:
        """What a request to that authority is sent with; nothing where no key is valid."""
        second = now // 1.0
        if self._current[0] != second:
            self._current = (second, signing_key(self._keys, now))
        key = self._current[1]
        if key is None:
            return {}
        parameters = self._parameters(self._components, key, now, self._seconds, REQUEST_TAG)
        base = f'"@authority": {authority.lower()}{self._agent_line}\n"@signature-params": {parameters}'
        return {
            "Signature-Agent": self._agent,
            "Signature-Input": f"{LABEL}={parameters}",
            "Signature": f"{LABEL}=:{self._sign(key, base)}:",
        }

    def serve_directory(self, authority: str, now: float) -> tuple[str, Mapping[str, str]]:
        """The directory with its headers, signed by each of its keys for the authority that was asked."""
        valid = [key for key in self._keys if key.valid(now)]
        inputs, signatures = [], []
        for number, key in enumerate(valid):
            parameters = self._parameters('("@authority";req)', key, now, LIMITS.directory_seconds, DIRECTORY_TAG)
            base = f'"@authority";req: {authority.lower()}\n"@signature-params": {parameters}'
            inputs.append(f"binding{number}={parameters}")
            signatures.append(f"binding{number}=:{self._sign(key, base)}:")
        headers = {"Content-Type": DIRECTORY_TYPE, "Cache-Control": f"max-age={LIMITS.directory_seconds}"}
        if valid:
            headers |= {"Signature-Input": ", ".join(inputs), "Signature": ", ".join(signatures)}
        return directory(self._keys, now), headers

    def _parameters(self, components: str, key: SigningKey, now: float, seconds: int, tag: str) -> str:
        created = int(now) - LIMITS.skew
        nonce = base64.b64encode(secrets.token_bytes(LIMITS.nonce_bytes)).decode()
        times = f"created={created};expires={created + LIMITS.skew + seconds}"
        return f'{components};{times};keyid="{self._loaded[key][0]}";alg="ed25519";nonce="{nonce}";tag="{tag}"'

    def _sign(self, key: SigningKey, base: str) -> str:
        return base64.b64encode(self._loaded[key][1].sign(base.encode())).decode()
