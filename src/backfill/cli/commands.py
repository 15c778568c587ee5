"""A group of commands, such as `backfill` or `backfill pool`."""

from typing import Any

from typer.core import TyperGroup

from backfill.model.errors import UsageError, quote
from backfill.model.names import help_hint, nearest


class Commands(TyperGroup):
    """Commands in the order of their definition; an unknown one is answered with the nearest name."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names in the order of `--help`."""
        return list(self.commands)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return name, command and its arguments. Raises UsageError."""
        if args[0] not in self.commands and not args[0].startswith("-"):
            hint = help_hint(nearest(args[0], self.commands), ctx.command_path)
            raise UsageError(f"unknown command {quote(args[0])}; {hint}")
        return super().resolve_command(ctx, args)
