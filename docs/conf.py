"""Makes a site of these pages: `make site`. The pages are plain Markdown; README.md's lists of links become the menu."""
import re

project = 'profgpu'
extensions = ['myst_parser']
html_theme = 'furo'
html_title = 'profgpu'
html_copy_source = False
html_show_copyright = False
root_doc = 'README'
myst_heading_anchors = 3
# Examples use the program's own words and files, which no lexer knows.
highlight_language = 'none'


def with_menu(app, name, text):
    """Each `##` section of README.md gets a hidden toctree of the pages that it links to. Links to files outside of docs/, which a site
    does not have, become plain text."""
    text[0] = re.sub(r'\[([^\]]*)\]\(\.\./[^)]*\)', r'\1', text[0])
    if name != root_doc:
        return

    def menu(section):
        pages = re.findall(r'^- \[([^\]]*)\]\(([\w-]+)\.md\)', section[0], re.M)
        entries = ''.join(f'{title.replace("`", "")} <{page}>\n' for title, page in pages)
        tree = f'```{{toctree}}\n:hidden:\n:caption: {section[1]}\n{entries}```\n\n'
        return section[0].rstrip('\n') + '\n\n' + (tree if pages else '')

    text[0] = re.sub(r'^## (.+)\n(?:(?!^## ).*\n)*', menu, text[0], flags=re.M)


def setup(app):
    app.connect('source-read', with_menu)
