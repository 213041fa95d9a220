// See affine_value.hpp.
#include "jit/loop/affine_value.hpp"

#include "jit/system/limits.hpp"

namespace heddle::jit {
namespace {

using Maybe = std::optional<Affine>;

class AffineReader {
 public:
  AffineReader(const LoopRanges& ranges, Cuts* cuts) : ranges_(ranges), cuts_(cuts) {}

  [[nodiscard]] Maybe read(const Value& v) const {
    count_step();
    const Maybe value = plainly(v);
    return value && is_small(*value) ? value : std::nullopt;
  }

 private:
  [[nodiscard]] Maybe plainly(const Value& v) const {
    if (!is_integer(v.dtype) || v.dtype == DType::u64) return std::nullopt;
    switch (v.kind) {
      case ValueKind::constant:
        return Affine{v.scalar.i, {}};
      case ValueKind::embed:
        return v.index;
      case ValueKind::cast:
        return fitting(read(*v.args[0]), v.dtype);
      case ValueKind::op:
        return fitting(operation(v), v.dtype);
      default:
        return std::nullopt;
    }
  }

  /// The index, if the type holds all of its values.
  [[nodiscard]] Maybe fitting(const Maybe& index, DType type) const {
    if (!index) return std::nullopt;
    const auto range = reach(*index, ranges_);
    if (!range) return std::nullopt;
    const Int128 one = 1;
    const auto bits = static_cast<int>(8 * size_of(type));
    const Int128 low = info(type).is_signed ? -(one << (bits - 1)) : Int128{0};
    const Int128 high = (one << (info(type).is_signed ? bits - 1 : bits)) - 1;
    return range->lowest >= low && range->highest <= high ? index : std::nullopt;
  }

  [[nodiscard]] Maybe operation(const Value& v) const {
    if (v.op == Op::where) return chosen(v);
    const Maybe a = v.args.empty() ? std::nullopt : read(*v.args[0]);
    if (!a) return std::nullopt;
    if (v.op == Op::neg) return affine_scale(*a, -1);
    const Maybe b = v.args.size() == 2 ? read(*v.args[1]) : std::nullopt;
    if (!b) return std::nullopt;
    switch (v.op) {
      case Op::add:
        return affine_add(*a, *b);
      case Op::sub:
        return difference(*a, *b);
      case Op::mul:
        if (b->terms.empty()) return affine_scale(*a, b->constant);
        if (a->terms.empty()) return affine_scale(*b, a->constant);
        return std::nullopt;
      case Op::max:
        return one_of(is_less(*a, *b), *b, *a);
      case Op::min:
        return one_of(is_less(*a, *b), *a, *b);
      case Op::div:
      case Op::mod:
        return b->terms.empty() ? part_of_quotient(*a, b->constant, v.op) : std::nullopt;
      default:
        return std::nullopt;
    }
  }

  /// where(a < b, x, y), and where(a <= b, x, y).
  [[nodiscard]] Maybe chosen(const Value& v) const {
    const Value& test = *v.args[0];
    if (test.kind != ValueKind::op || (test.op != Op::lt && test.op != Op::le)) return std::nullopt;
    const Maybe a = read(*test.args[0]), b = read(*test.args[1]);
    const Maybe x = read(*v.args[1]), y = read(*v.args[2]);
    if (!a || !b || !x || !y) return std::nullopt;
    if (test.op == Op::lt) return one_of(is_less(*a, *b), *x, *y);
    return one_of(is_less(*b, *a), *y, *x);
  }

  static Maybe one_of(const std::optional<bool>& first, const Affine& a, const Affine& b) {
    if (!first) return std::nullopt;
    return *first ? a : b;
  }

  /// Whether a < b; none where that changes, or is not known.
  [[nodiscard]] std::optional<bool> is_less(const Affine& a, const Affine& b) const {
    const Affine more = difference(b, a);
    const auto range = reach(more, ranges_);
    if (!range) return std::nullopt;
    if (range->lowest >= 1) return true;
    if (range->highest < 1) return false;
    if (cuts_ != nullptr) add_cut(more, 1, ranges_, *cuts_);
    return std::nullopt;
  }

  /// a div b or a mod b of numbers that are not negative.
  [[nodiscard]] Maybe part_of_quotient(const Affine& a, std::int64_t b, Op op) const {
    const auto range = reach(a, ranges_);
    if (b <= 0 || b >= small_end || !range || range->lowest < 0) return std::nullopt;
    const Int128 first = range->lowest / b, last = range->highest / b;
    // a = b * times + rest
    Affine times{narrow(first), {}};
    if (first != last) {
      times.constant = narrow(floor_div(a.constant, b));
      for (const AffineTerm& term : a.terms) {
        const std::int64_t each = narrow(floor_div(term.coefficient, b));
        AffineTerm whole = term;
        whole.coefficient = each;
        if (each != 0) times.terms.push_back(whole);
      }
    }
    if (!is_small(affine_scale(times, b))) return std::nullopt;
    const Affine rest = difference(a, affine_scale(times, b));
    const auto left = reach(rest, ranges_);
    if (left && left->lowest >= 0 && left->highest < b) return op == Op::div ? times : rest;
    if (cuts_ == nullptr) return std::nullopt;
    if (last - first <= 2) {
      for (Int128 k = first + 1; k <= last; ++k) add_cut(a, narrow(k * b), ranges_, *cuts_);
    } else if (cuts_->period == 1 && b > 1 && a.terms.size() == 1 &&
               a.terms[0].kind == AffineTerm::Kind::loop && a.terms[0].id == cuts_->var &&
               a.terms[0].coefficient == 1) {
      cuts_->period = b;
      cuts_->phase = a.constant;
    }
    return std::nullopt;
  }

  // Of small operands, no coefficient overflows here.
  static Affine difference(const Affine& a, const Affine& b) {
    return affine_add(a, affine_scale(b, -1));
  }
  static constexpr std::int64_t small_end = 1LL << 31;
  /// Coefficients and constant, which subscripts multiply by strides, have 32 bits.
  static bool is_small(const Affine& a) {
    const auto small = [](std::int64_t v) { return v > -small_end && v < small_end; };
    bool all = small(a.constant);
    for (const AffineTerm& term : a.terms) all = all && small(term.coefficient);
    return all;
  }

  const LoopRanges& ranges_;
  Cuts* cuts_;
};

}  // namespace

std::optional<Interval> reach(const Affine& index, const LoopRanges& ranges) {
  using Ends = std::optional<std::pair<std::int64_t, std::int64_t>>;
  return reach(index, [&](const AffineTerm& term) -> Ends {
    const auto known = term.kind == AffineTerm::Kind::loop ? ranges.find(term.id) : ranges.end();
    if (known == ranges.end() || known->second.first >= known->second.second) return std::nullopt;
    return std::pair(known->second.first, known->second.second - 1);
  });
}

void add_cut(const Affine& index, std::int64_t limit, const LoopRanges& ranges, Cuts& cuts) {
  if (index.terms.size() != 1 || index.terms[0].kind != AffineTerm::Kind::loop ||
      index.terms[0].id != cuts.var)
    return;
  const Int128 step = index.terms[0].coefficient;
  const Int128 more = Int128{limit} - index.constant;
  // step * v >= more: from the first v on, or up to the last.
  const Int128 at = step > 0 ? -floor_div(-more, step) : floor_div(-more, -step) + 1;
  const auto [from, to] = ranges.at(cuts.var);
  if (at > from && at < to) cuts.at.insert(narrow(at));
}

std::optional<Affine> affine_value(const Value& value, const LoopRanges& ranges, Cuts* cuts) {
  return AffineReader(ranges, cuts).read(value);
}

}  // namespace heddle::jit
