"""A bundle on disk (`.ekb`): `manifest.json` first, then `blobs/<sha256>` in the manifest's order, in one stored ZIP.

Equal manifest and blobs give equal bytes. Reading trusts nothing: the form is checked when it is opened
(`stored_zip.py`), the manifest before anything else, each blob's hash before it is handed out.
"""

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from edgekit.core.artifact import LoadableArtifact
from edgekit.core.errors import BadInput, Unsupported
from edgekit.core.files import input_fault, open_input, write_atomic
from edgekit.core.manifest import MANIFEST_LIMIT, ArtifactEntry, FileRef, GoldenSample, Manifest
from edgekit.core.stored_zip import MEMBERS_LIMIT, SIZE_LIMIT, Member, read_directory, zip_pieces
from edgekit.core.tensors import unpack_arrays

SUFFIX: Final = ".ekb"

_MANIFEST: Final = "manifest.json"
_MEMBER: Final = re.compile(r"manifest\.json|blobs/[0-9a-f]{64}")
_HEADERS: Final = 1 << 20  # room for headers and directory below ZIP's 4 GiB
_AGAIN: Final = "fetch it again, or build it again"


def file_ref(name: str, content: bytes) -> FileRef:
    """The reference to a content under a name."""
    return FileRef(name, hashlib.sha256(content).hexdigest(), len(content))


def write_bundle(path: Path, manifest: Manifest, blobs: Mapping[str, bytes]) -> None:
    """Write `path` whole or not at all. `blobs` maps SHA-256 to content and holds what the manifest names.

    Raises `BadInput` where a blob is missing or is not what its hash says, `Unsupported` from 4 GiB on,
    `EnvironmentFault` where the disk is full or the folder may not be written to.
    """
    write_atomic(path, bundle_pieces(manifest, blobs))


def bundle_pieces(manifest: Manifest, blobs: Mapping[str, bytes]) -> Iterator[bytes]:
    """The bundle's bytes in pieces. Checked before the first piece; raises as `write_bundle`."""
    what = f"bundle of '{manifest.model}'"
    members = {_MANIFEST: manifest.to_json()}
    for ref in manifest.blobs():
        content, member = blobs.get(ref.sha256), f"blobs/{ref.sha256}"
        if content is None:
            raise BadInput(what, f"no content for '{ref.name}' ({ref.sha256})", "add it to the blobs")
        hashes = member in members or hashlib.sha256(content).hexdigest() == ref.sha256
        if len(content) != ref.size or not hashes:
            raise BadInput(
                what, f"the content of '{ref.name}' is not what its hash and size say", "make the reference anew"
            )
        members[member] = content
    if sum(map(len, members.values())) > SIZE_LIMIT - _HEADERS or len(members) > MEMBERS_LIMIT:
        raise Unsupported(what, f"more than 4 GiB or {MEMBERS_LIMIT} files", "leave an artifact out")
    return zip_pieces(members)


class Bundle:
    """An open bundle: the manifest, and its files on demand. A context manager; several threads may read."""

    def __init__(self, path: Path, handle: int, members: Mapping[str, Member], manifest: Manifest) -> None:
        """Use `Bundle.open`."""
        self.path, self.manifest = path, manifest
        self._handle, self._members = handle, members

    @classmethod
    def open(cls, path: Path | str) -> Self:
        """Open and check all but the blobs' content.

        Raises `BadInput` for a file that is missing, cut, damaged or no bundle, `Unsupported` for one that needs a
        newer edgekit.
        """
        path = Path(path)
        with open_input(path) as file:
            handle = os.dup(file.fileno())
        try:
            members = read_directory(handle, str(path), _MEMBER)
            manifest = Manifest.from_json(_manifest_bytes(handle, members, path), where=f"{path}: manifest")
            for ref in manifest.blobs():
                member = members.get(f"blobs/{ref.sha256}")
                if member is None or member.size != ref.size:
                    raise BadInput(str(path), f"the file '{ref.name}' is not in it", _AGAIN)
        except OSError as error:
            os.close(handle)
            raise input_fault(path, error) from error
        except BaseException:
            os.close(handle)
            raise
        return cls(path, handle, members, manifest)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def read(self, ref: FileRef) -> bytes:
        """The content of one file. Raises `BadInput` where its hash is not the manifest's."""
        member = self._members[f"blobs/{ref.sha256}"]
        try:
            content = _read_at(self._handle, member)
        except OSError as error:
            raise input_fault(self.path, error) from error
        if hashlib.sha256(content).hexdigest() != ref.sha256:
            raise BadInput(str(self.path), f"damaged: the file '{ref.name}' is not what its hash says", _AGAIN)
        return content

    def artifact_files(self, entry: ArtifactEntry) -> dict[str, bytes]:
        """The files of one artifact by name. Raises as `read`."""
        return {ref.name: self.read(ref) for ref in entry.files}

    def loadable(self, entry: ArtifactEntry) -> LoadableArtifact:
        """One artifact in the form that `Runtime.load` takes. Raises as `read`."""
        label = f"{self.manifest.model} ({entry.label})"
        return LoadableArtifact(self.artifact_files(entry), entry.inputs, entry.outputs, label)

    def golden(self, sample: GoldenSample) -> tuple[dict[str, NDArray[np.generic]], dict[str, NDArray[np.generic]]]:
        """A golden sample's inputs and the float model's outputs, by port name. Raises `BadInput`."""
        where = f"{self.path}: golden sample '{sample.name}'"
        return (
            unpack_arrays(self.read(sample.inputs), where=where),
            unpack_arrays(self.read(sample.outputs), where=where),
        )


def _manifest_bytes(handle: int, members: Mapping[str, Member], path: Path) -> bytes:
    first = next(iter(members.values()))
    if first.name != _MANIFEST or first.size > MANIFEST_LIMIT:
        raise BadInput(str(path), f"its first member is '{first.name}' of {first.size} bytes, no manifest", _AGAIN)
    return _read_at(handle, first)


def _read_at(handle: int, member: Member) -> bytes:
    pieces, at = [], member.offset
    while at < member.offset + member.size:  # Linux reads at most 2 GiB a call
        piece = os.pread(handle, min(member.offset + member.size - at, 1 << 30), at)
        if not piece:
            break
        pieces.append(piece)
        at += len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
