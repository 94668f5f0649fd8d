"""The first module that a fork server imports: it looks for the others where the program that started it does.

A module by itself, in a folder of its own, which is all that this fork server has to find.
"""

import importlib
import json
import os
import signal
import sys
from contextlib import suppress

told = json.loads(os.environ.pop("ABREAST_PRELOADING", "{}"))
if told:
    if told["PYTHONPATH"] is None:
        del os.environ["PYTHONPATH"]
    else:
        os.environ["PYTHONPATH"] = told["PYTHONPATH"]
    sys.path[:] = told["path"]
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to this process too; the program decides
    for name in told["modules"]:
        with suppress(Exception):  # the child that needs it says what is wrong
            importlib.import_module(name)
    signal.signal(signal.SIGINT, before)
