"""The hosts of the tests in this folder."""

import pytest

from clusters.two_hosts import NamedHosts, why_not


@pytest.fixture
def hosts(tmp_path):
    """Two linked hosts, called n1 and n2; skips the test where this machine cannot have them."""
    if reason := why_not():
        pytest.skip(reason)
    with NamedHosts(tmp_path) as hosts:
        yield hosts
