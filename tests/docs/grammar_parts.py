"""The productions of the grammar, each with an example that is read (specs/grammar.md)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Production:
    """A part of the grammar: its name, what may be written, and a text that has it."""

    name: str
    rule: str
    example: str


REMARKS = {
    "Graph functions": "Statements in their order are lets; inside `A.graph()` they name nodes, which have none.",
    "Tensor functions": "What apache-tvm 0.27 prints, in block form and flat; older spellings are read too.",
}

_MODULE = Production(
    "module",
    """
module     = ("@I.ir_module" | "@tvm.script.ir_module") "class" NAME ":" part... | function...
before it  : NAME "=" ("TypeVar(" text ")" | "A.typevar(" text ")"), and imports
part       = function | data | table | "A.infos({function: info})" | "metadata = tvm.ir.load_json(" text ")"
           | "I.module_attrs({...})" | "I.module_global_infos({...})"
           | "A.devices({name: device, ...})" | "A.beside(file, bytes)"
table      = NAME "=" ("A.tensor(" dtype "," shape "," base64 ")"
           | "A.stored(" dtype "," shape "," offset "," sha256 ")")
           | "A.offsets({name: n, ...})"
global info = "I.vdevice(" target "," id "," scope ")", in the list "vdevice" of I.module_global_infos
""",
    """
@I.ir_module
class Module:
    I.module_attrs({"made_by": "hand"})

    @R.function
    def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        return R.add(x, x)
""",
)

_FUNCTION = Production(
    "graph function",
    """
function   = "@R.function" ("(" option,... ")")? "def" NAME "(" (NAME ":" type),... ")" ("->" type)? ":" statement...
option     = "private=True" | "pure=False" | "type_params=(a, ...)"
           first in it may stand "R.func_attr({...})", "A.names({...})", "A.home(device)"
statement  = NAME (":" type)? "=" expr | expr | "return" expr | "pass" | "def ..." | if | match
           | "with R.dataflow():" statement... "R.output(" NAME,... ")" | "with A.graph():" node...
if         = "if" expr ":" statement... "else:" statement...
match      = "match" (expr | "A.partial(" expr ")") ":" ("case" pattern ":" statement...)...
node       = NAME (":" type)? "=" expr | NAME "= A.var(" type ")" | "def ..."
""",
    """
@R.function
def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 4), "float32"), c: R.Tensor((), "bool")):
    n = T.int64()
    with R.dataflow():
        a: R.Tensor((n, 4), "float32") = R.matmul(x, w)
        R.output(a)
    if c:
        q = R.nn.relu(a)
    else:
        q = a
    with A.graph():
        g = R.exp(q)
        h = R.add(g, g)
    return h
""",
)

_TYPES = Production(
    "type",
    """
type       = "R.Tensor(" (shape ("," dtype)? | "ndim=" n | "dtype=" dtype)? ")" | "R.Tuple(" type,... ")"
           | "R.Shape(" shape | "ndim=" n ")" | "R.Callable((" type,... ")," type ")" | "R.Prim(" dtype | "value=" n ")"
           | "R.Object" | "R.Any" | "A.Ref(" type ")" | NAME "[" type,... "]" | NAME
           | "A.on(" type "," device ")"
shape      = "(" dim,... ")", of which a text names a symbol: ("n", 4)
dim        = number | symbol | dim "+" dim | dim "*" dim | "T.max(" dim "," dim ")" | ...
symbol     = NAME "= T.int64()" | NAME "= T.var(" text ")", where SizeVar, Var and dyn say the same
""",
    """
@R.function
def main(x: R.Tensor(("n", "m"), "float32"), s: R.Shape(["n"])) -> R.Tuple(R.Tensor(ndim=2), R.Object):
    return (x, x)
""",
)

_EXPRESSIONS = Production(
    "expression",
    """
expr       = NAME | number | "R.const(" number or list ("," dtype)? ")" | "R." operator "(" ... ")"
           | "A." operator "(" ... ")"
           | "(" expr,... ")" | "R.tuple(" expr,... ")" | expr "[" n "]" | "R.TupleGetItem(" expr "," n ")"
           | expr sign expr
           | ("cls" | NAME) "." NAME "(" expr,... ")" | expr "(" expr,... ("," "type_args=(" type,... ")")? ")"
           | "R.call_tir(" function "," args ("," "out_ty=" type)? ")" | "R.call_tir_with_grad(...)"
           | "R.call_packed(" name "," ... ")" | "R.call_pure_packed(...)" | "R.call_dps_packed(...)"
           | "R.call_dps_packed"
           | "R.invoke_closure(f, args)" | "R.invoke_pure_closure(f, args)" | "R.assert_op(c, ...)"
           | "R.print(x, format=...)"
           | "R.match_cast(" expr "," type ")" | "R.shape([" dim,... "])" | "R.shape_of(" expr ")"
           | "R.prim_value(" n ")"
           | "R.null_value()" | "R.dtype(" text ")" | "R.str(" text ")" | "metadata[" name "][" n "]"
           | "R.to_vdevice(x, device)" | "R.hint_on_device(x, R.device(type, id), scope)"
           | "np.array([...])" and numpy's asarray, where a constant stands
own        = "A.let(v, value, body)" | "A.if_(c, a, b)" | "A.function((p, ...), body, type)"
           | "A.match(x, (pattern, body), ...)"
           | "A.ref(x)" | "A.read(r)" | "A.write(r, x)" | "A.extern(" name "," type ")" | "A.global_(name)"
           | "A.op(name)"
           | "A.on(x, device)" | "A.on_device(x, device, constrain_body=True, constrain_result=False)"
           | "A.device_copy(x, ...)" | "A.tensor(...)" | "A.stored(...)" | "R.relax.force_pure", an attribute
pattern    = "A.any" | NAME | "(" pattern,... ")" | "A.made(" constructor "," pattern,... ")"
device     = "(" type "," id "," target "," scope ")" | "cuda:1" | a name of A.devices, as text
""",
    """
@R.function(pure=False)
def main(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
    pair = (x, R.const([1.0, 2.0, 3.0], "float32"))
    y = pair[0] * pair[1] - x
    r = A.ref(y)
    _ = A.write(r, R.exp(y))
    z = A.read(r)
    with A.graph():
        v = A.var(R.Tensor((2, 3), "float32"))
        g = A.let(v, z, R.add(v, v))
    return A.on_device(g, "cpu")
""",
)

_DATA = Production(
    "data type",
    """
data       = "@A.data(" (type variable,...)? ")" "class" NAME ":" (NAME "=" "(" type,... ")")...
constructor = NAME "." NAME, which is called with its fields
""",
    """
a = A.typevar("a")

@I.ir_module
class Module:
    @A.data(a)
    class List:
        Nil = ()
        Cons = (a, List[a])

    @R.function
    def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        one = List.Cons(x, List.Nil(type_args=(R.Tensor((2,), "float32"),)))
        match one:
            case List.Cons(head, _):
                first = head
            case List.Nil():
                first = x
        return first
""",
)

_PRIM = Production(
    "tensor function",
    """
function   = "@T.prim_func" ("(" option,... ")")? "def" NAME "(" parameter,... ")" ":" statement...
option     = "private=True" | "s_tir=True" | "check_well_formed=False"
parameter  = NAME ":" ("T.Buffer(" shape "," dtype ")" | "T.handle" | "T.handle(" dtype ")" | "T." dtype)
binding    = NAME "= T.match_buffer(" NAME "," shape "," dtype ")" | "T.func_attr({...})"
""",
    """
@T.prim_func
def scale(a: T.handle, y: T.Buffer((4,), "float32"), n: T.int64):
    A = T.match_buffer(a, (4,), "float32")
    for i in range(4):
        y[i] = A[i] * T.Cast("float32", n)
""",
)

_STATEMENTS = Production(
    "statement",
    """
statement  = buffer "[" index,... "]" "=" scalar | NAME ": T.let[T." dtype "] =" scalar
           | NAME ": T." dtype "=" scalar | NAME "=" scalar
           | "for" NAME,... "in" loop ":" statement... | "while" scalar ":" statement...
           | "if" scalar ":" statement... ("else:" ...)?
           | "assert" scalar "," text | "T.evaluate(" scalar ")" | "T.assume(" scalar ")"
           | "T.buffer_store(buffer, value, [index])"
           | "with T.LetStmt(" scalar ") as" NAME ":" ... | "with T.Assert(...):" ... | "with T.attr(...):" ...
           | block | buffer
           | "cls." NAME "(" argument,... ")" | call
loop       = "range(" scalar,... ")" | "T.grid(" scalar,... ")" | "T.serial(" ... "annotations={...}, step=n)"
           | "T.parallel" | ...
           | "T.thread_binding(" ... ")", which is refused: there are no threads
buffer     = NAME "= T.alloc_buffer(" shape "," dtype "," scope ")"
           | "T.decl_buffer(..., data=A.data, strides=..., elem_offset=...,
             scope=..., read_only=True)" | "T.buffer_decl" | "T.allocate" | "T.allocate_const" | "T.alloc_local"
           | "T.alloc_shared"
           | NAME "= A.view(" dtype or shape ")"
call       = "T.call_packed(" name "," argument,... ")" | "T.call_cpacked" | "T.call_pure_packed"
           | "T.call_extern(" dtype "," name "," argument,... ")" | "T.call_pure_extern"
argument   = buffer | buffer ".data" | scalar | text | "T.address_of(B[i])" | "T.tvm_access_ptr(...)"
           | "T.tvm_stack_make_array(...)"
""",
    """
@T.prim_func
def sums(x: T.Buffer((4, 3), "float32"), y: T.Buffer((4,), "float32")):
    part = T.alloc_buffer((1,), "float32")
    for i in T.serial(4):
        part[0] = T.float32(0)
        for j in range(3):
            v: T.let[T.float32] = x[i, j]
            if v > T.float32(0):
                part[0] = part[0] + v
        assert part[0] >= T.float32(0), "never below"
        y[i] = part[0]
""",
)

_BLOCKS = Production(
    "block",
    """
block      = "with T.sblock(" name? "):" | "with T.block(" name? "):", in it:
             NAME "= T.axis." kind "(" dom "," scalar ")" | NAME,... "= T.axis.remap(" kinds ",[" scalar,... "])"
           | "T.reads(" region,... ")" | "T.writes(" region,... ")" | "T.where(" scalar ")"
           | "with T.init():" statement...
           | "T.sblock_attr({...})" | "T.block_attr({...})" | NAME "= T.sblock_alloc_buffer(...)"
           | NAME "= T.match_buffer(region, ...)"
dom        = extent | "(" first "," stop ")" | "T.Range(" first "," stop ")"
region     = buffer "[" (index | first ":" stop),... "]"
""",
    """
@T.prim_func
def product(a: T.Buffer((4, 3), "float32"), b: T.Buffer((3, 2), "float32"), c: T.Buffer((4, 2), "float32")):
    for i, j, k in T.grid(4, 2, 3):
        with T.sblock("c"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            T.reads(a[vi, vk], b[vk, vj])
            T.writes(c[vi, vj])
            with T.init():
                c[vi, vj] = T.float32(0)
            c[vi, vj] = c[vi, vj] + a[vi, vk] * b[vk, vj]
""",
)

_SCALARS = Production(
    "scalar",
    """
scalar     = number | NAME | buffer "[" index,... "]" | scalar sign scalar | "-" scalar | "not" scalar
           | scalar "and" scalar | scalar "or" scalar | scalar "if" scalar "else" scalar | scalar ".astype(" dtype ")"
           | "T." dtype "(" number ")" | "T." function "(" scalar,... ")" | "T.boolean(" ... ")"
           | "T.float32(" '"inf"' or '"nan"' ")"
           | "T.if_then_else(c, a, b)" | "T.Select(c, a, b)" | "T.likely(c)" | "T.Cast(" dtype "," scalar ")"
           | "T.reinterpret(...)"
           | "T.max_value(" dtype ")" | "T.min_value(" dtype ")" | "T.infinity(" dtype ")" | "T.q_multiply_shift(...)"
           | "T.q_multiply_shift_per_axis(...)" | "T.ceildiv(a, b)" | "T.ldexp(x, n)"
           | "abs", "min", "max", "int", "float" of Python
index      = scalar | "T.Ramp(first, step, lanes)" | first ":" stop (":" step)?
lanes      = "T.Broadcast(v, lanes)" | "T.Shuffle([...], [...])" | "T.Ramp(...)"
""",
    """
@T.prim_func
def clip(x: T.Buffer((4,), "int32"), y: T.Buffer((4,), "float32")):
    for i in range(4):
        y[i] = T.Cast("float32", T.max(T.min(x[i], 9), T.if_then_else(x[i] > 0 and i < 3, 1, -1))) * T.float32(0.5)
""",
)

PRODUCTIONS = {
    "Modules": (_MODULE, _DATA),
    "Graph functions": (_FUNCTION, _TYPES, _EXPRESSIONS),
    "Tensor functions": (_PRIM, _STATEMENTS, _BLOCKS, _SCALARS),
}

INNER = {
    "TRI": "the three modules that have scalars, as letters",
    "local": "the scope of a cell that the parser makes for what an extern returns",
    "func": "a kind of annotation",
    "object": "a kind of annotation",
    "func_name": "a call of TVM's builder, which is refused (text.C7)",
    "func_ret_ty": "a call of TVM's builder, which is refused (text.C7)",
    "func_ret_value": "a call of TVM's builder, which is refused (text.C7)",
    "void": "an old spelling of no element type",
    "dims": "what a buffer notes of its sizes, which is printed and not written by people",
}
"""Words that the sources compare and that the productions do not have, and why."""
