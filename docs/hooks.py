"""What the site has besides its pages: the package's version, and ``llms.txt`` at its root."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from disciple_ext import __version__

SUMMARY = (
    "disciple-ext steers a small language model with inference programs that a capable one writes. "
    "The texts obey the task by construction, and each has its probability weight. A plugin for "
    "LLaMPPL; Python 3.11, offline by default. `disciple --help` lists the commands."
)


def on_config(config: Any) -> Any:
    """The version stands in the header of every page."""
    config.site_name = f"{config.site_name} {__version__}"
    return config


def on_post_build(config: Any) -> None:
    """Write llms.txt (https://llmstxt.org) from the pages of the navigation."""
    text = llms_text(config.site_name, config.nav, Path(config.docs_dir))
    (Path(config.site_dir) / "llms.txt").write_text(text, encoding="utf-8")


def llms_text(title: str, nav: list[Any], docs: Path) -> str:
    """The index for language models: sections, links, and a sentence on each page."""
    sections: dict[str, list[str]] = {}
    for section, name, page in pages(nav):
        about = first_sentence((docs / page).read_text(encoding="utf-8"))
        url = page.removesuffix(".md") + ".html"
        sections.setdefault(section, []).append(f"- [{name}]({url}): {about}\n")
    parts = [f"# {title}\n\n> {SUMMARY}\n"]
    parts += [f"\n## {section}\n\n{''.join(links)}" for section, links in sections.items()]
    return "".join(parts)


def pages(nav: list[Any], section: str = "Start") -> Iterator[tuple[str, str, str]]:
    """The section, name and file of each page of the navigation."""
    for entry in nav:
        for name, target in entry.items():
            if isinstance(target, list):
                yield from pages(target, name)
            else:
                yield section, name, target


def first_sentence(page: str, least: int = 50) -> str:
    """The beginning of a page's first paragraph, without its marks: whole sentences.

    Args:
        page: the page.
        least: characters below which one more sentence is taken.

    Raises:
        ValueError: the page has no paragraph after its title.
    """
    body = re.sub(r"^```.*?^```$|<!--.*?-->", "", page, flags=re.DOTALL | re.MULTILINE)
    for paragraph in body.split("\n\n"):
        text = " ".join(paragraph.split())
        if text and not paragraph.startswith(("#", "    ", "|", "!", ":::", "- ")):
            text = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", text).replace("*", "")
            taken = ""
            for sentence in re.split(r"(?<=[.?!])\s", text):
                taken = f"{taken} {sentence}".strip()
                if len(taken) >= least:
                    break
            return taken.removesuffix(":")
    raise ValueError(f"no paragraph in {page[:60]!r}")
