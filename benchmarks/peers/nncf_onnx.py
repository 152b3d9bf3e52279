"""NNCF on an ONNX model with its defaults: MODEL SAMPLES.npy OUT.onnx."""

import sys

import nncf  # type: ignore[import-not-found]
import numpy as np
import onnx

if __name__ == "__main__":
    model, samples, output = onnx.load(sys.argv[1]), np.load(sys.argv[2], mmap_mode="r"), sys.argv[3]
    name = model.graph.input[0].name
    data = nncf.Dataset(list(range(len(samples))), lambda index: {name: np.array(samples[index])[None]})
    onnx.save(nncf.quantize(model, data, subset_size=len(samples)), output)
