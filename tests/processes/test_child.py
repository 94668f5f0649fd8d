"""The life of a child."""

import pytest

from abreast.processes.backend import Failed
from abreast.processes.child import serve


@pytest.mark.parametrize(
    ("said", "told"), [("CUDA error: out of luck\nFor debugging, try this.\n", "CUDA error: out of luck"), ("", "")]
)
def test_what_its_work_raises_is_told_in_one_line_and_kept_whole(said, told):
    def make(context):
        raise RuntimeError(said)

    sent = []
    serve(None, None, sent.append, make, ())
    (failed,) = sent
    assert isinstance(failed, Failed) and failed.error == f"RuntimeError: {told}"
    assert said in failed.traceback and "in make" in failed.traceback
