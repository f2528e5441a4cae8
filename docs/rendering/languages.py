"""The directive ``languages``: code blocks in several languages, of which one is shown, without JavaScript."""

from __future__ import annotations

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

LABELS = {"sh": "curl", "python": "Python", "js": "JavaScript"}


class Languages(SphinxDirective):
    """Write each block behind a radio button with the name of its language; the stylesheet shows the chosen one."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        group = f"languages-{self.env.new_serialno('languages')}"
        container = nodes.container(classes=["languages"])
        for block in self.parse_content_to_nodes():
            for each in block.findall(nodes.literal_block):
                container += self._choice(group, each["language"], is_first=not container.children)
                container += nodes.container("", each.deepcopy(), classes=["language"])
        return [container]

    def _choice(self, group: str, language: str, *, is_first: bool) -> nodes.Node:
        name = f"{group}-{language}"
        checked = " checked" if is_first else ""
        button = f'<input type="radio" name="{group}" id="{name}"{checked}>'
        return nodes.raw("", f'{button}<label for="{name}">{LABELS[language]}</label>', format="html")
