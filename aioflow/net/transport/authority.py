"""A certificate authority for one cluster, in a directory: `ca.pem`, `ca.key`, and a certificate for each name.

    aioflow ca init DIR --host head --host 10.0.0.7      ca.pem, ca.key, and node.pem, node.key for these hosts
    aioflow ca issue DIR gpu --host gpu1                 gpu.pem, gpu.key

A holder of `ca.key` can admit anyone: only `ca.pem` and one pair belong on a machine of the cluster. Needs the package
`cryptography`, which the extra `tls` installs.
"""

import contextlib
import datetime
import ipaddress
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aioflow import errors

if TYPE_CHECKING:
    from cryptography import x509

AUTHORITY_DAYS: Final = 3650
NODE_DAYS: Final = 825
_NAME: Final = re.compile(r"[A-Za-z0-9][\w.-]{0,62}", re.ASCII)
_HOST: Final = re.compile(r"[A-Za-z0-9*_][\w.-]{0,252}", re.ASCII)


def init(directory: str | os.PathLike[str], hosts: Sequence[str] = ()) -> list[Path]:
    """A new authority, and a certificate `node` of the hosts, besides this machine. Returns the files.

    Raises:
        AlreadyExistsError: one of the files is there.
        InvalidArgumentError: a host is neither a name nor an address.

    After an error nothing is written.
    """
    x509, hashes, ec = _cryptography()
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(x509, "aioflow cluster")
    builder = _builder(x509, name, name, key, AUTHORITY_DAYS)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(x509, key_cert_sign=True, crl_sign=True), critical=True)
    authority = builder.sign(key, hashes.SHA256())
    node = _issued("node", ["localhost", "127.0.0.1", "::1", *hosts], authority, key)
    folder = Path(directory)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return _write(folder, {"ca": (key, authority), "node": node})


def issue(directory: str | os.PathLike[str], name: str, hosts: Sequence[str]) -> list[Path]:
    """Write a certificate for these hosts, signed by the authority in the directory. Returns the files.

    Raises:
        NotFoundError: the directory has no authority.
        AlreadyExistsError: a certificate of that name exists.
        InvalidArgumentError: the name cannot be a file name, no host is given, or a host is neither a name nor an
            address; or `ca.key` is not the key of `ca.pem`.

    After an error nothing is written.
    """
    folder = Path(directory)
    if _NAME.fullmatch(name) is None or not hosts:
        raise errors.InvalidArgumentError(f"{name!r} needs hosts, and a name of letters, digits, '.', '-' and '_'")
    _cryptography()
    return _write(folder, {name: _issued(name, hosts, *_load(folder))})


def _issued(name: str, hosts: Sequence[str], authority: "x509.Certificate", signing: Any) -> tuple[Any, Any]:
    """A key, and its certificate of these hosts, signed by the authority's key."""
    x509, hashes, ec = _cryptography()
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(x509, _name(x509, name), authority.subject, key, NODE_DAYS)
    names = x509.SubjectAlternativeName([_host(x509, host) for host in dict.fromkeys(hosts)])
    purposes = [x509.oid.ExtendedKeyUsageOID.SERVER_AUTH, x509.oid.ExtendedKeyUsageOID.CLIENT_AUTH]
    builder = builder.add_extension(names, critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
    builder = builder.add_extension(_usage(x509, digital_signature=True), critical=True)
    return key, builder.sign(signing, hashes.SHA256())


def _cryptography() -> tuple[Any, Any, Any]:
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError:
        raise errors.UnimplementedError(
            "making certificates needs the package cryptography: pip install 'aioflow-engine[tls]'"
        ) from None
    return x509, hashes, ec


def _builder(x509: Any, subject: Any, issuer: Any, key: Any, days: int) -> Any:
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - datetime.timedelta(hours=1))
    return builder.not_valid_after(now + datetime.timedelta(days=days))


def _usage(x509: Any, **uses: bool) -> Any:
    names = (
        "digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
        "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
    )  # fmt: skip
    return x509.KeyUsage(**{name: uses.get(name, False) for name in names})


def _name(x509: Any, text: str) -> Any:
    return x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, text)])


def _host(x509: Any, host: str) -> Any:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        if _HOST.fullmatch(host) is None:
            text = f"{host[:200]!r} is not a host: write an ASCII name, as xn--mnchen-3ya for münchen, or an IP address"
            raise errors.InvalidArgumentError(text) from None
        return x509.DNSName(host)


def _load(folder: Path) -> "tuple[x509.Certificate, Any]":
    """The authority's certificate and key."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        certificate = x509.load_pem_x509_certificate((folder / "ca.pem").read_bytes())
        key = load_pem_private_key((folder / "ca.key").read_bytes(), None)
    except FileNotFoundError as error:
        name = Path(error.filename).name
        text = f"{folder} has no authority: {name} is missing; make one by `aioflow ca init`"
        raise errors.NotFoundError(text) from None
    except (TypeError, ValueError) as error:
        raise errors.InvalidArgumentError(f"the authority in {folder} cannot be used: {error}") from None
    if key.public_key() != certificate.public_key():
        text = f"{folder / 'ca.key'} is not the key of ca.pem: no task would accept a certificate that it signs"
        raise errors.InvalidArgumentError(text)
    return certificate, key


def _write(folder: Path, pairs: Mapping[str, tuple[Any, Any]]) -> list[Path]:
    """Write keys, readable only by the owner, and their certificates, by name: all of them, or none."""
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    files: dict[Path, tuple[bytes, int]] = {}
    for name, (key, certificate) in pairs.items():
        secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        files[folder / f"{name}.key"] = secret, 0o600
        files[folder / f"{name}.pem"] = certificate.public_bytes(Encoding.PEM), 0o644
    there = next((path for path in files if os.path.lexists(path)), None)
    if there is not None:
        raise _exists(there)
    with contextlib.ExitStack() as undo:
        for path, (data, mode) in files.items():
            _create(path, data, mode, undo)
        undo.pop_all()
    return list(files)


def _create(path: Path, data: bytes, mode: int, undo: contextlib.ExitStack) -> None:
    """Write a new file, which is removed again if all is undone."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        raise _exists(path) from None
    undo.callback(path.unlink, missing_ok=True)
    with open(descriptor, "wb") as file:
        file.write(data)


def _exists(path: Path) -> errors.AlreadyExistsError:
    return errors.AlreadyExistsError(f"{path} exists, and is left as it is")
