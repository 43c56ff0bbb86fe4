"""Programs with one fault each, by class: what the sanitizer must report (rule M7; specs/interp.md, "Tensor").

Each is the body of `HEAD`. The faulty line ends in `# here`, and what stands behind that must be in the report.
"""

HEAD = """from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def f(x: T.Buffer((8,), "float32"), m: T.Buffer((4, 4), "float32"), ix: T.Buffer((8,), "int32"), o: T.Buffer((8,), \
"float32")):
    T.func_attr({"num_outputs": 1})
"""

FILL = "for z in range(8):\n    o[z] = x[z]\n"

PROGRAMS: dict[str, list[str]] = {
    "out of bounds": [
        "for i in range(9):\n    o[i] = x[0]  # here o[8] i=8",
        "for i in range(8):\n    o[i] = x[i + 1]  # here x[8] i=7",
        "for i in range(8):\n    o[i] = x[i - 1]  # here x[-1] i=0",
        "for i, j in T.grid(4, 5):\n    T.evaluate(m[i, j])  # here m[0, 4] dimension 1 i=0, j=4",
        "for i in range(8):\n    o[ix[i] * 3] = x[i]  # here o[9] i=3",
        "for i in T.parallel(8):\n    o[i] = m[i // 2 + 1, 0]  # here m[4, 0] dimension 0 i=6",
        "for i in T.vectorized(8):\n    o[i] = T.Select(T.likely(i < 7), x[i + 1], x[i])  # here x[8] i=7",
        "v = T.decl_buffer((4,), 'float32', data=x.data)\nfor i in range(8):\n    o[i] = v[i]  # here v[4] i=4",
        (
            "v = T.decl_buffer((8,), 'float32', data=x.data, elem_offset=2)\nfor i in range(8):\n    o[i] = v[i]  #"
            " here v[6] i=6"
        ),
        (
            "for i in range(4):\n    with T.sblock('b'):  # here r dimension 0 of x i=3\n        vi = T.axis.spatial(4,"
            " i)\n        r = T.match_buffer(x[vi * 2:vi * 2 + 3], (3,), 'float32', offset_factor=1)\n       "
            " T.evaluate(r[0])"
        ),
    ],
    "unwritten read": [
        "for i in range(8):\n    o[i] = o[i] + x[i]  # here o[0] i=0",
        "t = T.alloc_buffer((8,), 'float32')\nfor i in range(8):\n    o[i] = t[i]  # here t[0] i=0",
        (
            "t = T.alloc_buffer((8,), 'float32')\nfor i in range(7):\n    t[i] = x[i]\nfor i in range(8):\n    o[i] ="
            " t[i]  # here t[7] i=7"
        ),
        (
            "for i in range(8):\n    t = T.alloc_buffer((1,), 'float32')\n    if i < 1:\n        t[0] = x[i]\n    o[i]"
            " = t[0]  # here t[0] i=1"
        ),
        (
            "t = T.alloc_buffer((8,), 'float32')\nfor i in range(8):\n    t[i // 2 * 2] = x[i]\nfor i in range(8):\n   "
            " o[i] = t[i]  # here t[1] i=1"
        ),
        "for i in range(0):\n    o[0] = x[i]\nfor i in range(8):\n    o[i] = o[0]  # here o[0] i=0",
        (
            "for i, k in T.grid(8, 2):\n    with T.sblock('s'):\n        vi = T.axis.spatial(8, i)\n        vk ="
            " T.axis.reduce((0, 3), k + 1)\n        with T.init():\n            o[vi] = T.float32(0)\n        o[vi] ="
            " o[vi] + x[vi]  # here o[0] i=0, k=0"
        ),
        (
            "t = T.alloc_buffer((8,), 'float32')\nv = T.decl_buffer((8,), 'float32', data=t.data, strides=[1])\nfor i"
            " in range(8):\n    v[7 - i] = x[i]\n    o[i] = t[i]  # here t[0] i=0"
        ),
        (
            "t = T.alloc_buffer((8,), 'float32')\nfor i in T.parallel(8):\n    if x[i] < T.float32(3):\n        t[i] ="
            " x[i]\n    o[i] = t[i]  # here t[3] i=3"
        ),
        "t = T.alloc_buffer((4,), 'int32')\nwhile t[0] < 3:  # here t[0]\n    t[0] = t[0] + 1",
    ],
    "unwritten output": [
        "for i in range(7):\n    o[i] = x[i]  # here o[7]",
        "pass  # here 8 of 8",
        "for i in range(4):\n    o[i * 2] = x[i]  # here 4 of 8",
        "for i in T.parallel(8):\n    if x[i] < T.float32(5):\n        o[i] = x[i]  # here o[5]",
        "for i in range(8):\n    o[ix[i] // 2] = x[i]  # here o[4]",
        "for i in range(1, 8):\n    o[i] = x[i]  # here o[0]",
        "for i in T.vectorized(6):\n    o[i] = x[i]  # here o[6]",
        "for i, k in T.grid(8, 0):\n    o[i] = x[k]  # here 8 of 8",
        (
            "for i in range(8):\n    with T.sblock('b'):\n        vi = T.axis.spatial(8, i)\n        T.where(i < 5)\n  "
            "      o[vi] = x[vi]  # here o[5]"
        ),
        (
            "v = T.decl_buffer((4,), 'float32', data=o.data, strides=[2])\nfor i in range(4):\n    v[i] = x[i]  # here"
            " o[1]"
        ),
    ],
    "shape": [
        (
            "for i in range(4):\n    with T.sblock('b'):  # here r i=0\n        vi = T.axis.spatial(4, i)\n        r ="
            " T.match_buffer(m[vi, 0:4], (5,), 'float32', offset_factor=1)\n        T.evaluate(r[0])"
        ),
        (
            "for i in range(4):\n    with T.sblock('b'):  # here r i=0\n        vi = T.axis.spatial(4, i)\n        r ="
            " T.match_buffer(m[vi, 0:3], (4,), 'float32', offset_factor=1)\n        T.evaluate(r[0])"
        ),
        (
            "for i in range(4):\n    with T.sblock('b'):  # here r i=0\n        vi = T.axis.spatial(4, i)\n        r ="
            " T.match_buffer(m[vi:vi + 2, 0], (2,), 'float32', offset_factor=1)\n        T.evaluate(r[0])"
        ),
        (
            "for i in range(4):\n    with T.sblock('b'):  # here r i=0\n        vi = T.axis.spatial(4, i)\n        r ="
            " T.match_buffer(m[vi, 0:vi], (4,), 'float32', offset_factor=1)\n        T.evaluate(r[0])"
        ),
        (
            "for i in range(4):\n    with T.sblock('b'):  # here r i=0\n        vi = T.axis.spatial(4, i)\n        r ="
            " T.match_buffer(x[vi:vi + 2], (3,), 'float32', offset_factor=1)\n        T.evaluate(r[0])"
        ),
        (
            "for i in range(4):\n    with T.sblock('b'):  # here r i=1\n        vi = T.axis.spatial(4, i)\n        r ="
            " T.match_buffer(x[0:4 - vi], (4,), 'float32', offset_factor=1)\n        T.evaluate(r[0])"
        ),
        (
            "for i in range(4):\n    with T.sblock('b'):  # here r i=0\n        vi = T.axis.spatial(4, i)\n        r ="
            " T.match_buffer(m[vi, 0:4], (2, 2), 'float32', offset_factor=1)\n        T.evaluate(r[0, 0])"
        ),
        (
            "for i in T.parallel(4):\n    with T.sblock('b'):  # here r i=2\n        vi = T.axis.spatial(4, i)\n       "
            " r = T.match_buffer(m[0:2, 0:vi + 1], (2, vi % 2 + 1), 'float32', offset_factor=1)\n       "
            " T.evaluate(r[0, 0])"
        ),
        (
            "for i in range(4):\n    with T.sblock('b'):  # here r i=0\n        vi = T.axis.spatial(4, i)\n        r ="
            " T.match_buffer(x[ix[vi]:ix[vi + 2]], (3,), 'float32', offset_factor=1)\n        T.evaluate(r[0])"
        ),
        (
            "for i in range(4):\n    with T.sblock('b'):  # here r i=0\n        vi = T.axis.spatial(4, i)\n       "
            " T.reads(m[vi, 0:4])\n        r = T.match_buffer(m[vi, 0:4], (3,), 'float32', offset_factor=1)\n       "
            " T.evaluate(r[0])"
        ),
    ],
    "store to constant": [
        "for i in range(8):\n    x[i] = T.float32(1)  # here x[0] i=0",
        "ix[3] = 1  # here ix[3]",
        "for i in T.parallel(4):\n    m[i, i] = T.float32(0)  # here m[0, 0] i=0",
        "v = T.decl_buffer((4,), 'float32', data=x.data)\nv[1] = T.float32(1)  # here x[1]",
        (
            "v = T.decl_buffer((4,), 'float32', data=x.data)\nw = T.decl_buffer((2,), 'float32', data=v.data)\nw[1] ="
            " T.float32(1)  # here x[1]"
        ),
        "for i in range(2):\n    for j in range(2):\n        ix[i + j + 1] = i  # here ix[1] i=0, j=0",
        "for i in T.vectorized(8):\n    ix[i] = i  # here ix[0] i=0",
        "if x[1] > T.float32(0):\n    x[0] = x[1]  # here x[0]",
        (
            "for i in range(4):\n    with T.sblock('b'):\n        vi = T.axis.spatial(4, i)\n        T.writes(m[vi,"
            " 0:4])\n        r = T.match_buffer(m[vi, 0:4], (4,), 'float32', offset_factor=1)\n        r[2] ="
            " T.float32(1)  # here m[0, 2] i=0"
        ),
        "x[0:4] = T.Broadcast(T.float32(1), 4)  # here x[0]",
    ],
    "race": [
        "for i in T.parallel(8):\n    o[0] = x[i]  # here o[0] iterations 0 and 1 i=1",
        "for i in T.parallel(8):\n    o[i // 2] = x[i]  # here o[0] iterations 0 and 1",
        "for i in T.parallel(1, 8):\n    o[i] = o[i - 1] + x[i]  # here o[1] i=2",
        "for i in T.parallel(7):\n    o[i] = o[i + 1] + x[i]  # here o[1] i=1",
        (
            "s = T.alloc_buffer((1,), 'float32')\ns[0] = T.float32(0)\nfor i in T.parallel(8):\n    s[0] = s[0] + x[i] "
            " # here s[0] i=1"
        ),
        "for i in T.parallel(8):\n    o[ix[i] % 4] = x[i]  # here o[0] iterations 0 and 4",
        "for i in T.parallel(4):\n    for j in range(3):\n        o[i + j] = x[j]  # here o[1] i=1, j=0",
        (
            "v = T.decl_buffer((8,), 'float32', data=o.data, elem_offset=7, strides=[-1])\nfor i in T.parallel(8):\n   "
            " o[i] = v[i]  # here o[3] i=4"
        ),
        (
            "t = T.alloc_buffer((2,), 'float32')\nfor i in T.parallel(2):\n    t[1 - i] = x[i]\n    o[i] = t[1]  # here"
            " t[1] i=1"
        ),
        "for i in range(2):\n    for j in T.parallel(8):\n        o[T.max(j - 4, 0)] = x[i]  # here o[0] i=0, j=1",
    ],
    "carried dependence": [
        "for i in T.vectorized(1, 8):\n    o[i] = o[i - 1] + x[i]  # here o[1] i=2",
        "for i in T.vectorized(8):\n    o[0] = x[i]  # here o[0] i=1",
        "for i in T.vectorized(8):\n    o[i // 2] = x[i]  # here o[0] i=1",
        (
            "s = T.alloc_buffer((1,), 'float32')\ns[0] = T.float32(0)\nfor i in T.vectorized(8):\n    s[0] = s[0] +"
            " x[i]  # here s[0] i=1"
        ),
        "for i in T.vectorized(2, 8):\n    o[i] = o[i - 2] * T.float32(2)  # here o[2] i=4",
        "for i in T.vectorized(8):\n    o[ix[i] % 4] = x[i]  # here o[0] i=4",
        "for i in T.vectorized(7):\n    for k in range(2):\n        o[i] = o[i + 1] + x[i]  # here o[1] i=1, k=0",
        (
            "for i in T.vectorized(7):\n    o[i] = x[i]\n    T.evaluate(o[i + 1])\nfor i in range(8):\n    o[i] = x[i] "
            " # before o[1] i=1"
        ),
        (
            "v = T.decl_buffer((8,), 'float32', data=o.data, elem_offset=7, strides=[-1])\nfor i in T.vectorized(8):\n "
            "   o[i] = v[i]  # here o[3] i=4"
        ),
        "for i in T.parallel(1):\n    for j in T.vectorized(1, 8):\n        o[j] = o[j - 1]  # here o[1] i=0, j=2",
    ],
    "misaligned": [
        (
            "v = T.decl_buffer((4,), 'float32', data=x.data, elem_offset=1, offset_factor=4)  # here v element"
            " 1\nT.evaluate(v[0])"
        ),
        (
            "v = T.decl_buffer((4,), 'float32', data=x.data, elem_offset=2, offset_factor=4)  # here v element"
            " 2\nT.evaluate(v[0])"
        ),
        "v = T.decl_buffer((4,), 'float32', data=x.data, elem_offset=1, align=16)  # here v byte 4\nT.evaluate(v[0])",
        "v = T.decl_buffer((4,), 'float32', data=x.data, elem_offset=3, align=8)  # here v byte 12\nT.evaluate(v[0])",
        (
            "for i in range(4):\n    v = T.decl_buffer((2,), 'float32', data=x.data, elem_offset=i * 2,"
            " offset_factor=4)  # here v element 2 i=1\n    T.evaluate(v[0])"
        ),
        (
            "for i in range(4):\n    with T.sblock('b'):  # here r element 4 i=1\n        vi = T.axis.spatial(4, i)\n  "
            "      r = T.match_buffer(m[vi, 0:4], (4,), 'float32', offset_factor=8)\n        T.evaluate(r[0])"
        ),
        (
            "for i in range(4):\n    with T.sblock('b'):  # here r byte 16 i=1\n        vi = T.axis.spatial(4, i)\n    "
            "    r = T.match_buffer(m[vi, 0:4], (4,), 'float32', align=64, offset_factor=1)\n        T.evaluate(r[0])"
        ),
        (
            "v = T.decl_buffer((6,), 'float32', data=x.data, elem_offset=2)\nw = T.decl_buffer((4,), 'float32',"
            " data=v.data, elem_offset=1, offset_factor=2)  # here w element 3\nT.evaluate(w[0])"
        ),
        (
            "for i in T.parallel(4):\n    v = T.decl_buffer((1,), 'float32', data=x.data, elem_offset=i, align=8)  #"
            " here v byte 4 i=1\n    T.evaluate(v[0])"
        ),
        (
            "v = T.decl_buffer((4,), 'float32', data=x.data, elem_offset=ix[3], offset_factor=2)  # here v element"
            " 3\nT.evaluate(v[0])"
        ),
    ],
    "wrong scope": [
        "v = T.decl_buffer((4,), 'float32', data=x.data, scope='shared')  # here v shared global\nT.evaluate(v[0])",
        "v = T.decl_buffer((4,), 'float32', data=x.data, scope='local')  # here v local\nT.evaluate(v[0])",
        (
            "t = T.alloc_buffer((4,), 'float32', scope='shared')\nv = T.decl_buffer((4,), 'float32', data=t.data,"
            " scope='global')  # here v shared\nv[0] = x[0]"
        ),
        (
            "t = T.alloc_buffer((8,), 'float32', scope='local')\nfor i in T.parallel(8):\n    t[i] = x[i]  # here t[0]"
            " local i=0"
        ),
        (
            "t = T.alloc_buffer((1,), 'float32', scope='local')\nfor i in T.parallel(1):\n    t[0] = x[i]  # here t[0]"
            " local i=0"
        ),
        (
            "t = T.alloc_buffer((4, 2), 'float32', scope='local')\nfor i in T.parallel(4):\n    for j in range(2):\n   "
            "     t[i, j] = x[j]  # here t[0, 0] i=0, j=0"
        ),
        (
            "for i in T.parallel(2):\n    t = T.alloc_buffer((4,), 'float32', scope='local')\n    for j in"
            " T.parallel(4):\n        t[j] = x[j]  # here t[0] i=0, j=0"
        ),
        (
            "t = T.alloc_buffer((4,), 'float32', scope='warp')\nfor i in T.parallel(4):\n    if i > 1:\n        t[i] ="
            " x[i]  # here t[2] warp i=2"
        ),
        (
            "t = T.alloc_buffer((4,), 'float32', scope='local')\nv = T.decl_buffer((2, 2), 'float32', data=t.data,"
            " scope='local')\nfor i in T.parallel(2):\n    v[i, i] = x[i]  # here v[0, 0] i=0"
        ),
        (
            "for i in range(4):\n    with T.sblock('b'):  # here r shared i=0\n        vi = T.axis.spatial(4, i)\n     "
            "   r = T.match_buffer(m[vi, 0:4], (4,), 'float32', scope='shared', offset_factor=1)\n       "
            " T.evaluate(r[0])"
        ),
    ],
    "undeclared access": [
        (
            "for i in range(8):\n    with T.sblock('b'):\n        vi = T.axis.spatial(8, i)\n        T.reads(ix[vi])\n "
            "       T.writes(o[vi])\n        o[vi] = x[vi]  # here x[0] nothing of x i=0"
        ),
        (
            "for i in range(8):\n    with T.sblock('b'):\n        vi = T.axis.spatial(8, i)\n        T.reads(x[vi])\n  "
            "      T.writes(o[vi])\n        o[vi] = x[7 - vi]  # here x[7] x[0] i=0"
        ),
        (
            "for i in range(8):\n    with T.sblock('b'):\n        vi = T.axis.spatial(8, i)\n        T.reads(x[vi])\n  "
            "      T.writes(o[0])\n        o[vi] = x[vi]  # here o[1] o[0] i=1"
        ),
        (
            "for i in range(7):\n    with T.sblock('b'):\n        vi = T.axis.spatial(7, i)\n        T.reads(x[vi:vi +"
            " 1])\n        T.writes(o[vi])\n        o[vi] = x[vi] + x[vi + 1]  # here x[1] x[0] i=0"
        ),
        (
            "for i in range(4):\n    with T.sblock('b'):\n        vi = T.axis.spatial(4, i)\n        T.reads(m[vi,"
            " 0:3])\n        T.writes(o[vi])\n        o[vi] = m[vi, 3]  # here m[0, 3] m[0, 0:3] i=0"
        ),
        (
            "for i in range(4):\n    with T.sblock('b'):\n        vi = T.axis.spatial(4, i)\n        T.reads(m[0:2,"
            " 0:4])\n        T.writes(o[vi])\n        o[vi] = m[vi, 0]  # here m[2, 0] i=2"
        ),
        (
            "for i in range(4):\n    with T.sblock('b'):\n        vi = T.axis.spatial(4, i)\n        T.reads(m[vi,"
            " 0:2])\n        T.writes(o[vi])\n        r = T.match_buffer(m[vi, 0:4], (4,), 'float32',"
            " offset_factor=1)\n        o[vi] = r[3]  # here r[3] m[0, 0:2] i=0"
        ),
        (
            "for i in range(4):\n    with T.sblock('outer'):\n        vi = T.axis.spatial(4, i)\n       "
            " T.reads(x[0:2])\n        T.writes(o[vi])\n        with T.sblock('inner'):\n            T.reads(x[vi])\n  "
            "          T.writes(o[vi])\n            o[vi] = x[vi]  # here outer x[2] x[0:2] i=2"
        ),
        (
            "for i in range(8):\n    with T.sblock('b'):\n        vi = T.axis.spatial(8, i)\n        T.reads(x[ix[vi]],"
            " ix[vi])\n        T.writes(o[vi])\n        o[vi] = x[ix[vi]] + T.Cast('float32', ix[0])  # here ix[0]"
            " ix[1] i=1"
        ),
        (
            "for i in range(8):\n    with T.sblock('b'):\n        vi = T.axis.spatial(8, i)\n        T.reads(x[vi])\n  "
            "      T.writes(o[vi])\n        with T.init():\n            o[0] = T.float32(0)  # here o[0] o[1] i=1\n    "
            "    o[vi] = x[vi]"
        ),
    ],
    "division by zero": [
        "for i in range(8):\n    T.evaluate(8 // ix[i])  # here i=0",
        "for i in range(8):\n    T.evaluate(8 % (ix[i] - 3))  # here i=3",
        "for i in range(8):\n    T.evaluate(T.truncdiv(8, ix[i] - 7))  # here i=7",
        "for i in range(8):\n    T.evaluate(T.truncmod(8, ix[i] - 5))  # here i=5",
        "for i in range(8):\n    o[7 // ix[i]] = x[i]  # here i=0",
        "for i in T.parallel(8):\n    o[i] = T.Cast('float32', 8 // (ix[i] - 4))  # here i=4",
        "for i in T.vectorized(8):\n    o[i] = T.Cast('float32', 8 % (ix[i] - 4))  # here i=4",
        "for i in range(8):\n    if 1 // ix[i] > 0:  # here i=0\n        o[i] = x[i]",
        "for i in range(8):\n    for j in range(8 // (ix[i] - 1)):  # here i=1\n        T.evaluate(x[0])",
        "for i in range(8):\n    o[i] = T.Select(T.likely(ix[i] > 0), T.Cast('float32', 8 // ix[i]), x[i])  # here i=0",
    ],
    "shift": [
        "for i in range(8):\n    T.evaluate(1 << (ix[i] + 25))  # here i=7",
        "for i in range(8):\n    T.evaluate(1 << (ix[i] - 1))  # here i=0",
        "for i in range(8):\n    T.evaluate(1 >> (ix[i] - 2))  # here i=0",
        "for i in range(8):\n    T.evaluate(T.shift_left(ix[i], ix[i] * 16))  # here i=2",
        "for i in range(8):\n    T.evaluate(T.shift_right(ix[i], 31 + ix[i]))  # here i=1",
        (
            "for i in T.parallel(8):\n    o[i] = T.Cast('float32', T.Cast('int8', 1) << T.Cast('int8', ix[i] + 3))  #"
            " here i=5"
        ),
        (
            "for i in T.vectorized(8):\n    o[i] = T.Cast('float32', T.Cast('uint16', 1) >> T.Cast('uint16', ix[i] *"
            " 4))  # here i=4"
        ),
        "for i in range(8):\n    T.evaluate(T.Cast('int64', 1) << T.Cast('int64', ix[i] * 16))  # here i=4",
        "for i in range(8):\n    if (1 << (ix[i] - 1)) > 0:  # here i=0\n        o[i] = x[i]",
        "for i in range(8):\n    o[(1 << (ix[i] - 4)) % 8] = x[i]  # here i=0",
    ],
    "cast": [
        "for i in range(8):\n    T.evaluate(T.Cast('int8', x[i] * T.float32(20)))  # here i=7",
        "for i in range(8):\n    T.evaluate(T.Cast('uint8', x[i] - T.float32(1)))  # here i=0",
        "for i in range(8):\n    T.evaluate(T.Cast('int32', T.float32(1) / x[i]))  # here i=0",
        "for i in range(8):\n    T.evaluate(T.Cast('int32', x[i] / x[i]))  # here NaN i=0",
        "for i in range(8):\n    T.evaluate(T.Cast('int32', x[i] * T.float32(1e9)))  # here i=3",
        "for i in range(8):\n    T.evaluate(T.Cast('int64', x[i] * T.float32(5e18)))  # here i=2",
        (
            "for i in T.parallel(8):\n    o[i] = T.Cast('float32', T.Cast('uint64', T.float32(0.5) - x[i] *"
            " T.float32(1)))  # here i=2"
        ),
        "for i in T.vectorized(8):\n    o[i] = T.Cast('float32', T.Cast('int16', x[i] * T.float32(7000)))  # here i=5",
        "for i in range(8):\n    o[T.Cast('int32', x[i] * T.float32(4e8)) % 8] = x[0]  # here i=6",
        (
            "for i in range(8):\n    if T.Cast('uint16', x[i] * T.float32(3e4)) < T.Cast('uint16', 7):  # here i=3\n   "
            "     o[i] = x[i]"
        ),
    ],
}
"""By kind of trap."""
