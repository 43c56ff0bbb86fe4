"""Graphs: sharing, demand, actions, purity, recursion (specs/semantics.md, "M2 Graph IR")."""

a = A.typevar("a")


@I.ir_module
class Module:
    @A.data(a)
    class List:
        Nil = ()
        Cons = (a, List[a])

    @R.function
    def main(x: R.Tensor((), dtype="int32"), c: R.Tensor((), dtype="bool")) -> R.Tuple(
        R.Tensor((), dtype="int32"), R.Tensor((), dtype="int32")
    ):
        @R.function
        def twice(k: R.Tensor((), dtype="int32")) -> R.Tensor((), dtype="int32"):
            return R.add(k, k)

        items = List.Cons(x, List.Nil(type_args=(R.Tensor((), dtype="int32"),)))
        match A.partial(items):
            case List.Cons(first, _):
                head = first
        if c:
            made = twice(head)
        else:
            made = head
        return (made, x)

    @R.function
    def first_of_none(x: R.Tensor((), dtype="int32")) -> R.Tensor((), dtype="int32"):
        items = List.Nil(type_args=(R.Tensor((), dtype="int32"),))
        match A.partial(items):
            case List.Cons(first, _):
                return first

    @R.function
    def one_node(x: R.Tensor((), dtype="float32")) -> R.Tensor((), dtype="float32"):
        with A.graph():
            e = R.exp(x)
            d = R.divide(e, e)
        return d

    @R.function
    def two_nodes(x: R.Tensor((), dtype="float32")) -> R.Tensor((), dtype="float32"):
        with A.graph():
            d = R.divide(R.exp(x), R.exp(x))
        return d

    @R.function
    def demanded(x: R.Tensor((), dtype="int32"), c: R.Tensor((), dtype="bool")) -> R.Tensor((), dtype="int32"):
        with A.graph():
            fails = R.floor_divide(x, R.const(0, "int32"))
            chosen = A.if_(c, x, fails)
        return chosen

    @R.function(pure=False)
    def counted(x: R.Tensor((), dtype="int32")) -> R.Tensor((), dtype="int32"):
        cell = A.ref(x)
        _ = A.write(cell, R.add(x, R.const(1, "int32")))
        once = A.read(cell)
        return R.multiply(once, once)

    @R.function
    def factorial(i: R.Tensor((), dtype="int64")) -> R.Tensor((), dtype="int64"):
        if R.less_equal(i, R.const(1, "int64")):
            r = R.const(1, "int64")
        else:
            r = R.multiply(i, cls.factorial(R.subtract(i, R.const(1, "int64"))))
        return r

    @R.function
    def is_even(i: R.Tensor((), dtype="int32")) -> R.Tensor((), dtype="bool"):
        if R.equal(i, R.const(0, "int32")):
            r = R.const(True, "bool")
        else:
            r = cls.is_odd(R.subtract(i, R.const(1, "int32")))
        return r

    @R.function
    def is_odd(i: R.Tensor((), dtype="int32")) -> R.Tensor((), dtype="bool"):
        if R.equal(i, R.const(0, "int32")):
            r = R.const(False, "bool")
        else:
            r = cls.is_even(R.subtract(i, R.const(1, "int32")))
        return r

    @R.function
    def block(x: R.Tensor((), dtype="int32")) -> R.Tensor((), dtype="int32"):
        with R.dataflow():
            d = R.add(x, x)
            e = R.multiply(d, d)
            R.output(e)
        return e

    @R.function
    def no_block(x: R.Tensor((), dtype="int32")) -> R.Tensor((), dtype="int32"):
        d = R.add(x, x)
        e = R.multiply(d, d)
        return e


A.case("nodes", inputs={"x": 4, "c": True}, expect={"output_0": 8, "output_1": 4}, source="by hand", rules="M2.1")
A.case(
    "no_clause_matches",
    inputs={"x": 4},
    expect=A.trap("match"),
    function="first_of_none",
    source="the list is empty",
    rules="M2.1",
)
A.case(
    "type_is_derived",
    inputs={"i": 3},
    expect={"output_0": 6},
    function="factorial",
    source="by hand",
    rules="M2.2 M2.7",
)
A.refused(
    "ill_typed",
    """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((), dtype="int32"), y: R.Tensor((), dtype="float32")) -> R.Tensor((), dtype="int32"):
        return R.add(x, y)
""",
    label="dtype.C2",
    source="nothing is promoted",
    rules="M2.2",
)
A.case(
    "shared",
    inputs={"x": 1.0},
    expect={"output_0": 1.0},
    function="one_node",
    source="one evaluation is one value, whatever exp(1) is rounded to",
    rules="M2.3",
)
A.case(
    "not_shared",
    inputs={"x": 1.0},
    expect={"output_0": A.within(1.0)},
    function="two_nodes",
    source="two evaluations may differ: an implementation need not give 1",
    rules="M2.3",
)
A.differs("two_are_not_one", "one_node", "two_nodes", source="Equality, E1", rules="M2.3")
A.case(
    "shared_and_wrong",
    inputs={"x": 1.0},
    expect=A.wrong({"output_0": 1.0000001}),
    function="one_node",
    source="what two evaluations might come to is wrong for one",
    rules="M2.3",
)
A.case(
    "other_arm",
    inputs={"x": 3, "c": True},
    expect={"output_0": 3},
    function="demanded",
    source="the node that fails is not demanded",
    rules="M2.4",
)
A.case(
    "this_arm",
    inputs={"x": 3, "c": False},
    expect=A.trap("division by zero"),
    function="demanded",
    source="M5.3",
    rules="M2.4",
)
A.case(
    "named_action",
    inputs={"x": 3},
    expect={"output_0": 16},
    function="counted",
    source="by hand: (3 + 1)**2; the let reads the cell once",
    rules="M2.5",
)
A.refused(
    "shared_action",
    """
@I.ir_module
class Module:
    @R.function(pure=False)
    def main(x: R.Tensor((), dtype="int32")) -> R.Tensor((), dtype="int32"):
        cell = A.ref(x)
        with A.graph():
            r = A.read(cell)
            s = R.multiply(r, r)
        return s
""",
    label="graph.C7",
    source="who demands the reading first would decide",
    rules="M2.5",
)
A.case(
    "pure", inputs={"x": 3}, expect={"output_0": 36}, function="block", source="by hand: (3 + 3)**2", rules="M2.6 M2.8"
)
A.refused(
    "acts_and_says_pure",
    """
@I.ir_module
class Module:
    @R.function(pure=True)
    def main(x: R.Tensor((), dtype="int32")) -> R.Tensor((), dtype="int32"):
        _ = R.print(x, format="{}")
        return x
""",
    label="func.C2",
    source="a print is an action",
    rules="M2.6",
)
A.case(
    "in_circles",
    inputs={"i": 7},
    expect={"output_0": False},
    function="is_even",
    source="7 is odd",
    rules="M2.7",
)
A.refused(
    "no_such_function",
    """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((), dtype="int32")) -> R.Tensor((), dtype="int32"):
        return cls.other(x)
""",
    label="text.C3",
    source="the module has no function of that name",
    rules="M2.7",
)
A.case(
    "no_block",
    inputs={"x": 3},
    expect={"output_0": 36},
    function="no_block",
    source="a block means nothing else",
    rules="M2.8",
)
A.refused(
    "block_that_acts",
    """
@I.ir_module
class Module:
    @R.function(pure=False)
    def main(x: R.Tensor((), dtype="int32")) -> R.Tensor((), dtype="int32"):
        with R.dataflow():
            _ = R.print(x, format="{}")
            y = R.add(x, x)
            R.output(y)
        return y
""",
    label="graph.C9",
    source="nothing in a dataflow block acts",
    rules="M2.8",
)
