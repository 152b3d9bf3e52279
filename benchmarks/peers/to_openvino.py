"""An ONNX file as OpenVINO's own: MODEL OUT.xml."""

import sys

import openvino

if __name__ == "__main__":
    openvino.save_model(openvino.convert_model(sys.argv[1]), sys.argv[2], compress_to_fp16=False)
