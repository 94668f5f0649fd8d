"""Lambdas and local classes reach another process."""

import io
import pickle

from abreast.processes.main_module import main_module
from abreast.processes.pickling import Pickler
from abreast.processes.ring import Ring


def there_and_back(value):
    file = io.BytesIO()
    Pickler(file).dump(value)
    return pickle.loads(file.getvalue())


def test_local_classes_and_lambdas_go_by_value_and_classes_of_modules_by_name():
    class Local:
        def __init__(self):
            self.values = [1, 2]

    twin = there_and_back(Local())
    assert twin.values == [1, 2] and type(twin).__name__ == "Local"
    assert there_and_back(lambda number: number + 1)(2) == 3
    assert there_and_back(Ring) is Ring


def test_a_main_module_without_a_file_cannot_be_imported(monkeypatch):
    import __main__

    monkeypatch.setattr(__main__, "__spec__", None)
    monkeypatch.setattr(__main__, "__file__", "<stdin>", raising=False)
    assert main_module() is None
    monkeypatch.setattr(__main__, "__file__", __file__)
    assert main_module() == __file__
