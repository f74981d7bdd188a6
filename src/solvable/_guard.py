"""Refuse compilers that are known to return wrong numbers."""

BROKEN_JAXLIB = frozenset({"0.10.2"})


def refuse_broken_jaxlib(version: str) -> None:
    """Raise `ImportError` for a jaxlib whose compiled sums are wrong on a CPU.

    Reference: jax-ml/jax#39103.

    >>> refuse_broken_jaxlib("0.10.1")
    >>> refuse_broken_jaxlib("0.10.2")
    Traceback (most recent call last):
    ImportError: jaxlib 0.10.2 silently returns wrong sums on a CPU (jax-ml/jax#39103); \
install another release, for example: pip install jax==0.10.1 jaxlib==0.10.1
    """
    if version in BROKEN_JAXLIB:
        raise ImportError(
            f"jaxlib {version} silently returns wrong sums on a CPU (jax-ml/jax#39103); install "
            "another release, for example: pip install jax==0.10.1 jaxlib==0.10.1"
        )
