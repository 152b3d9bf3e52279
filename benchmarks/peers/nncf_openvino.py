"""NNCF on an OpenVINO model with its defaults: MODEL SAMPLES.npy OUT.xml."""

import sys

import nncf  # type: ignore[import-not-found]
import numpy as np
import openvino

if __name__ == "__main__":
    model, samples, output = openvino.convert_model(sys.argv[1]), np.load(sys.argv[2], mmap_mode="r"), sys.argv[3]
    data = nncf.Dataset(list(range(len(samples))), lambda index: np.array(samples[index])[None])
    openvino.save_model(nncf.quantize(model, data, subset_size=len(samples)), output, compress_to_fp16=False)
