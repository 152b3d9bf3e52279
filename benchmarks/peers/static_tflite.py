"""ai-edge-quantizer's static int8 of a float TFLite file, its borders kept float: FLOAT SAMPLES.npy OUT.tflite."""

import sys

import numpy as np
from ai_edge_litert.interpreter import Interpreter
from ai_edge_quantizer import quantizer, recipe  # type: ignore[import-not-found]
from ai_edge_quantizer.qtyping import TFLOperationName  # type: ignore[import-not-found]
from ai_edge_quantizer.recipe_manager import AlgorithmName, RecipeManager  # type: ignore[import-not-found]

if __name__ == "__main__":
    model, samples, output = sys.argv[1], np.load(sys.argv[2], mmap_mode="r"), sys.argv[3]
    manager = RecipeManager()
    manager.load_quantization_recipe(recipe.static_wi8_ai8())
    for border in (TFLOperationName.INPUT, TFLOperationName.OUTPUT):
        manager.add_quantization_config(".*", border, algorithm_key=AlgorithmName.NO_QUANTIZE)
    tool = quantizer.Quantizer(model, manager.get_quantization_recipe())
    signature, ports = next(iter(Interpreter(model).get_signature_list().items()))
    feeds = [{ports["inputs"][0]: np.ascontiguousarray(row.transpose(1, 2, 0))[None]} for row in samples]
    result = tool.quantize(tool.calibrate({signature: feeds}, num_threads=1))
    with open(output, "wb") as file:
        file.write(result.quantized_model)
