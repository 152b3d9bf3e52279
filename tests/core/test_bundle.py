import io
import json
import os
import shutil
import struct
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgekit.core.bundle import Bundle, bundle_pieces, file_ref, write_bundle
from edgekit.core.errors import BadInput, EdgekitError, EnvironmentFault, Unsupported
from edgekit.core.manifest import Manifest
from edgekit.core.stored_zip import zip_pieces


@dataclass(frozen=True)
class Made:
    manifest: Manifest
    blobs: dict[str, bytes]


@pytest.fixture
def bundle(made: Made, tmp_path: Path) -> Path:
    write_bundle(tmp_path / "tiny.ekb", made.manifest, made.blobs)
    return tmp_path / "tiny.ekb"


def test_what_is_written_is_read_back(made: Made, bundle: Path) -> None:
    with Bundle.open(bundle) as opened:
        assert opened.manifest == made.manifest
        entry = opened.manifest.artifacts[0]
        assert list(opened.artifact_files(entry)) == ["model.xml", "model.bin"]
        assert opened.artifact_files(entry)["model.xml"] == b"model" * 100
        artifact = opened.loadable(entry)
        assert (artifact.label, artifact.inputs) == ("tiny (openvino int8 (vnni))", entry.inputs)
        inputs, outputs = opened.golden(opened.manifest.golden[0])
        assert inputs["image"].shape == (1, 3, 8, 8)
        np.testing.assert_array_equal(outputs["scores"], [[0, 1, 2, 3]])


def test_equal_inputs_give_equal_bytes_in_another_process_and_order(made: Made, bundle: Path) -> None:
    shuffled = dict(sorted(made.blobs.items(), reverse=True)) | {"f" * 64: b"not in the manifest"}
    assert b"".join(bundle_pieces(made.manifest, shuffled)) == bundle.read_bytes()
    script = (
        "import sys; from pathlib import Path; from edgekit.core.bundle import *\n"
        "with Bundle.open(sys.argv[1]) as b:\n"
        "    blobs = {r.sha256: b.read(r) for r in b.manifest.blobs()}\n"
        "    write_bundle(Path(sys.argv[2]), b.manifest, blobs)\n"
    )
    other = bundle.with_name("again.ekb")
    environment = os.environ | {"PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo"}
    subprocess.run([sys.executable, "-c", script, bundle, other], check=True, env=environment, timeout=60)
    assert other.read_bytes() == bundle.read_bytes()


def test_any_zip_tool_reads_it_and_members_are_stored(bundle: Path) -> None:
    with zipfile.ZipFile(bundle) as archive:
        assert archive.testzip() is None
        members = archive.infolist()
    assert members[0].filename == "manifest.json"
    assert {member.compress_type for member in members} == {zipfile.ZIP_STORED}
    assert {member.date_time for member in members} == {(1980, 1, 1, 0, 0, 0)}
    assert len({member.filename for member in members}) == len(members) == 5
    if shutil.which("unzip"):
        assert subprocess.run(["unzip", "-tq", bundle], check=False, capture_output=True).returncode == 0


def test_a_missing_or_wrong_blob_is_refused_and_nothing_is_written(made: Made, tmp_path: Path) -> None:
    first = next(iter(made.blobs))
    for blobs in ({}, {**made.blobs, first: b"other"}, {**made.blobs, first: bytes(len(made.blobs[first]))}):
        with pytest.raises(BadInput):
            write_bundle(tmp_path / "x.ekb", made.manifest, blobs)
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_named(made: Made, tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault, match="does not exist"):
        write_bundle(tmp_path / "no" / "x.ekb", made.manifest, made.blobs)


def test_opening_what_is_no_bundle_says_so(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no such file"):
        Bundle.open(tmp_path / "missing.ekb")
    with pytest.raises(BadInput, match="a folder"):
        Bundle.open(tmp_path)
    for content, words in ((b"", "empty"), (b"hello, I am text\n" * 9, "not a bundle"), (b"PK\3\4", "truncated")):
        (tmp_path / "x.ekb").write_bytes(content)
        with pytest.raises(BadInput, match=words):
            Bundle.open(tmp_path / "x.ekb")


def test_a_cut_at_any_byte_is_refused(bundle: Path) -> None:
    whole = bundle.read_bytes()
    for length in range(0, len(whole), 13):
        bundle.write_bytes(whole[:length])
        with pytest.raises(BadInput):
            Bundle.open(bundle)


def read_all(path: Path) -> None:
    with Bundle.open(path) as opened:
        for ref in opened.manifest.blobs():
            opened.read(ref)


def test_a_flipped_byte_anywhere_is_refused(bundle: Path) -> None:
    whole = bundle.read_bytes()
    for at in range(0, len(whole), 7):
        bundle.write_bytes(whole[:at] + bytes([whole[at] ^ 0x40]) + whole[at + 1 :])
        try:
            read_all(bundle)
        except EdgekitError:
            continue
        manifest_end = 43 + len(Manifest.to_json(Bundle.open(bundle).manifest))
        assert at < manifest_end, f"byte {at} is not covered"  # a changed word of the manifest is another manifest


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_random_damage_never_gives_other_content(bundle: Path, made: Made, data: st.DataObject) -> None:
    raw = bytearray(b"".join(bundle_pieces(made.manifest, made.blobs)))
    for _ in range(data.draw(st.integers(1, 6))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    bundle.write_bytes(raw)
    try:
        with Bundle.open(bundle) as opened:
            contents = {ref.sha256: opened.read(ref) for ref in opened.manifest.blobs()}
    except (BadInput, Unsupported):
        return
    assert all(made.blobs[sha256] == content for sha256, content in contents.items())


Members = list[tuple[str, bytes]]


def rezipped(members: Members, **options: int) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", **options) as archive:  # type: ignore[call-overload]
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content, options.get("compression"))
    return buffer.getvalue()


def repacked(members: Members) -> bytes:
    return b"".join(zip_pieces(dict(members)))


def members_of(path: Path) -> Members:
    with zipfile.ZipFile(path) as archive:
        return [(member.filename, archive.read(member)) for member in archive.infolist()]


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    ("hostile", "words"),
    [
        (lambda m: rezipped(m, compression=zipfile.ZIP_DEFLATED), "is compressed"),
        (lambda m: rezipped([*m, m[1]]), "stands twice"),
        (lambda m: rezipped([*m, ("../../etc/passwd", b"x")]), "unexpected member '../../etc/passwd'"),
        (lambda m: rezipped([*m, ("/abs", b"x")]), "unexpected member '/abs'"),
        (lambda m: rezipped([*m, ("blobs/" + "A" * 64, b"x")]), "unexpected member"),
        (lambda m: rezipped([*m, ("blobs/" + "0" * 64 + "\n", b"x")]), "unexpected member"),
        (lambda m: repacked(m[1:]), "no manifest"),
        (lambda m: repacked([*m[1:], m[0]]), "no manifest"),
        (lambda m: repacked(m[:2]), "is not in it"),
        (rezipped, "not laid out"),
        (lambda m: b"#!/bin/sh\n" + rezipped(m), "not a bundle"),
        (lambda m: rezipped(m) + b"junk", "truncated"),
        (
            lambda m: rezipped([("manifest.json", bytes(100_000_000))], compression=zipfile.ZIP_DEFLATED),
            "is compressed",
        ),
    ],
)
def test_hostile_zips_are_refused_by_name(bundle: Path, hostile: Callable[[Members], bytes], words: str) -> None:
    bundle.write_bytes(hostile(members_of(bundle)))
    with pytest.raises(BadInput) as caught:
        Bundle.open(bundle)
    assert words in str(caught.value)


def test_overlapping_members_and_lying_sizes_are_refused(bundle: Path) -> None:
    whole = bundle.read_bytes()
    directory = whole.rindex(b"PK\1\2" + struct.pack("<BB", 20, 3))
    for field, value in (
        (42, 0),
        (20, 1 << 31),
        (24, 5),
    ):  # offset to the first member; sizes beyond the file, or unequal
        raw = bytearray(whole)
        raw[directory + field : directory + field + 4] = struct.pack("<I", value)
        bundle.write_bytes(raw)
        with pytest.raises(BadInput):
            Bundle.open(bundle)


def test_a_content_swapped_under_a_right_name_is_refused_when_read(made: Made, bundle: Path) -> None:
    entry = made.manifest.artifacts[0]
    whole = bundle.read_bytes()
    bundle.write_bytes(whole.replace(b"model" * 100, b"MODEL" * 100))
    with Bundle.open(bundle) as opened, pytest.raises(BadInput, match=r"'model.xml' is not what its hash says"):
        opened.artifact_files(entry)


def test_a_newer_bundle_is_refused_by_name(made: Made, tmp_path: Path) -> None:
    newer = replace(made.manifest, requires={"edgekit": ">=99"})
    write_bundle(tmp_path / "x.ekb", newer, made.blobs)
    with pytest.raises(Unsupported, match="needs edgekit >=99"):
        Bundle.open(tmp_path / "x.ekb")


def test_no_file_stays_open_after_a_refusal(bundle: Path) -> None:
    bundle.write_bytes(bundle.read_bytes()[:-1])
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with pytest.raises(BadInput):
            Bundle.open(bundle)
    assert len(os.listdir("/proc/self/fd")) == before


def test_several_threads_read_at_once(made: Made, bundle: Path) -> None:
    wrong: list[str] = []
    with Bundle.open(bundle) as opened:

        def read() -> None:
            for _ in range(50):
                for ref in opened.manifest.blobs():
                    if opened.read(ref) != made.blobs[ref.sha256]:
                        wrong.append(ref.name)

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def test_the_manifest_is_plain_json_for_other_tools(bundle: Path) -> None:
    with zipfile.ZipFile(bundle) as archive:
        plain = json.loads(archive.read("manifest.json"))
    assert plain["artifacts"][0]["files"][0]["size"] == 500
    assert file_ref("model.xml", b"model" * 100).sha256 == plain["artifacts"][0]["files"][0]["sha256"]
