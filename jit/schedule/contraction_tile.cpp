// See schedule/contraction_tile.hpp.
#include "jit/schedule/contraction_tile.hpp"

#include <algorithm>
#include <utility>

#include "jit/loop/rewrite.hpp"
#include "jit/schedule/stages.hpp"
#include "jit/schedule/words.hpp"

namespace heddle::jit {
Affine plus(const Affine& a, const Affine& b) { return affine_add(a, b); }
Affine plus(const Affine& a, std::int64_t b) { return affine_add(a, Affine{b, {}}); }

Block TileBuilder::tile(const TermBlock& terms, const TileSide& row, const TileSide& lane) {
  if (c_.across) return turned_tile(terms, row, lane);
  const LocalId sum = in_.fresh.local();
  sums_.push_back(sum);
  const ValuePtr zero = make_constant(Scalar::of_float(type(), 0));
  const ValuePtr start = terms.sums_in_target ? zero : c_.start;
  const bool constant = start->kind == ValueKind::constant;
  Block body;
  // Declared before the sums: filling the copy must not take registers from the sums.
  const LocalId copy = by_copy_ ? in_.fresh.local() : sum;
  if (by_copy_) body.push_back(make_declare(copy, zero, {row.count, lane.count}));
  body.push_back(make_declare(sum, constant ? start : zero, {row.count, lane.count}));
  if (!constant) {
    body.push_back(over_tile(
        row, lane,
        [&](const Where& where, auto& at) {
          return Block{make_assign(copy, substitute(start, {where, {}, {}, {}, {}}), at)};
        },
        by_copy_ ? LoopMark::serial : LoopMark::unroll));
    if (by_copy_) body.push_back(move_block(copy, sum, row, lane));
  }
  if (plan_.prefetch) body.push_back(prefetch_target(row, lane));
  Block summed = sum_terms(terms, {{sum, 0, lane.count}}, row, lane);
  body.insert(body.end(), summed.begin(), summed.end());
  if (terms.sums_in_target) {  // the prefetched lines have arrived by now
    body.push_back(over_tile(row, lane, [&](const Where& where, auto& sum_at) {
      const ValuePtr before = substitute(make_load(c_.store->buffer, type(), c_.store->subscripts),
                                         {where, {}, {}, {}, {}});
      const ValuePtr here = make_local(sum, type(), sum_at);
      return Block{make_assign(sum, make_op(Op::add, {before, here}), sum_at)};
    }));
  }
  Block stored = store(terms, sum, copy, row, lane);
  body.insert(body.end(), stored.begin(), stored.end());
  return body;
}

/// Like tile(), stored along rows: each vector of sums has a block, which can be turned.
Block TileBuilder::turned_tile(const TermBlock& terms, const TileSide& row, const TileSide& lane) {
  const bool begins = !terms.sums_in_target && c_.start->kind == ValueKind::constant;
  const ValuePtr start = begins ? c_.start : make_constant(Scalar::of_float(type(), 0));
  std::vector<Sums> sums;
  Block body;
  for (std::int64_t first = 0; first < lane.count; first += width()) {
    sums.push_back({in_.fresh.local(), first, std::min(width(), lane.count - first)});
    sums_.push_back(sums.back().block);
    body.push_back(make_declare(sums.back().block, start, {row.count, sums.back().count}));
  }
  if (plan_.prefetch) body.push_back(prefetch_target(row, lane));
  Block summed = sum_terms(terms, sums, row, lane);
  body.insert(body.end(), summed.begin(), summed.end());
  for (const Sums& each : sums) body.push_back(store_turned(terms, each, row, lane));
  return body;
}

/// unroll l { lanes r { target = former content + sum } }
StmtPtr TileBuilder::store_turned(const TermBlock& terms, const Sums& sums, const TileSide& row,
                                  const TileSide& lane) {
  const VarId l = in_.fresh.var();
  const VarId r = in_.fresh.var();
  Substitution here{at(row, affine_var(r), lane, plus(affine_var(l), sums.first)), {}, {}, {}, {}};
  const ValuePtr target = make_load(c_.store->buffer, type(), c_.store->subscripts);
  ValuePtr sum = make_local(sums.block, type(), {affine_var(r), affine_var(l)});
  const bool begun = terms.sums_in_target || c_.start->kind != ValueKind::constant;
  if (begun)
    sum = make_op(Op::add, {substitute(terms.sums_in_target ? target : c_.start, here), sum});
  Block body;
  if (terms.more_terms) {
    body = {substitute(make_store(c_.store->buffer, c_.store->subscripts, sum), here)};
  } else {
    here.locals[c_.accumulator] = in_.fresh.local();
    body = {make_declare(here.locals[c_.accumulator], sum)};
    const Block rest = copied(in_, c_.after, here);
    body.insert(body.end(), rest.begin(), rest.end());
  }
  return make_loop(l, 0, sums.count, {make_loop(r, 0, row.count, std::move(body), LoopMark::lanes)},
                   LoopMark::unroll);
}

/// Copies one block of sums to another.
StmtPtr TileBuilder::move_block(LocalId from, LocalId to, const TileSide& row,
                                const TileSide& lane) {
  return over_tile(row, lane, [&](const Where&, auto& at) {
    return Block{make_assign(to, make_local(from, type(), at), at)};
  });
}

TileBuilder::Where TileBuilder::at(const TileSide& row, const Affine& r, const TileSide& lane,
                                   const Affine& l) const {
  Where where{{c_.lane->var, plus(plus(lane.block, lane.inside), l)}};
  if (c_.row) where[c_.row->var] = plus(plus(row.block, row.inside), r);
  return where;
}

ValuePtr TileBuilder::factor_a(const TermBlock& terms, const Where& where, const TileSide& row,
                               const Affine& term, const Affine& r) const {
  if (!terms.a) return substitute(c_.a, {where, {}, {}, {}, {}});
  return make_load(*terms.a, plan_.words.type, {plus(terms.first_a, row.number), term, r});
}

ValuePtr TileBuilder::factor_b(const TermBlock& terms, const Where& where, const TileSide& lane,
                               const Affine& term, const Affine& l) const {
  if (!terms.b) return substitute(c_.b, {where, {}, {}, {}, {}});
  return make_load(*terms.b, plan_.words.type, {plus(terms.first_b, lane.number), term, l});
}

/// unroll r { for each block of sums: lanes l { body } }
template <class Body>
StmtPtr TileBuilder::over_tile(const TileSide& row, const TileSide& lane,
                               const std::vector<Sums>& sums, const Body& body) {
  const VarId r = in_.fresh.var();
  Block blocks;
  for (const Sums& each : sums) {
    const VarId l = in_.fresh.var();
    const std::vector<Affine> sum_at{affine_var(r), affine_var(l)};
    Where where = at(row, affine_var(r), lane, plus(affine_var(l), each.first));
    blocks.push_back(
        make_loop(l, 0, each.count, body(std::move(where), sum_at, each), LoopMark::lanes));
  }
  return make_loop(r, 0, row.count, std::move(blocks), LoopMark::unroll);
}

/// unroll r { lanes l { body } }
template <class Body>
StmtPtr TileBuilder::over_tile(const TileSide& row, const TileSide& lane, const Body& body,
                               LoopMark mark) {
  const VarId r = in_.fresh.var();
  const VarId l = in_.fresh.var();
  std::vector<Affine> sum_at{affine_var(r), affine_var(l)};
  const Where where = at(row, affine_var(r), lane, affine_var(l));
  const StmtPtr lanes =
      make_loop(l, 0, lane.count, body(where, std::as_const(sum_at)), LoopMark::lanes);
  return make_loop(r, 0, row.count,
                   mark == LoopMark::serial ? in_stages(in_, lanes) : Block{lanes}, mark);
}

/// Prefetches the lines that the tile will be stored to, while its terms are summed.
StmtPtr TileBuilder::prefetch_target(const TileSide& row, const TileSide& lane) {
  const VarId r = in_.fresh.var();
  const VarId v = in_.fresh.var();
  const auto [lines, along] =
      c_.across ? std::pair(lane.count, row.count) : std::pair(row.count, lane.count);
  const std::int64_t vectors = (along + width() - 1) / width();
  const StmtPtr one = make_prefetch(c_.store->buffer, c_.store->subscripts, Prefetch::store);
  const Affine line = affine_var(r);
  const Affine place = affine_var(v, width());
  const Where where = c_.across ? at(row, place, lane, line) : at(row, line, lane, place);
  return make_loop(
      r, 0, lines,
      {make_loop(v, 0, vectors, {substitute(one, {where, {}, {}, {}, {}})}, LoopMark::unroll)},
      LoopMark::unroll);
}

/// Copies stream from the second-level cache: prefetches the data of later terms while the current
/// ones are summed.
void TileBuilder::prefetch_factors(Block& step, const TermBlock& terms, const TileSide& row,
                                   const TileSide& lane, const Affine& term) {
  const Affine ahead = plus(term, in_.target.profile.terms_ahead);
  const auto fetch = [&](BufferId from, const Affine& tile, std::int64_t place) {
    step.push_back(make_prefetch(from, {tile, ahead, Affine{place, {}}}, Prefetch::load));
  };
  if (terms.b) {
    for (std::int64_t l = 0; l < lane.count; l += width())
      fetch(*terms.b, plus(terms.first_b, lane.number), l);
  }
  if (terms.a) fetch(*terms.a, plus(terms.first_a, row.number), 0);
}

std::vector<WordRange> TileBuilder::word_ranges(const TermBlock& terms) const {
  const std::int64_t each = plan_.words.terms;
  const std::int64_t count = terms.count.value_or(c_.reduced[0]->to);
  std::vector<WordRange> ranges;
  if (count >= each) ranges.push_back({0, count / each, each});
  if (count % each > 0) ranges.push_back({count / each, 1, count % each});
  return ranges;
}

TermLoops TileBuilder::term_loops(const TermBlock& terms, const WordRange& words) {
  TermLoops loops;
  std::int64_t step = 1;
  loops.vars.resize(c_.reduced.size());
  loops.extents.resize(c_.reduced.size());
  for (std::size_t k = c_.reduced.size(); k-- > 0;) {
    const StmtPtr& reduced = c_.reduced[k];
    const VarId var = loops.vars[k] = in_.fresh.var();
    loops.extents[k] = k == 0 ? words.count : reduced->to;
    const Affine word = k == 0 ? plus(affine_var(var), words.first) : affine_var(var);
    loops.at[reduced->var] =
        k == 0 ? plus(affine_scale(word, plan_.words.terms), terms.first) : word;
    loops.number = plus(loops.number, affine_scale(word, step));
    step *= reduced->to;
  }
  return loops;
}

Block TileBuilder::around(const TermLoops& loops, Block body, std::int64_t unrolled_max) {
  for (std::size_t k = loops.vars.size(); k-- > 0;) {
    unrolled_max /= std::max<std::int64_t>(1, loops.extents[k]);
    Block outer{make_loop(loops.vars[k], 0, loops.extents[k], std::move(body),
                          unrolled_max > 0 ? LoopMark::unroll : LoopMark::serial)};
    body = std::move(outer);
  }
  return body;
}

/// The reduced loops around a single step: a row of b, and the multiply-adds of the tile.
Block TileBuilder::sum_terms(const TermBlock& terms, const std::vector<Sums>& sums,
                             const TileSide& row, const TileSide& lane) {
  const std::int64_t each_word = plan_.words.terms;
  const std::int64_t count = terms.count.value_or(c_.reduced[0]->to);
  const TermLoops loops = term_loops(terms, {0, (count + each_word - 1) / each_word, each_word});
  const Affine& term = loops.number;
  std::map<LocalId, LocalId> b_rows;  // by block of sums
  Block step;
  for (const Sums& each : sums) {
    const LocalId b_row = b_rows[each.block] = in_.fresh.local();
    const VarId l = in_.fresh.var();
    const Affine place = plus(affine_var(l), each.first);
    Where where = at(row, {}, lane, place);
    where.insert(loops.at.begin(), loops.at.end());
    const Scalar zero = Scalar::of_float(plan_.words.type, 0);
    step.push_back(make_declare(b_row, make_constant(zero), {each.count}));
    const ValuePtr b = factor_b(terms, where, lane, term, place);
    append(step,
           in_stages(in_, make_loop(l, 0, each.count, {make_assign(b_row, b, {affine_var(l)})},
                                    LoopMark::lanes)));
  }
  prefetch_factors(step, terms, row, lane, term);
  step.push_back(over_tile(row, lane, sums, [&](Where here, const auto& sum_at, const Sums& each) {
    here.insert(loops.at.begin(), loops.at.end());
    const ValuePtr a = factor_a(terms, here, row, term, sum_at[0]);
    const ValuePtr b = make_local(b_rows[each.block], plan_.words.type, {sum_at[1]});
    const ValuePtr so_far = make_local(each.block, type(), sum_at);
    if (each_word > 1) {
      return Block{make_assign(each.block, add_products(plan_.words, a, b, so_far), sum_at)};
    }
    ValuePtr next = in_.target.has_fma() || !is_floating(type())
                        ? make_op(Op::fma, {a, b, so_far})
                        : make_op(Op::add, {so_far, make_op(Op::mul, {a, b})});
    return Block{make_assign(each.block, std::move(next), sum_at)};
  }));
  const std::int64_t vectors = (lane.count + width() - 1) / width();
  const std::int64_t most = std::min(in_.target.profile.unrolled_steps, copies_max / width());
  // A term of a large tile takes long enough to hide the loop overhead, and compilers that move
  // loads of later terms ahead run out of registers.
  constexpr std::int64_t copies_worth = 6;
  const std::int64_t copies = most / (row.count * vectors);
  const std::int64_t unrolled = copies >= copies_worth ? copies : 0;
  Block summed = around(loops, std::move(step), unrolled);
  if (terms.added) summed.push_back(take_off_added(terms, sums, row, lane));
  return summed;
}

StmtPtr TileBuilder::take_off_added(const TermBlock& terms, const std::vector<Sums>& sums,
                                    const TileSide& row, const TileSide& lane) {
  return over_tile(row, lane, sums, [&](const Where&, const auto& sum_at, const Sums& each) {
    const ValuePtr added = make_load(
        *terms.added, type(), {plus(terms.first_b, lane.number), plus(sum_at[1], each.first)});
    const ValuePtr sum = make_local(each.block, type(), sum_at);
    return Block{make_assign(each.block, make_op(Op::sub, {sum, added}), sum_at)};
  });
}

Block TileBuilder::store(const TermBlock& terms, LocalId sum, LocalId copy, const TileSide& row,
                         const TileSide& lane) {
  if (terms.more_terms) {
    return {over_tile(row, lane, [&](const Where& where, auto& sum_at) {
      const StmtPtr to_target =
          make_store(c_.store->buffer, c_.store->subscripts, make_local(sum, type(), sum_at));
      return Block{substitute(to_target, {where, {}, {}, {}, {}})};
    })};
  }
  Block result;
  if (by_copy_) result.push_back(move_block(sum, copy, row, lane));
  result.push_back(over_tile(
      row, lane, [&](const Where& where, auto& at) { return after(where, copy, at); },
      by_copy_ ? LoopMark::serial : LoopMark::unroll));
  return result;
}

Block TileBuilder::after(const Where& where, LocalId block, const std::vector<Affine>& at) {
  return after_sum(in_, c_, where, block, at);
}

Block after_sum(Scheduling& in, const Contraction& c, const std::map<VarId, Affine>& where,
                LocalId block, const std::vector<Affine>& at) {
  Block result;
  for (StmtPtr here : copied(in, c.after, {where, {}, {}, {}, {}})) {
    if (here->value) {
      here = with_value(*here, rebuild(here->value, [&](ValuePtr v) {
        if (v->kind != ValueKind::local || v->local != c.accumulator) return v;
        ValuePtr sum = make_local(block, c.type, at);
        return v->dtype == c.type ? sum : make_cast(std::move(sum), v->dtype);
      }));
    }
    if (here->kind == StmtKind::assign && here->local == c.accumulator)
      here = make_assign(
          block, here->value->dtype == c.type ? here->value : make_cast(here->value, c.type), at);
    result.push_back(std::move(here));
  }
  return result;
}

}  // namespace heddle::jit
