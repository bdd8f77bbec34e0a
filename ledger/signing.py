"""Signatures of seals: Ed25519, by a key that is a file, where the package ``cryptography`` is.

Source: RFC 8032; the file is PKCS #8 in PEM, as OpenSSL reads it.
"""

import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from ledger.errors import LedgerError, RefusedError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

HINT = "pip install 'trainledger[sign]'"


class Key:
    """A private key."""

    def __init__(self, private: "Ed25519PrivateKey") -> None:
        self._private = private
        self.public = private.public_key().public_bytes_raw().hex()

    def sign(self, message: bytes) -> str:
        """The signature of ``message``, in hexadecimal digits."""
        return self._private.sign(message).hex()


def is_possible() -> bool:
    """Whether the package that signs is installed."""
    try:
        import cryptography  # noqa: F401, PLC0415 (an extra)
    except ImportError:
        return False
    return True


def make_key(path: Path) -> Key:
    """A new key, in a file at ``path`` that only its owner can read.

    Raises:
        RefusedError: there is a file already, or the package is not installed.
    """
    if not is_possible():
        raise RefusedError("this server cannot sign: the package cryptography is missing", HINT)
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 (an extra)
    from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415

    private = ed25519.Ed25519PrivateKey.generate()
    text = private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    _put(text, path)
    return Key(private)


def _put(text: bytes, path: Path) -> None:
    """Make a file at ``path`` that is whole as soon as it is there, and never in place of another.

    Raises:
        RefusedError: there is one.
    """
    fresh = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(descriptor)
        path.hardlink_to(fresh)
    except FileExistsError:
        raise RefusedError(
            f"there is a key already: {path.name}",
            "move it away first; seals that it signed stay valid",
        ) from None
    finally:
        fresh.unlink()


def read_key(path: Path) -> Key | None:
    """The key in the file at ``path``; None where there is no file, or nothing that could sign.

    Raises:
        LedgerError: the file holds no key of this kind.
    """
    if not is_possible():
        return None
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return None
    from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415 (an extra)
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415

    try:
        private = load_pem_private_key(text, password=None)
    except (ValueError, TypeError):
        private = None
    if not isinstance(private, ed25519.Ed25519PrivateKey):
        raise LedgerError(f"{path.name} holds no Ed25519 key without a password")
    return Key(private)


def fits(public: str, signature: str, message: bytes) -> bool:
    """Whether ``signature`` was made of ``message`` with the key whose public part is ``public``.

    Only to be asked where ``is_possible`` says so.
    """
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 (an extra)
    from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415

    try:
        key = ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
        key.verify(bytes.fromhex(signature), message)
    except (InvalidSignature, ValueError):
        return False
    return True
