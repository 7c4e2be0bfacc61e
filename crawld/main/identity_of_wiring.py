"""Who we are to sites, made from settings: credentials, and the signer of requests."""

import os
import resource
from pathlib import Path

from crawld.fetch.credentials import Credentials, OriginCredential, make_credential, read_secret_file
from crawld.fetch.signing import Signer, read_keys
from crawld.main.identity_of_config import Credential
from crawld.main.settings import Settings
from crawld.model.errors import ConfigError, InputError
from crawld.model.units import many

_FROM_ENVIRONMENT: dict[str, str] = {}
"""What variables held that were read: a reload finds it here, and nothing that we start inherits it."""


def make_credentials(settings: Settings) -> Credentials:
    """Every credential of the settings, read anew; ConfigError that names each that cannot be used."""
    made: list[OriginCredential] = []
    bad: list[str] = []
    for given in settings.credentials:
        name, value = given.place
        try:
            made.append(make_credential(given.origin, given.prefix, given.kind, _secret(given)))
        except InputError as error:
            about = "" if name.endswith("_file") and str(error).startswith("/") else f"{value}: "
            bad.append(f"  credentials for {given.origin}: {name} {about}{error}")
    if bad:
        raise ConfigError(f"{many(len(bad), 'credential')} cannot be used:\n" + "\n".join(bad))
    if made:
        _forbid_core_dumps()
    return Credentials(made)


def make_signer(settings: Settings) -> Signer | None:
    """What signs requests; None where they are not signed. ConfigError where the settings ask for it in vain."""
    given = settings.signing
    if given.agent is None:
        return None
    try:
        keys = read_keys(settings.key_file())
        signer = Signer(keys, given.agent, given.seconds, dictionary=given.form == "dictionary")
    except (InputError, ConfigError) as error:
        raise ConfigError(f"signing: {error}") from None
    _forbid_core_dumps()
    return signer


def _secret(given: Credential) -> str:
    name, value = given.place
    if name.endswith("_file"):
        return read_secret_file(Path(value).expanduser())
    held = os.environ.pop(value, None)
    if held is not None:
        _FROM_ENVIRONMENT[value] = held
    if not _FROM_ENVIRONMENT.get(value):
        raise InputError("this environment variable is not set")
    return _FROM_ENVIRONMENT[value]


def _forbid_core_dumps() -> None:
    """Let a crash leave no image of the memory, which holds the secrets."""
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
