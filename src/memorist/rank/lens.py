"""What a lens makes count for more."""

from collections.abc import Iterable, Mapping

Boosts = Mapping[str, Mapping[str, float]]


def factor(boosts: Boosts, values: Mapping[str, Iterable[str]]) -> float:
    """
    What a score is multiplied by: for each boosted field the strongest boost of the values a memory has there.

    Divided by the most it can be, so that a score stays within 0..1 and two boosted memories keep their order.
    """
    product = 1.0
    for field, by_value in boosts.items():
        most = max(1.0, *by_value.values()) if by_value else 1.0
        mine = [by_value[value] for value in values.get(field, ()) if value in by_value]
        product *= (max(mine) if mine else 1.0) / most
    return product
