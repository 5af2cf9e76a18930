"""Tables of examples as text."""


def rows(table: str) -> list[list[str]]:
    """Cells of each line, which ` | ` divides."""
    return [[cell.strip() for cell in line.split(" | ")] for line in table.strip().splitlines()]
