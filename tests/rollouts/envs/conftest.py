"""One catalogue of the web shop for all tests of the environments."""

import os

import pytest


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    """Where the generated catalogue is built once, for all workers of pytest-xdist together."""
    own = tmp_path_factory.getbasetemp()
    return (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "user-cache" / "abreast"


@pytest.fixture(scope="module", autouse=True)
def user_cache(cache):
    """Tests find no catalogue, and leave none, in the cache of the user who runs them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache.parent))
        yield
