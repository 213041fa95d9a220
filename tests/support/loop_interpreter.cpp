// See loop_interpreter.hpp.
#include "loop_interpreter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <stdexcept>

#include "error_bounds.hpp"
#include "jit/loop/address.hpp"
#include "jit/loop/own_scratch.hpp"
#include "jit/value/element.hpp"
#include "scalar_reference.hpp"

namespace heddle::jit::testing {
namespace {

class Interpreter {
 public:
  Interpreter(const Loop& loop, std::span<const HostArray> buffers,
              std::span<const std::int64_t> statics)
      : loop_(loop), buffers_(buffers), statics_(statics) {
    if (buffers.size() != loop.buffers.size()) throw std::logic_error("one array per buffer");
    if (statics.size() != loop.statics.size()) throw std::logic_error("one value per static index");
    for (std::size_t k = 0; k < buffers.size(); ++k) {
      const ArrayType& type = loop.buffers[k].type;  // a schedule may have joined its axes
      if (buffers[k].type().dtype != type.dtype || buffers[k].num_elements() != type.num_elements())
        throw std::logic_error(fmt::format("array {} is not of its buffer's type", k));
      errors_.emplace_back(static_cast<std::size_t>(buffers[k].num_elements()), 0.0);
    }
  }

  [[nodiscard]] ElementErrors take_errors() { return std::move(errors_); }

  void block(const Block& body) {
    for (const StmtPtr& stmt : body) statement(*stmt);
  }

  /// Runs part `number` of `of` parts, as the kernel ABI divides the work.
  void part(std::int64_t number, std::int64_t of) {
    for (const StmtPtr& stmt : loop_.body) {
      const bool assigns =
          binds_variable(*stmt) || stmt->kind == StmtKind::zero || stmt->kind == StmtKind::store;
      if (stmt->kind == StmtKind::loop && stmt->mark == LoopMark::parallel) {
        const std::int64_t all = stmt->to - stmt->from;
        iterations(*stmt, stmt->from + all * number / of, stmt->from + all * (number + 1) / of);
      } else if (!assigns || number == 0) {
        statement(*stmt);
      }
    }
  }

 private:
  void iterations(const Stmt& loop, std::int64_t from, std::int64_t to) {
    for (std::int64_t k = from; k < to; ++k) {
      vars_[loop.var] = k;
      block(loop.body);
    }
  }

  void statement(const Stmt& stmt) {
    switch (stmt.kind) {
      case StmtKind::comment:
        return;
      case StmtKind::prefetch:
        if (stmt.next == Prefetch::store) static_cast<void>(offset(stmt.buffer, stmt.subscripts));
        return;
      case StmtKind::loop:
        return iterations(stmt, stmt.from, stmt.to);
      case StmtKind::at:
        position(stmt);
        return;
      case StmtKind::zero: {
        const HostArray& array = buffers_[stmt.buffer];
        for (std::int64_t k = 0; k < array.num_elements(); ++k)
          store_element(array.type().dtype, array.data(), static_cast<std::size_t>(k), Scalar{});
        std::ranges::fill(errors_[stmt.buffer], 0.0);
        return;
      }
      case StmtKind::store: {
        const HostArray& array = buffers_[stmt.buffer];
        const Bounded v = value(*stmt.value);
        const std::size_t at = offset(stmt.buffer, stmt.subscripts);
        const DType type = array.type().dtype;
        store_element(type, array.data(), at, reference_cast(v.value, type));
        errors_[stmt.buffer][at] = unsure_ > 0 ? unknown_error : v.error;
        return;
      }
      case StmtKind::declare: {
        const ArrayType type{stmt.value->dtype, stmt.dims};
        Bounded start = value(*stmt.value);
        if (unsure_ > 0) start.error = unknown_error;
        Local& local = locals_[stmt.local];
        local.dims = type.dims;
        local.elements.assign(static_cast<std::size_t>(*type.num_elements()), start);
        local.sum.set(start);
        return;
      }
      case StmtKind::assign:
        assign(stmt);
        return;
    }
  }

  void position(const Stmt& stmt) {
    const auto [found, error] = value(*stmt.value);
    const bool unsure = error != 0;  // a schedule may compute another position
    if (unsure) forget(stmt.body);
    const bool is_huge = found.dtype == DType::u64 && found.i < 0;  // 2^63 or more
    const bool below = !is_huge && found.i < stmt.from;
    const bool above = is_huge || found.i >= stmt.to;
    if (stmt.from >= stmt.to || (!stmt.nearest && (below || above))) return;
    vars_[stmt.var] = below ? stmt.from : above ? stmt.to - 1 : found.i;
    unsure_ += unsure ? 1 : 0;
    block(stmt.body);
    unsure_ -= unsure ? 1 : 0;
  }

  /// Marks every element that the statements may assign as unknown.
  void forget(const Block& body) {
    for (const StmtPtr& stmt : body) {
      if (stmt->kind == StmtKind::store || stmt->kind == StmtKind::zero)
        std::ranges::fill(errors_[stmt->buffer], unknown_error);
      if (stmt->kind == StmtKind::assign) {
        const auto local = locals_.find(stmt->local);
        if (local == locals_.end()) continue;  // declared in the body
        for (Bounded& element : local->second.elements) {
          element.error = unknown_error;
          local->second.sum.set(element);
        }
      }
      forget(stmt->body);
    }
  }

  void assign(const Stmt& stmt) {
    Bounded v = value(*stmt.value);
    Local& local = locals_.at(stmt.local);
    Bounded& element = local.elements[offset(local.dims, stmt.subscripts, 'x', stmt.local)];
    if (const Value* const term = summed(stmt)) {
      v.error = local.sum.step(stmt.value->op, v.value, element, value(*term));
    } else if (stmt.subscripts.empty()) {
      local.sum.set(v);
    }
    if (unsure_ > 0) v.error = unknown_error;
    element = v;
  }

  /// The term of a step x = op(x, term) or x = op(term, x) that loops may take in any order; null
  /// for any other step.
  static const Value* summed(const Stmt& stmt) {
    const Value& v = *stmt.value;
    const bool sums = v.kind == ValueKind::op && v.args.size() == 2 && stmt.subscripts.empty() &&
                      (v.op == Op::add || v.op == Op::sub || v.op == Op::mul || v.op == Op::max ||
                       v.op == Op::min);
    if (!sums) return nullptr;
    const auto is_own = [&](std::size_t k) {
      return v.args[k]->kind == ValueKind::local && v.args[k]->local == stmt.local;
    };
    if (is_own(0) == is_own(1) || (v.op == Op::sub && is_own(1))) return nullptr;
    return v.args[is_own(0) ? 1 : 0].get();
  }

  std::int64_t index(const Affine& a) const {
    std::int64_t sum = a.constant;
    for (const AffineTerm& term : a.terms) {
      sum += term.coefficient *
             (term.kind == AffineTerm::Kind::loop ? vars_.at(term.id) : statics_[term.id]);
    }
    return sum;
  }

  std::size_t offset(BufferId buffer, const std::vector<Affine>& subscripts) const {
    const ArrayType& type = loop_.buffers[buffer].type;
    return is_flat(type.dims, subscripts) ? offset({*type.num_elements()}, subscripts, 't', buffer)
                                          : offset(type.dims, subscripts, 't', buffer);
  }

  std::size_t offset(const Dims& dims, const std::vector<Affine>& subscripts, char prefix,
                     std::uint32_t id) const {
    std::int64_t at = 0;
    for (std::size_t axis = 0; axis < dims.size(); ++axis) {
      const std::int64_t k = index(subscripts[axis]);
      if (k < 0 || k >= dims[axis])
        throw std::out_of_range(fmt::format("{}{} axis {}: {}", prefix, id, axis, k));
      at = at * dims[axis] + k;
    }
    return static_cast<std::size_t>(at);
  }

  /// A scalar, or a block of scalars.
  struct Local {
    Dims dims;
    std::vector<Bounded> elements;
    Accumulated sum;  // for a scalar
  };

  Bounded element(const Value& v) const {
    const Local& local = locals_.at(v.local);
    return local.elements[offset(local.dims, v.subscripts, 'x', v.local)];
  }

  Bounded value(const Value& v) const {
    switch (v.kind) {
      case ValueKind::constant:
        return {v.scalar, 0};
      case ValueKind::load: {
        const std::size_t at = offset(v.buffer, v.subscripts);
        return {load_element(v.dtype, buffers_[v.buffer].data(), at), errors_[v.buffer][at]};
      }
      case ValueKind::local:
        return element(v);
      case ValueKind::embed:
        return {Scalar::of_int(DType::i64, index(v.index)), 0};
      case ValueKind::cast: {
        const Bounded from = value(*v.args[0]);
        const Scalar to = reference_cast(from.value, v.dtype);
        return {to, error_after_cast(to, from)};
      }
      case ValueKind::op:
        break;
    }
    std::array<Bounded, 3> args;
    std::array<Scalar, 3> values;
    const std::size_t count = v.args.size();
    for (std::size_t k = 0; k < count; ++k) {
      args[k] = value(*v.args[k]);
      values[k] = args[k].value;
    }
    const Scalar made = reference_value(v.op, v.dtype, {values.data(), count});
    return {made, error_after(v.op, made, {args.data(), count})};
  }

  const Loop& loop_;
  std::span<const HostArray> buffers_;
  std::span<const std::int64_t> statics_;
  std::map<VarId, std::int64_t> vars_;
  std::map<LocalId, Local> locals_;
  ElementErrors errors_;
  int unsure_ = 0;  // enclosing positions that a schedule may compute differently
};

}  // namespace

void interpret(const Loop& loop, std::span<const HostArray> buffers,
               std::span<const std::int64_t> statics) {
  Interpreter(loop, buffers, statics).block(loop.body);
}

void interpret_in_parts(const Loop& loop, std::span<const HostArray> buffers,
                        std::span<const std::int64_t> statics,
                        std::span<const std::int64_t> order) {
  const std::set<BufferId> own = own_scratch(loop);
  for (const std::int64_t part : order) {
    for (const BufferId id : own) {
      if (buffers[id].num_bytes() > 0)
        std::memset(buffers[id].data(), 0xa5, buffers[id].num_bytes());
    }
    Interpreter(loop, buffers, statics).part(part, static_cast<std::int64_t>(order.size()));
  }
}

ElementErrors interpret_bounded(const Loop& loop, std::span<const HostArray> buffers,
                                std::span<const std::int64_t> statics) {
  Interpreter interpreter(loop, buffers, statics);
  interpreter.block(loop.body);
  return interpreter.take_errors();
}

bool same_elements(const HostArray& a, const HostArray& b) {
  // A schedule may join axes.
  return a.type().dtype == b.type().dtype && a.num_elements() == b.num_elements() &&
         near_elements(a, b, {});
}

bool near_elements(const HostArray& a, const HostArray& b, std::span<const double> errors) {
  for (std::size_t k = 0; k < static_cast<std::size_t>(a.num_elements()); ++k) {
    const Scalar x = load_element(a.type().dtype, a.data(), k);
    const Scalar y = load_element(b.type().dtype, b.data(), k);
    if (x == y || (std::isnan(x.f) && std::isnan(y.f))) continue;
    const double error = errors.empty() ? 0 : errors[k];
    if (error == unknown_error || std::fabs(x.f - y.f) <= error) continue;
    return false;
  }
  return true;
}

}  // namespace heddle::jit::testing
