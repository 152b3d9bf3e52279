"""PyTorch sources: refused with a remedy where torch is not at hand, exported where it is."""

import os
import sys
from pathlib import Path

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest

from edgekit.build.importing import import_model
from edgekit.build.importing.torch_export import PYTHON
from edgekit.core.errors import BadInput, EnvironmentFault, UsageError

FACTORY = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv = torch.nn.Conv2d(3, 4, 3)
        self.norm = torch.nn.BatchNorm2d(4)
        self.norm.running_mean.fill_(0.5)
        self.drop = torch.nn.Dropout(0.5)

    def forward(self, x):
        print("a model that talks")
        return self.drop(torch.relu(self.norm(self.conv(x))))

def make():
    return Net(), (torch.zeros(1, 3, 8, 8),)

def wrong():
    return 5

def fails():
    raise RuntimeError("no weights here")
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "net.py"
    path.write_text(FACTORY)
    return path


def has_torch(python: str) -> bool:
    import subprocess

    return subprocess.run([python, "-c", "import torch"], capture_output=True, check=False).returncode == 0


@pytest.fixture
def torch_python(monkeypatch: pytest.MonkeyPatch) -> str:
    """A Python with torch: the one named, or this one; else the test is skipped."""
    python = os.environ.get(PYTHON, sys.executable)
    if not has_torch(python):
        pytest.skip(f"no torch; name a Python that has it in {PYTHON}")
    return python


def test_factory_without_torch_names_the_remedy(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PYTHON, raising=False)
    if has_torch(sys.executable):
        pytest.skip("this Python has torch")
    with pytest.raises(EnvironmentFault, match=r"torch is not installed.*pip install torch"):
        import_model(f"{source}:make")


def test_what_can_be_said_without_torch_is_said_first(source: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"without the name of a factory.*net\.py:FUNCTION"):
        import_model(source)
    with pytest.raises(BadInput, match="no such file"):
        import_model(f"{tmp_path}/missing.py:make")
    with pytest.raises(BadInput, match="no such file"):
        import_model(tmp_path / "missing.pt2")


def test_python_that_does_not_start_is_named(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PYTHON, "/nowhere/python")
    with pytest.raises(EnvironmentFault, match=r"EDGEKIT_TORCH_PYTHON=/nowhere/python"):
        import_model(f"{source}:make")


@pytest.mark.slow
def test_factory_and_pt2_give_one_network(source: Path, torch_python: str, tmp_path: Path) -> None:
    import subprocess

    program = tmp_path / "net.pt2"
    script = (
        f"import sys; sys.path.insert(0, {str(source.parent)!r}); import net, torch; m, x = net.make(); "
        f"torch.export.save(torch.export.export(m.eval(), x), {str(program)!r})"
    )
    subprocess.run([torch_python, "-c", script], check=True, capture_output=True)
    x = np.random.default_rng(0).standard_normal((1, 3, 8, 8)).astype(np.float32)
    answers = []
    for each in (f"{source}:make", str(program)):
        imported = import_model(each)
        assert imported.inputs[0].shape == (1, 3, 8, 8)
        assert any("exported by torch" in note for note in imported.notes)
        session = ort.InferenceSession(ir.to_proto(imported.model).SerializeToString())
        answers.append(session.run(None, {imported.inputs[0].name: x})[0])
    np.testing.assert_allclose(answers[0], answers[1], atol=1e-6)
    assert answers[0].shape == (1, 4, 6, 6)


@pytest.mark.slow
def test_faults_of_the_factory_are_told_in_one_line(source: Path, torch_python: str) -> None:
    for name, why in (
        ("wrong", r"wrong\(\) gives int, not \(module, example inputs\)"),
        ("fails", "no weights here"),
        ("nothing", "nothing"),
    ):
        with pytest.raises(BadInput, match=why) as error:
            import_model(f"{source}:{name}")
        assert "\n" not in str(error.value)
