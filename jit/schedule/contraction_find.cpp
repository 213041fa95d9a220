// Recognising contractions. Pure; any thread.
#include <algorithm>

#include "jit/loop/rewrite.hpp"
#include "jit/schedule/contraction.hpp"
#include "jit/vector/lanes.hpp"

namespace heddle::jit {
namespace {

/// The loops of a perfect nest; sets `body` to the innermost body.
std::vector<StmtPtr> peel(const Block*& body) {
  std::vector<StmtPtr> loops;
  while (body->size() == 1 && body->front()->kind == StmtKind::loop &&
         body->front()->mark == LoopMark::serial && body->front()->from == 0) {
    loops.push_back(body->front());
    body = &loops.back()->body;
  }
  return loops;
}

bool is_local(const Value& v, LocalId local) {
  return v.kind == ValueKind::local && v.local == local;
}

/// True if the subscripts give every iteration of the kept loops a separate element: each loop
/// variable is the only variable on some axis.
bool is_injective(const std::vector<Affine>& at, const std::vector<StmtPtr>& kept) {
  return std::ranges::all_of(kept, [&](const StmtPtr& loop) {
    return std::ranges::any_of(at, [&](const Affine& a) {
      const auto is_loop = [](const AffineTerm& t) { return t.kind == AffineTerm::Kind::loop; };
      return std::ranges::count_if(a.terms, is_loop) == 1 && split_lane(a, loop->var).second != 0;
    });
  });
}

class ContractionFinder {
 public:
  ContractionFinder(const Loop& loop, const StmtPtr& nest) : loop_(loop), nest_{nest} {}

  std::optional<Contraction> find(bool across) {
    if (!match_loops() || !match_product() || !match_after() || !choose_lane()) return std::nullopt;
    choose_row();
    if (across) {
      const bool widened = found_.type != step_->value->dtype;
      if (!found_.row || widened) return std::nullopt;
      std::swap(found_.a, found_.b);
      std::swap(found_.lane, found_.row);
      found_.across = true;
    }
    found_.a_is_contiguous = is_contiguous(found_.a, found_.reduced.back());
    found_.b_is_contiguous = is_contiguous(found_.b, found_.lane);
    found_.rows_are_contiguous = found_.row && is_contiguous(found_.a, found_.row);
    for (const StmtPtr& loop : found_.kept) {
      if (loop == found_.lane || loop == found_.row) continue;
      (motion(found_.b, loop).moves ? found_.moving_b : found_.sharing_b).push_back(loop);
    }
    return std::move(found_);
  }

 private:
  bool match_loops() {
    const Block* body = &nest_;
    found_.kept = peel(body);
    std::size_t at = 0;
    const auto skip = [&] {
      while (at < body->size() && (*body)[at]->kind == StmtKind::comment) ++at;
    };
    skip();
    if (found_.kept.empty() || at + 2 >= body->size()) return false;
    const Stmt& declare = *(*body)[at++];
    if (declare.kind != StmtKind::declare || !declare.dims.empty()) return false;
    found_.accumulator = declare.local;
    found_.start = declare.value;
    skip();
    const Block inner{(*body)[at++]};
    const Block* innermost = &inner;
    found_.reduced = peel(innermost);
    if (found_.reduced.empty() || innermost->size() != 1) return false;
    step_ = innermost->front();
    found_.after.assign(body->begin() + static_cast<std::ptrdiff_t>(at), body->end());
    return std::ranges::all_of(found_.reduced, [](const StmtPtr& l) { return l->to > 0; }) &&
           std::ranges::all_of(found_.kept, [](const StmtPtr& l) { return l->to > 0; });
  }

  /// acc = acc + a * b, or acc - a * b
  bool match_product() {
    if (step_->kind != StmtKind::assign || step_->local != found_.accumulator) return false;
    const Value& sum = *step_->value;
    if (sum.kind != ValueKind::op) return false;
    if (sum.op == Op::fma && is_local(*sum.args[2], found_.accumulator)) {
      found_.a = sum.args[0];
      found_.b = sum.args[1];
    } else if (sum.op == Op::add) {
      const bool first = is_local(*sum.args[0], found_.accumulator);
      if (!first && !is_local(*sum.args[1], found_.accumulator)) return false;
      const Value& product = *sum.args[first ? 1 : 0];
      if (product.kind != ValueKind::op || product.op != Op::mul) return false;
      found_.a = product.args[0];
      found_.b = product.args[1];
    } else if (sum.op == Op::sub && is_local(*sum.args[0], found_.accumulator)) {
      const Value& product = *sum.args[1];
      if (product.kind != ValueKind::op || product.op != Op::mul) return false;
      found_.a = make_op(Op::neg, {product.args[0]});  // changes no other bit
      found_.b = product.args[1];
    } else {
      return false;
    }
    found_.type = sum.dtype;
    if (is_integer(sum.dtype) && size_of(sum.dtype) < 4) {
      found_.type = info(sum.dtype).is_signed ? DType::i32 : DType::u32;
      for (ValuePtr* each : {&found_.a, &found_.b, &found_.start}) *each = widened(*each);
    }
    return size_of(found_.type) >= 4 && is_factor(*found_.a) && is_factor(*found_.b);
  }

  [[nodiscard]] ValuePtr widened(const ValuePtr& v) const {
    if (v->kind == ValueKind::constant)
      return make_constant(Scalar::of_int(found_.type, v->scalar.i));
    return make_cast(v, found_.type);
  }
  [[nodiscard]] bool is_factor(const Value& factor) const {
    bool needs_locals = false;
    walk(factor, [&](const Value& v) { needs_locals |= v.kind == ValueKind::local; });
    return factor.dtype == found_.type && !needs_locals;
  }

  /// Straight-line code with one store, to a buffer that the factors do not read, and that `start`
  /// and `after` read only at the stored element.
  bool match_after() {
    for (const StmtPtr& stmt : found_.after) {
      if (binds_variable(*stmt) || stmt->kind == StmtKind::zero) return false;
      if (stmt->kind == StmtKind::store) {
        if (found_.store) return false;
        found_.store = stmt;
      }
    }
    if (!found_.store || !is_injective(found_.store->subscripts, found_.kept)) return false;
    const BufferId target = found_.store->buffer;
    bool own = !reads(*found_.a, target) && !reads(*found_.b, target);
    const auto reads_own = [&](const Value& v) {
      if (v.kind == ValueKind::load && v.buffer == target)
        own = own && v.subscripts == found_.store->subscripts;
    };
    walk(*found_.start, reads_own);
    bool reads_after = false;
    walk_values(found_.after, [&](const Value& v) {
      reads_own(v);
      reads_after = reads_after || (v.kind == ValueKind::load && v.buffer == target);
    });
    const bool starts_there =
        found_.start->kind == ValueKind::load && found_.start->buffer == target;
    found_.target_holds_sums = loop_.buffers[target].type.dtype == found_.type && !reads_after &&
                               (starts_there || !reads(*found_.start, target));
    return own;
  }

  static bool reads(const Value& value, BufferId buffer) {
    bool found = false;
    walk(value, [&](const Value& v) { found |= v.kind == ValueKind::load && v.buffer == buffer; });
    return found;
  }

  /// How a factor changes between iterations.
  struct Motion {
    bool moves = false;
    bool by_one = true;  ///< every load that moves does so by one element
  };
  Motion motion(const ValuePtr& factor, const StmtPtr& loop) const {
    Motion found;
    walk(*factor, [&](const Value& v) {
      std::int64_t step = 0;
      if (v.kind == ValueKind::load) step = stride(loop_, v.buffer, v.subscripts, loop->var);
      if (v.kind == ValueKind::embed) step = 2 * split_lane(v.index, loop->var).second;
      found.moves |= step != 0;
      found.by_one &= step == 0 || step == 1;
    });
    return found;
  }
  bool is_contiguous(const ValuePtr& factor, const StmtPtr& loop) const {
    const Motion found = motion(factor, loop);
    return found.moves && found.by_one;
  }

  /// Chooses a loop along which the result is contiguous and only one factor moves; that factor
  /// becomes b.
  bool choose_lane() {
    for (const StmtPtr& loop : found_.kept) {
      if (stride(loop_, found_.store->buffer, found_.store->subscripts, loop->var) != 1) continue;
      const bool in_a = motion(found_.a, loop).moves;
      const bool in_b = motion(found_.b, loop).moves;
      if (in_a == in_b) return false;
      if (in_a) std::swap(found_.a, found_.b);
      found_.lane = loop;
      return true;
    }
    return false;
  }

  /// Chooses the longest loop that moves only a.
  void choose_row() {
    for (const StmtPtr& loop : found_.kept) {
      if (loop == found_.lane || !motion(found_.a, loop).moves || motion(found_.b, loop).moves)
        continue;
      if (!found_.row || loop->to > found_.row->to) found_.row = loop;
    }
  }

  const Loop& loop_;
  const Block nest_;
  StmtPtr step_;
  Contraction found_;
};

}  // namespace

bool Contraction::is_computed() const {
  return a->kind != ValueKind::load || b->kind != ValueKind::load;
}

std::int64_t Contraction::inner_terms() const {
  std::int64_t terms = 1;
  for (std::size_t k = 1; k < reduced.size(); ++k) terms *= reduced[k]->to;
  return terms;
}

std::optional<Contraction> find_contraction(const Loop& loop, const StmtPtr& nest, bool across) {
  return ContractionFinder(loop, nest).find(across);
}

}  // namespace heddle::jit
