"""What the description of a lab is made of: who answers, how answers are shown, its law."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Witness:
    """Who answers a question.

    Attributes:
        title: how, in a few words.
        takes: the groups and single fields of the question that the answer depends on.
        trains: whether it trains: then its answer is a run.
        only: for fields, the values for which it exists.
        needs: fields of which one must be given, with what is taken for it if none is; None where
            nothing is.
        in_law: fields with which, once given, it agrees with others on the average only.
        smooth: fields whose values may be traced by JAX, so that many are answered at once.
        apart: why it answers another question than training does, of one question; "" where it
            does not: then it is not compared.
        told: how, for one question, where the title cannot say it.
        axis: what its answer is over: "time"; another axis of its own, whose usual places its
            `grid` of a number of points tells; or "" for none but the fields that it goes over.
        usual: what it takes for fields that are not given, instead of the question's default.
        over: fields that may be several values at once, each an axis of the answer in this order,
            with the values that are taken where one goes over it and none are given: a sequence,
            or a function of the question.
        remark: what else a reader must know, of one question; "" where nothing.
    """

    title: str
    takes: tuple[str, ...]
    trains: bool = False
    only: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    needs: Mapping[str, Any] = field(default_factory=dict)
    in_law: tuple[str, ...] = ()
    smooth: tuple[str, ...] = ()
    apart: Callable[[Any], str] | None = None
    told: Callable[[Any], str] | None = None
    axis: str = "time"
    usual: Mapping[str, Any] = field(default_factory=dict)
    over: Mapping[str, Any] = field(default_factory=dict)
    remark: Callable[[Any], str] | None = None

    @property
    def axes(self) -> tuple[str, ...]:
        """What its answer can be looked at over."""
        return (self.axis,) if self.axis else tuple(self.over)


@dataclass(frozen=True)
class Heading:
    """What a variable is called in tables, and the field without which it is not shown."""

    text: str
    given: str = ""


@dataclass(frozen=True)
class Axes:
    """One panel of the picture of an answer.

    Attributes:
        shows: the variable that is drawn, for every run.
        label: of its axis, in the paper's symbols.
        log: which axes are logarithmic, of "xy"; if neither, both where times are spaced in log.
        beside: variables that are drawn in it as well, by dashed lines.
        levels: variables along another axis, whose values are marked by horizontal lines.
    """

    shows: str = "loss"
    label: str = "L"
    log: str = "xy"
    beside: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()


@dataclass(frozen=True)
class LabLaw:
    """The loss of a lab's model over resources, for `solvable fit` and `solvable plan`.

    The law has the lab's name and keeps the settings it was made with, from which a stored fit
    makes it again. Of its parameters a plan takes `E` for 0, `A` for the height, the exponents as
    told, and others for 1; where it has `unit_x`, less than that of a resource x other than t is
    none.

    Attributes:
        make: "module:function" of (resources, **settings), which gives the `scaling.Law`.
        resources: what the loss is over.
        cost: what the resources cost, unless told otherwise.
        exponents: parameters of the law that a plan needs, with their defaults.
        settings: what the law is made with, with the defaults of a plan.
        further: names of what else it can be made with, which a plan leaves as it is.
        words: what exponents and settings are, for help.
        limits: from where to where an exponent goes, for help.
        height: "module:function" of (exponents, settings): the loss that shares are of; 1 if empty.
        remark: a sentence that a plan with it opens with.
    """

    make: str
    resources: tuple[str, ...]
    cost: str
    exponents: Mapping[str, float]
    settings: Mapping[str, int | float] = field(default_factory=dict)
    further: tuple[str, ...] = ()
    words: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    height: str = ""
    remark: str = ""

    @property
    def planned(self) -> dict[str, int | float]:
        """What a plan can be told of the model, with the defaults: exponents, then settings."""
        return {**self.exponents, **self.settings}
