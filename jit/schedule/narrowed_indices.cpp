// See schedule/narrowed_indices.hpp.
#include "jit/schedule/narrowed_indices.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "jit/loop/affine_value.hpp"
#include "jit/loop/rewrite.hpp"
#include "jit/schedule/lanes.hpp"

namespace heddle::jit {
namespace {

constexpr std::int64_t least = std::numeric_limits<std::int32_t>::min();
constexpr std::int64_t greatest = std::numeric_limits<std::int32_t>::max();

ValuePtr constant32(std::int64_t value) { return make_constant(Scalar::of_int(DType::i32, value)); }

/// True if the value needs 64 bits per element: it loads such elements, or computes in f64.
bool needs_64_bits(const Value& value) {
  bool found = false;
  walk(value, [&](const Value& v) {
    const bool is_element = v.kind == ValueKind::load || v.kind == ValueKind::local;
    found = found || v.dtype == DType::f64 || (is_element && size_of(v.dtype) == 8);
  });
  return found;
}

class IndexNarrower {
 public:
  Block narrowed(const Block& body) {
    Block result;
    for (std::size_t k = 0; k < body.size(); ++k) {
      if (k + 1 < body.size()) {
        const Block rest(body.begin() + static_cast<std::ptrdiff_t>(k) + 2, body.end());
        if (auto made = narrowed_reduction(body[k], body[k + 1], rest)) {
          append(result, *made);
          append(result, narrowed(widened(rest, body[k]->local)));
          return result;
        }
      }
      result.push_back(narrowed(body[k]));
    }
    return result;
  }

 private:
  StmtPtr narrowed(const StmtPtr& stmt) {
    if (binds_variable(*stmt)) ranges_[stmt->var] = {stmt->from, stmt->to};
    StmtPtr made = stmt;
    const bool is_wide =
        stmt->value && (size_of(stmt->value->dtype) == 8 || needs_64_bits(*stmt->value));
    if (stmt->value && !is_wide) {
      ValuePtr value = narrowed(stmt->value);
      if (value != stmt->value) made = with_value(*made, std::move(value));
    }
    return stmt->body.empty() ? made : with_body(*made, narrowed(stmt->body));
  }

  ValuePtr narrowed(const ValuePtr& value) {
    return rebuild(value, [this](ValuePtr v) {
      if (v->kind == ValueKind::cast && v->dtype == DType::f32 &&
          v->args[0]->kind == ValueKind::embed) {
        ValuePtr index = in_32_bits(*v->args[0]);
        return index ? make_cast(std::move(index), v->dtype) : v;
      }
      const bool compares = v->kind == ValueKind::op && v->dtype == DType::bool_ &&
                            v->args.size() == 2 && v->args[0]->dtype == DType::i64;
      if (!compares) return v;
      ValuePtr a = in_32_bits(*v->args[0]), b = in_32_bits(*v->args[1]);
      return a && b ? make_op(v->op, {std::move(a), std::move(b)}) : v;
    });
  }

  /// The i64 value as i32; null where values might not fit.
  ValuePtr in_32_bits(const Value& v) const {
    switch (v.kind) {
      case ValueKind::constant:
        return v.scalar.i >= least && v.scalar.i <= greatest ? constant32(v.scalar.i) : nullptr;
      case ValueKind::embed: {
        const auto range = reach(v.index, ranges_);
        const bool fits = range && range->lowest >= least && range->highest <= greatest;
        return fits ? make_cast(make_embed(v.index), DType::i32) : nullptr;
      }
      case ValueKind::cast: {
        const ValuePtr& of = v.args[0];
        if (of->dtype == DType::i32) return of;
        const bool fits = is_integer(of->dtype) && size_of(of->dtype) < 4;
        return fits ? make_cast(of, DType::i32) : nullptr;
      }
      case ValueKind::op: {
        const bool chooses = v.op == Op::where || v.op == Op::min || v.op == Op::max;
        if (!chooses) return nullptr;
        std::vector<ValuePtr> args;
        for (const ValuePtr& arg : v.args) {
          args.push_back(arg->dtype == DType::i64 ? in_32_bits(*arg) : arg);
          if (!args.back()) return nullptr;
        }
        return make_op(v.op, std::move(args));
      }
      default:
        return nullptr;
    }
  }

  /// [declare x = start, loops around x = min(x, term)] in i32, or with max; `rest` follows.
  std::optional<Block> narrowed_reduction(const StmtPtr& declare, const StmtPtr& nest,
                                          const Block& rest) {
    if (declare->kind != StmtKind::declare || declare->value->dtype != DType::i64 ||
        declare->value->kind != ValueKind::constant || assigns(rest, declare->local))
      return std::nullopt;
    const std::optional<Reduction> found = match_reduction(declare, nest);
    if (!found || (found->op != Op::min && found->op != Op::max) || needs_64_bits(*found->term))
      return std::nullopt;
    for (const StmtPtr& loop : found->loops) {
      if (loop->from >= loop->to) return std::nullopt;
      ranges_[loop->var] = {loop->from, loop->to};
    }
    const ValuePtr term = in_32_bits(*found->term);
    // There is a term, and all terms fit: a start beyond them does not decide.
    const std::int64_t start = declare->value->scalar.i;
    const bool decides = found->op == Op::min ? start < least : start > greatest;
    if (!term || decides) return std::nullopt;
    const ValuePtr local = make_local(declare->local, DType::i32);
    std::vector<ValuePtr> args{local, narrowed(term)};
    if (found->term_first) std::swap(args[0], args[1]);
    return Block{make_declare(declare->local, constant32(std::clamp(start, least, greatest))),
                 around(nest, make_assign(declare->local, make_op(found->op, std::move(args))))};
  }
  static bool assigns(const Block& body, LocalId local) {
    bool found = false;
    walk(body, [&](const Stmt& stmt) {
      found = found || (stmt.kind == StmtKind::assign && stmt.local == local);
    });
    return found;
  }
  /// The loops of `nest` around `body`.
  static StmtPtr around(const StmtPtr& nest, const StmtPtr& body) {
    return nest->kind == StmtKind::loop ? with_body(*nest, {around(nest->body[0], body)}) : body;
  }

  /// The statements with reads of the local converted from i32.
  static Block widened(const Block& body, LocalId local) {
    Block result;
    for (const StmtPtr& stmt : body) {
      StmtPtr made = stmt;
      if (stmt->value) {
        made = with_value(*made, rebuild(stmt->value, [&](ValuePtr v) {
          const bool reads = v->kind == ValueKind::local && v->local == local;
          return reads ? make_cast(make_local(local, DType::i32), DType::i64) : v;
        }));
      }
      if (!stmt->body.empty()) made = with_body(*made, widened(stmt->body, local));
      result.push_back(std::move(made));
    }
    return result;
  }

  LoopRanges ranges_;
};

}  // namespace

Block with_narrowed_indices(const Block& body) { return IndexNarrower().narrowed(body); }

}  // namespace heddle::jit
