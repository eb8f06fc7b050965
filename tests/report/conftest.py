import pytest

for name in ("matplotlib", "jinja2"):
    pytest.importorskip(name, reason=f'the report needs {name}: pip install "cavity[report]"')
