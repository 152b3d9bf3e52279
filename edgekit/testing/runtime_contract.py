"""What every `Runtime` must do, as a pytest class: an engine's own test file is a fixture and five tiny models.

    class TestMyEngine(RuntimeContract):
        @pytest.fixture
        def runtime(self) -> Runtime:
            return RUNTIME

        def affine(self, shape): ...  # and the other four makers

Needs numpy and pytest only: it runs in the environment of any engine.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from edgekit.core.artifact import Dim, LoadableArtifact, Port
from edgekit.core.errors import BadInput, EdgekitError, ExitCode, UsageError
from edgekit.runtimes.runtime import Runtime, Session

Files = Mapping[str, bytes]
FIXED = (1, 2, 3, 4)  # the model's shape of most tests; its NHWC form is (1, 3, 4, 2)
NHWC = (0, 2, 3, 1)


def affine_artifact(files: Files, shape: tuple[Dim, ...], dtype: str = "float32") -> LoadableArtifact:
    """y = 2 x + 1 with ports of that shape and dtype."""
    return LoadableArtifact(files, (Port("x", dtype, shape),), (Port("y", dtype, shape),), "affine")


def sample(*shape: int, seed: int = 7) -> NDArray[np.float32]:
    """Normal numbers, the same in every run."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


class RuntimeContract:
    """The suite. A maker returns the files of a model; what names it uses inside is its own affair."""

    rtol = 1e-5
    """Bound of the relative and absolute error of float results; an engine with a coarser type may widen it."""

    @pytest.fixture
    def runtime(self) -> Runtime:
        """The engine to test."""
        raise NotImplementedError

    def affine(self, shape: tuple[int | None, ...]) -> Files:
        """y = 2 x + 1 in float32. Called with (1, 2, 3, 4), (1, 3, 4, 2) and (1, None); None is a free size."""
        raise NotImplementedError

    def sum_and_difference(self) -> Files:
        """Inputs a and b, outputs a + b and a - b, in this order; float32 [2, 3]."""
        raise NotImplementedError

    def increment(self) -> Files:
        """y = x + 1 of int64 [3]."""
        raise NotImplementedError

    def increment_int32(self) -> Files:
        """y = x + 1 of int32 [3]: what a runtime without 64-bit integers has for an int64 model."""
        raise NotImplementedError

    def ignores_second(self) -> Files:
        """y = 2 x of float32 [2, 3]; a second input, float32 [4], is read by nothing: the file keeps it or not."""
        raise NotImplementedError

    @pytest.fixture
    def session(self, runtime: Runtime) -> Session:
        """y = 2 x + 1 of [1, 2, 3, 4]."""
        return runtime.load(affine_artifact(self.affine(FIXED), FIXED), threads=1)

    @pytest.fixture
    def pair(self, runtime: Runtime) -> Session:
        """Two inputs and two outputs under names that need care."""
        inputs = (Port("images/輸入:0", "float32", (2, 3)), Port("../b;1", "float32", (2, 3)))
        outputs = (Port("out put/Ω;0", "float32", (2, 3)), Port("difference", "float32", (2, 3)))
        return runtime.load(LoadableArtifact(self.sum_and_difference(), inputs, outputs, "pair"), threads=1)

    def close(self, got: NDArray[np.generic], want: NDArray[np.generic]) -> None:
        """Same dtype, shape and values; NaN equals NaN."""
        assert isinstance(got, np.ndarray)
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=self.rtol, atol=self.rtol)

    # What it is

    def test_is_a_runtime_with_a_name_and_a_version(self, runtime: Runtime) -> None:
        assert isinstance(runtime, Runtime)
        assert runtime.name
        assert runtime.version()

    def test_a_session_tells_the_ports_of_its_artifact(self, session: Session) -> None:
        assert isinstance(session, Session)
        assert session.inputs == (Port("x", "float32", FIXED),)
        assert session.outputs == (Port("y", "float32", FIXED),)

    # Right values

    def test_values_match_the_reference(self, session: Session) -> None:
        x = sample(*FIXED)
        self.close(session({"x": x})["y"], 2 * x + 1)

    def test_a_second_call_sees_its_own_input(self, session: Session) -> None:
        for seed in range(5):
            x = sample(*FIXED, seed=seed)
            self.close(session({"x": x})["y"], 2 * x + 1)

    def test_the_same_input_gives_the_same_bits(self, session: Session) -> None:
        x = sample(*FIXED)
        first, second = session({"x": x})["y"], session({"x": x})["y"]
        assert first.tobytes() == second.tobytes()

    def test_outputs_stay_valid_after_the_next_call(self, session: Session) -> None:
        x = sample(*FIXED)
        kept = session({"x": x})["y"]
        for seed in range(3):
            session({"x": sample(*FIXED, seed=seed)})
        self.close(kept, 2 * x + 1)

    def test_an_output_outlives_its_session(self, runtime: Runtime) -> None:
        x = sample(*FIXED)
        kept = runtime.load(affine_artifact(self.affine(FIXED), FIXED), threads=1)({"x": x})["y"]
        self.close(kept, 2 * x + 1)

    def test_an_output_may_be_written_to(self, session: Session) -> None:
        x = sample(*FIXED)
        session({"x": x})["y"][...] = 0
        self.close(session({"x": x})["y"], 2 * x + 1)

    def test_inputs_are_left_as_they_were(self, session: Session) -> None:
        x = sample(*FIXED)
        session({"x": x})
        assert np.array_equal(x, sample(*FIXED))

    def test_strided_and_read_only_inputs_are_taken(self, session: Session) -> None:
        x = sample(4, 3, 2, 1).T
        assert not x.flags.c_contiguous
        x.flags.writeable = False
        self.close(session({"x": x})["y"], 2 * x + 1)

    def test_a_later_change_of_an_input_changes_nothing(self, session: Session) -> None:
        x = sample(*FIXED)
        want = 2 * x + 1
        got = session({"x": x})["y"]
        x[...] = 0
        self.close(got, want)

    def test_nan_and_infinity_pass(self, session: Session) -> None:
        x = sample(*FIXED)
        x[0, 0, 0, :3] = np.nan, np.inf, -np.inf
        self.close(session({"x": x})["y"], 2 * x + 1)

    def test_two_sessions_do_not_disturb_each_other(self, runtime: Runtime, session: Session, pair: Session) -> None:
        x, a, b = sample(*FIXED), sample(2, 3, seed=1), sample(2, 3, seed=2)
        twin = runtime.load(affine_artifact(self.affine(FIXED), FIXED), threads=1)
        first = session({"x": x})["y"]
        second = pair({"images/輸入:0": a, "../b;1": b})["difference"]
        third = twin({"x": -x})["y"]
        self.close(first, 2 * x + 1)
        self.close(second, a - b)
        self.close(third, 1 - 2 * x)

    @pytest.mark.parametrize("threads", [1, 2])
    def test_the_number_of_threads_changes_no_value(self, runtime: Runtime, threads: int) -> None:
        x = sample(*FIXED)
        session = runtime.load(affine_artifact(self.affine(FIXED), FIXED), threads=threads)
        self.close(session({"x": x})["y"], 2 * x + 1)

    # Names, axes, dtypes

    def test_names_are_the_users_and_the_order_is_the_files(self, pair: Session) -> None:
        a, b = sample(2, 3, seed=1), sample(2, 3, seed=2)
        got = pair({"../b;1": b, "images/輸入:0": a})
        assert list(got) == ["out put/Ω;0", "difference"]
        self.close(got["out put/Ω;0"], a + b)
        self.close(got["difference"], a - b)

    def test_axes_of_the_file_are_hidden(self, runtime: Runtime) -> None:
        ports = (Port("x", "float32", FIXED, NHWC),), (Port("y", "float32", FIXED, NHWC),)
        session = runtime.load(LoadableArtifact(self.affine((1, 3, 4, 2)), *ports, "nhwc"), threads=1)
        for seed in range(2):
            x = sample(*FIXED, seed=seed)
            got = session({"x": x})["y"]
            self.close(got, 2 * x + 1)
            assert got.flags.c_contiguous

    def test_a_half_port_over_a_float_file_is_cast_both_ways(self, runtime: Runtime) -> None:
        session = runtime.load(affine_artifact(self.affine(FIXED), FIXED, "float16"), threads=1)
        x = sample(*FIXED).astype(np.float16)
        got = session({"x": x})["y"]
        assert got.dtype == np.float16
        np.testing.assert_allclose(got.astype(np.float32), 2 * x.astype(np.float32) + 1, rtol=2e-3, atol=2e-3)

    @pytest.mark.parametrize("maker", ["increment", "increment_int32"])
    def test_an_int64_port_counts_exactly(self, runtime: Runtime, maker: str) -> None:
        session = self.integers(runtime, maker)
        x = np.array([-5, 0, 2**30], np.int64)
        self.close(session({"x": x})["y"], x + 1)

    def test_an_int64_value_that_the_file_cannot_hold_is_refused(self, runtime: Runtime) -> None:
        session = self.integers(runtime, "increment_int32")
        with pytest.raises(BadInput, match=r"'x'.*1700000000000.*int32"):
            session({"x": np.array([0, 1, 1_700_000_000_000], np.int64)})

    def integers(self, runtime: Runtime, maker: str) -> Session:
        """y = x + 1 in int64, whatever the file computes in."""
        make: Callable[[], Files] = getattr(self, maker)
        ports = (Port("x", "int64", (3,)),), (Port("y", "int64", (3,)),)
        return runtime.load(LoadableArtifact(make(), *ports, "integers"), threads=1)

    # Free sizes

    def test_free_sizes_follow_the_input(self, runtime: Runtime) -> None:
        session = runtime.load(affine_artifact(self.affine((1, None)), (1, "width")), threads=1)
        kept: list[tuple[NDArray[np.float32], NDArray[np.generic]]] = []
        for width in (5, 9, 1, 1, 5, 64):
            x = sample(1, width, seed=width)
            kept.append((x, session({"x": x})["y"]))
        for x, got in kept:
            self.close(got, 2 * x + 1)

    def test_a_file_of_one_sample_serves_any_batch(self, runtime: Runtime) -> None:
        session = runtime.load(affine_artifact(self.affine(FIXED), ("batch", 2, 3, 4)), threads=1)
        for batch in (3, 1, 2):
            x = sample(batch, 2, 3, 4)
            self.close(session({"x": x})["y"], 2 * x + 1)

    def test_batch_and_axes_go_together(self, runtime: Runtime) -> None:
        shape = ("batch", 2, 3, 4)
        ports = (Port("x", "float32", shape, NHWC),), (Port("y", "float32", shape, NHWC),)
        session = runtime.load(LoadableArtifact(self.affine((1, 3, 4, 2)), *ports, "nhwc"), threads=1)
        x = sample(3, 2, 3, 4)
        self.close(session({"x": x})["y"], 2 * x + 1)

    def test_sizes_of_one_name_must_agree(self, runtime: Runtime) -> None:
        ports = tuple(Port(name, "float32", (2, "n")) for name in ("a", "b", "sum", "difference"))
        artifact = LoadableArtifact(self.sum_and_difference(), ports[:2], ports[2:], "pair")
        session = runtime.load(artifact, threads=1)
        with pytest.raises(BadInput, match="'b'"):
            session({"a": sample(2, 3), "b": sample(2, 4)})

    # Inputs that nothing reads

    def test_an_unused_input_may_be_left_out_or_given(self, runtime: Runtime) -> None:
        session = self.with_unused(runtime)
        x = sample(2, 3)
        self.close(session({"x": x})["y"], 2 * x)
        self.close(session({"x": x, "unused": sample(4)})["y"], 2 * x)
        self.close(session({"x": x})["y"], 2 * x)

    def test_an_unused_input_is_checked_all_the_same(self, runtime: Runtime) -> None:
        with pytest.raises(BadInput, match="'unused'"):
            self.with_unused(runtime)({"x": sample(2, 3), "unused": sample(5)})

    def with_unused(self, runtime: Runtime) -> Session:
        """y = 2 x beside an input that nothing reads."""
        inputs = (Port("x", "float32", (2, 3)), Port("unused", "float32", (4,), unused=True))
        artifact = LoadableArtifact(self.ignores_second(), inputs, (Port("y", "float32", (2, 3)),), "unused")
        return runtime.load(artifact, threads=1)

    # What is refused, and how

    @pytest.mark.parametrize(
        ("inputs", "words"),
        [
            ({}, r"'x'.*float32 \[1, 2, 3, 4\]"),
            ({"x": sample(*FIXED), "z": sample(1)}, r"'z'.*'x'"),
            ({"x": sample(*FIXED).astype(np.float64)}, r"'x'.*float64.*float32 \[1, 2, 3, 4\]"),
            ({"x": sample(*FIXED).astype(">f4")}, r"'x'.*float32 \[1, 2, 3, 4\]"),
            ({"x": sample(2, 3, 4)}, r"'x'.*\[2, 3, 4\].*\[1, 2, 3, 4\]"),
            ({"x": sample(1, 2, 4, 3)}, r"'x'.*\[1, 2, 4, 3\].*\[1, 2, 3, 4\]"),
            ({"x": sample(*FIXED).tolist()}, r"'x'.*list.*float32"),
            ({"x": None}, r"'x'.*None.*float32"),
        ],
        ids=["missing", "unknown", "dtype", "byte order", "rank", "size", "list", "none"],
    )
    def test_a_wrong_input_is_named_with_what_it_wants(
        self, session: Session, inputs: dict[str, NDArray[np.generic]], words: str
    ) -> None:
        for _ in range(2):  # as the first call, and after one that was accepted
            with pytest.raises(BadInput, match=words):
                session(inputs)
            x = sample(*FIXED)
            self.close(session({"x": x})["y"], 2 * x + 1)

    def test_an_empty_free_size_is_refused(self, runtime: Runtime) -> None:
        session = runtime.load(affine_artifact(self.affine((1, None)), (1, "width")), threads=1)
        with pytest.raises(BadInput, match="'x'"):
            session({"x": sample(1, 0)})
        self.close(session({"x": np.ones((1, 2), np.float32)})["y"], np.full((1, 2), 3, np.float32))

    @pytest.mark.parametrize("content", [b"", b"\x00" * 64, b"no model at all " * 100], ids=["empty", "zeros", "text"])
    def test_bytes_that_are_no_model_are_refused(self, runtime: Runtime, content: bytes) -> None:
        files = dict.fromkeys(self.affine(FIXED), content)
        self.is_refused(runtime, affine_artifact(files, FIXED))

    @pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
    def test_a_cut_model_is_refused(self, runtime: Runtime, share: float) -> None:
        files = {name: content[: int(len(content) * share)] for name, content in self.affine(FIXED).items()}
        self.is_refused(runtime, affine_artifact(files, FIXED))

    def test_a_missing_file_is_refused(self, runtime: Runtime) -> None:
        self.is_refused(runtime, affine_artifact({}, FIXED))

    def test_ports_that_are_not_the_files_are_refused(self, runtime: Runtime) -> None:
        good = affine_artifact(self.affine(FIXED), FIXED)
        x, y = good.inputs[0], good.outputs[0]
        for artifact in (
            replace(good, inputs=(x, replace(x, name="x2"))),
            replace(good, outputs=()),
            replace(good, inputs=(replace(x, shape=(1, 2, 3)),)),
            replace(good, inputs=(replace(x, shape=(1, 2, 3, 5)),)),
            replace(good, inputs=(replace(x, dtype="int64"),)),
            replace(good, outputs=(replace(y, dtype="int8"),)),
            replace(good, inputs=(replace(x, axes=(0, 2, 3, 1)),)),
        ):
            self.is_refused(runtime, artifact)

    def is_refused(self, runtime: Runtime, artifact: LoadableArtifact) -> None:
        """By an error that a person can act on."""
        with pytest.raises(EdgekitError) as caught:
            runtime.load(artifact, threads=1)
        assert caught.value.exit_code in {ExitCode.BAD_INPUT, ExitCode.UNSUPPORTED}
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize("threads", [0, -1])
    def test_no_threads_are_a_wrong_call(self, runtime: Runtime, threads: int) -> None:
        with pytest.raises(UsageError, match="thread"):
            runtime.load(affine_artifact(self.affine(FIXED), FIXED), threads=threads)

    # The cache

    def test_a_cache_changes_no_value_and_a_damaged_one_is_ignored(self, runtime: Runtime, tmp_path: Path) -> None:
        artifact = affine_artifact(self.affine(FIXED), FIXED)
        x = sample(*FIXED)

        def answers() -> None:
            self.close(runtime.load(artifact, threads=1, cache=tmp_path)({"x": x})["y"], 2 * x + 1)

        answers()
        answers()
        entries: Sequence[Path] = [path for path in tmp_path.rglob("*") if path.is_file()]
        for entry in entries:
            entry.write_bytes(entry.read_bytes()[: entry.stat().st_size // 2])
        answers()
        for entry in entries:
            entry.write_bytes(b"")
        answers()

    def test_a_cache_folder_that_cannot_be_written_is_no_error(self, runtime: Runtime, tmp_path: Path) -> None:
        blocked = tmp_path / "file"
        blocked.write_text("no folder")
        x = sample(*FIXED)
        session = runtime.load(affine_artifact(self.affine(FIXED), FIXED), threads=1, cache=blocked / "cache")
        self.close(session({"x": x})["y"], 2 * x + 1)
