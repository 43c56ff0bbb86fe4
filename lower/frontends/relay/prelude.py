"""The functions of Relay's prelude that ours lacks, as Relay text (specs/lower.md, "Relay")."""

from __future__ import annotations

MORE = """
def @id[A](%value: A) -> A { %value }

def @flip[A, B, C](%f: fn (A, B) -> C) -> fn (B, A) -> C {
  fn (%second: B, %first: A) -> C { %f(%first, %second) }
}

def @map_accumr[S, X, Y](%f: fn (S, X) -> (S, Y), %start: S, %items: List[X]) -> (S, List[Y]) {
  match (%items) {
    Nil => (%start, Nil),
    Cons(%item, %later) => {
      let %after = @map_accumr(%f, %start, %later);
      let %done = %f(%after.0, %item);
      (%done.0, Cons(%done.1, %after.1))
    },
  }
}

def @map_accuml[S, X, Y](%f: fn (S, X) -> (S, Y), %start: S, %items: List[X]) -> (S, List[Y]) {
  let %step = fn (%so_far: (S, List[Y]), %item: X) -> (S, List[Y]) {
    let %done = %f(%so_far.0, %item);
    (%done.0, Cons(%done.1, %so_far.1))
  };
  @foldl(%step, (%start, Nil), %items)
}
"""
"""map_accuml's list has the last result first, as in Relay."""
