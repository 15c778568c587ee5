"""Make pages from templates: every external text is escaped, and a name without a value is an error."""

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined


def templates(*packages: str) -> Environment:
    """Return the templates in the folders `templates` of packages; of equal names, the first one counts."""
    return Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in packages]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
