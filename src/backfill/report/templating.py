"""Make pages from templates: every external text is escaped, and a name without a value is an error."""

from jinja2 import Environment, PackageLoader, StrictUndefined


def templates(package: str) -> Environment:
    """Return the templates in the folder `templates` of a package."""
    return Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
