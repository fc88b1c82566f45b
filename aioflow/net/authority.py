"""A certificate authority for one cluster, in a directory: `ca.pem`, `ca.key`, and a certificate for each name.

    aioflow ca init DIR --host head --host 10.0.0.7      ca.pem, ca.key, and node.pem, node.key for these hosts
    aioflow ca issue DIR gpu --host gpu1                 gpu.pem, gpu.key

Who has `ca.key` can let anyone in: only `ca.pem` and one pair belong on a machine of the cluster. Needs the package
`cryptography`, which the extra `tls` installs.
"""

import datetime
import ipaddress
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aioflow import errors

if TYPE_CHECKING:
    from cryptography import x509

AUTHORITY_DAYS: Final = 3650
NODE_DAYS: Final = 825
_NAME: Final = re.compile(r"[A-Za-z0-9][\w.-]{0,62}", re.ASCII)


def init(directory: str | os.PathLike[str], hosts: Sequence[str] = ()) -> list[Path]:
    """A new authority, and a certificate `node` of the hosts, besides this machine. Returns the files.

    AlreadyExistsError if there is an authority; nothing is changed then.
    """
    folder = Path(directory)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    x509, hashes, ec = _cryptography()
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(x509, "aioflow cluster")
    builder = _builder(x509, name, name, key, AUTHORITY_DAYS)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(x509, key_cert_sign=True, crl_sign=True), critical=True)
    files = _write(folder, "ca", key, builder.sign(key, hashes.SHA256()))
    return files + issue(folder, "node", ["localhost", "127.0.0.1", "::1", *hosts])


def issue(directory: str | os.PathLike[str], name: str, hosts: Sequence[str]) -> list[Path]:
    """A certificate of these hosts, signed by the authority in the directory. Returns the files.

    Raises:
        NotFoundError: there is no authority.
        AlreadyExistsError: there is a certificate of that name.
        InvalidArgumentError: the name cannot be that of a file, or no host is given.
    """
    folder = Path(directory)
    if _NAME.fullmatch(name) is None or not hosts:
        raise errors.InvalidArgumentError(f"{name!r} needs hosts, and a name of letters, digits, '.', '-' and '_'")
    x509, hashes, ec = _cryptography()
    authority, signing = _load(folder)
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(x509, _name(x509, name), authority.subject, key, NODE_DAYS)
    names = x509.SubjectAlternativeName([_host(x509, host) for host in dict.fromkeys(hosts)])
    purposes = [x509.oid.ExtendedKeyUsageOID.SERVER_AUTH, x509.oid.ExtendedKeyUsageOID.CLIENT_AUTH]
    builder = builder.add_extension(names, critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
    builder = builder.add_extension(_usage(x509, digital_signature=True), critical=True)
    return _write(folder, name, key, builder.sign(signing, hashes.SHA256()))


def _cryptography() -> tuple[Any, Any, Any]:
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError:
        raise errors.UnimplementedError(
            "certificates are made by the package cryptography, which is not installed: pip install 'aioflow[tls]'"
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
        return x509.DNSName(host)


def _load(folder: Path) -> "tuple[x509.Certificate, Any]":
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        certificate = x509.load_pem_x509_certificate((folder / "ca.pem").read_bytes())
        return certificate, load_pem_private_key((folder / "ca.key").read_bytes(), None)
    except FileNotFoundError:
        raise errors.NotFoundError(f"{folder} has no authority; make one by `aioflow ca init`") from None


def _write(folder: Path, name: str, key: Any, certificate: Any) -> list[Path]:
    """Write a key, which only the owner may read, and its certificate."""
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    files = [folder / f"{name}.key", folder / f"{name}.pem"]
    for path, data, mode in zip(files, [secret, certificate.public_bytes(Encoding.PEM)], [0o600, 0o644], strict=True):
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        except FileExistsError:
            raise errors.AlreadyExistsError(f"{path} exists, and is left as it is") from None
        with open(descriptor, "wb") as file:
            file.write(data)
    return files


__all__ = ["init", "issue"]
