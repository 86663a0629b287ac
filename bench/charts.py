"""Draw lines on logarithmic axes as an SVG, for the documentation."""

import math
from collections.abc import Mapping, Sequence

from measurements import format_size

WIDTH, HEIGHT = 720, 400
LEFT, TOP, RIGHT, BOTTOM = 64, 40, 190, 48
COLOURS = ("#0b6e4f", "#c44536", "#33658a", "#b8860b", "#6a4c93", "#5f6b6d", "#2a9d8f", "#9c6644")

Points = Sequence[tuple[float, float]]


def draw_lines(title: str, lines: Mapping[str, Points], unit: str) -> str:
    """Return a chart of values by size; labels stand at the ends of the lines, apart from each other."""
    sizes = [size for points in lines.values() for size, _ in points]
    values = [value for points in lines.values() for _, value in points]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    first, last = math.log10(min(sizes)), math.log10(max(sizes))

    def x(size: float) -> float:
        return LEFT + (math.log10(size) - first) / ((last - first) or 1) * (WIDTH - LEFT - RIGHT)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (math.log10(value) - low) / ((high - low) or 1) * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif"'
        f' font-size="12" role="img" aria-label="{title}">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="22" font-size="14" font-weight="bold">{title}</text>',
    ]
    for power in range(low, high + 1):
        height = y(10.0**power)
        parts.append(f'<path d="M{LEFT} {height:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{height + 4:.1f}" text-anchor="end">{10.0**power:g} {unit}</text>')
    for size in sorted(set(sizes)):
        parts.append(
            f'<text x="{x(size):.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{format_size(int(size))}</text>'
        )
    labels = _spread({name: y(points[-1][1]) for name, points in lines.items()})
    for number, (name, points) in enumerate(lines.items()):
        colour, width = COLOURS[number % len(COLOURS)], 3 if number == 0 else 1.5
        path = "L".join(f"{x(size):.1f} {y(value):.1f}" for size, value in points)
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="{width}"/>')
        parts += [f'<circle cx="{x(size):.1f}" cy="{y(value):.1f}" r="3" fill="{colour}"/>' for size, value in points]
        end = x(points[-1][0]) + 8
        parts.append(f'<text x="{end:.1f}" y="{labels[name] + 4:.1f}" fill="{colour}">{name}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _spread(heights: Mapping[str, float], apart: float = 14.0) -> dict[str, float]:
    """Move labels down until none covers another."""
    placed: dict[str, float] = {}
    for name, height in sorted(heights.items(), key=lambda entry: entry[1]):
        placed[name] = max(height, max(placed.values(), default=-apart) + apart)
    return placed
