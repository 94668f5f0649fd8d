"""Where tests of code for devices run: on the CPU always, on a GPU if there is one (`pytest -m gpu` runs only those)."""

import pytest
import torch

ON_GPU = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")]
DEVICES = ["cpu", pytest.param("cuda:0", marks=ON_GPU)]
