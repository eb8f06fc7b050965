import pytest

matplotlib = pytest.importorskip(
    "matplotlib", reason='the figures need matplotlib: pip install "cavity[plot]"'
)


@pytest.fixture(autouse=True)
def no_window():
    """Draw without a screen and leave no figure open."""
    matplotlib.use("Agg")
    yield
    import matplotlib.pyplot as plt

    plt.close("all")
