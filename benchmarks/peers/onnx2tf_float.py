"""onnx2tf's float TFLite file of an ONNX model, batch 1: MODEL OUT.tflite."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        tool = Path(sys.executable).with_name("onnx2tf")
        subprocess.run([tool, "-i", sys.argv[1], "-o", folder, "-b", "1", "-n"], check=True)
        (found,) = Path(folder).glob("*_float32.tflite")
        shutil.move(found, sys.argv[2])
