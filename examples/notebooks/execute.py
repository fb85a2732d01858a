"""Run notebooks and keep what they show, without Jupyter: python execute.py NOTEBOOK...

Cells run in order, in one namespace and one event loop, so that ``await`` works as it does in
Jupyter. What is kept of a cell: what it prints, the value of its last line, its pictures.
"""

from __future__ import annotations

import ast
import asyncio
import base64
import contextlib
import inspect
import io
import json
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
from matplotlib import pyplot


async def run_cell(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """Run one cell, and return its outputs as a notebook keeps them."""
    tree = ast.parse(source)
    last = tree.body[-1] if tree.body else None
    if isinstance(last, ast.Expr):  # its value is shown
        tree.body[-1] = ast.copy_location(
            ast.Assign([ast.Name("_", ast.Store())], last.value), last
        )
    names["_"] = None
    printed = io.StringIO()
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    code = compile(ast.fix_missing_locations(tree), "<cell>", "exec", flags=flags)
    with contextlib.redirect_stdout(printed):
        value = eval(code, names)
        if inspect.isawaitable(value):
            await value
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        text = printed.getvalue().splitlines(keepends=True)
        outputs.append({"output_type": "stream", "name": "stdout", "text": text})
    for number in pyplot.get_fignums():
        picture = io.BytesIO()
        pyplot.figure(number).savefig(picture, format="png", dpi=72)
        outputs.append(shown({"image/png": base64.b64encode(picture.getvalue()).decode()}))
    pyplot.close("all")
    if names["_"] is not None and not source.rstrip().endswith(";"):
        outputs.append(shown({"text/plain": repr(names["_"]).splitlines(keepends=True)}))
    return outputs


def shown(data: dict[str, Any]) -> dict[str, Any]:
    """An output that is shown and not printed."""
    return {"output_type": "display_data", "metadata": {}, "data": data}


async def run(notebook: dict[str, Any]) -> None:
    """Run all cells of a notebook, and put their outputs into it."""
    names: dict[str, Any] = {"__name__": "__main__"}
    count = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            count += 1
            cell["execution_count"] = count
            cell["outputs"] = await run_cell("".join(cell["source"]), names)


def main(paths: list[Path]) -> None:
    """Run notebooks in place."""
    for path in paths:
        notebook = json.loads(path.read_text("utf-8"))
        asyncio.run(run(notebook))
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
