// See loop_interpreter.hpp.
#include "loop_interpreter.hpp"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <stdexcept>

#include "jit/element.hpp"
#include "jit/primitive_eval.hpp"

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
      if (buffers[k].type() != loop.buffers[k].type)
        throw std::logic_error(fmt::format("array {} is not of its buffer's type", k));
    }
  }

  void block(const Block& body) {
    for (const StmtPtr& stmt : body) statement(*stmt);
  }

 private:
  void statement(const Stmt& stmt) {
    switch (stmt.kind) {
      case StmtKind::comment:
        return;
      case StmtKind::prefetch:
        if (stmt.next == Prefetch::store) static_cast<void>(offset(stmt.buffer, stmt.subscripts));
        return;
      case StmtKind::loop:
        for (std::int64_t k = stmt.from; k < stmt.to; ++k) {
          vars_[stmt.var] = k;
          block(stmt.body);
        }
        return;
      case StmtKind::zero: {
        const HostArray& array = buffers_[stmt.buffer];
        for (std::int64_t k = 0; k < array.num_elements(); ++k)
          store_element(array.type().dtype, array.data(), static_cast<std::size_t>(k), Scalar{});
        return;
      }
      case StmtKind::store: {
        const HostArray& array = buffers_[stmt.buffer];
        const Scalar v = value(*stmt.value);
        store_element(array.type().dtype, array.data(), offset(stmt.buffer, stmt.subscripts), v);
        return;
      }
      case StmtKind::declare: {
        const ArrayType type{stmt.value->dtype, stmt.dims};
        locals_[stmt.local] = {type.dims,
                               std::vector<Scalar>(static_cast<std::size_t>(*type.num_elements()),
                                                   value(*stmt.value))};
        return;
      }
      case StmtKind::assign: {
        const Scalar v = value(*stmt.value);
        Local& local = locals_.at(stmt.local);
        local.elements[offset(local.dims, stmt.subscripts, 'x', stmt.local)] = v;
        return;
      }
    }
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
    return offset(loop_.buffers[buffer].type.dims, subscripts, 't', buffer);
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

  /// A scalar, or a block of them.
  struct Local {
    Dims dims;
    std::vector<Scalar> elements;
  };

  Scalar element(const Value& v) const {
    const Local& local = locals_.at(v.local);
    return local.elements[offset(local.dims, v.subscripts, 'x', v.local)];
  }

  Scalar value(const Value& v) const {
    switch (v.kind) {
      case ValueKind::constant:
        return v.scalar;
      case ValueKind::load:
        return load_element(v.dtype, buffers_[v.buffer].data(), offset(v.buffer, v.subscripts));
      case ValueKind::local:
        return element(v);
      case ValueKind::embed:
        return Scalar::of_int(DType::i64, index(v.index));
      case ValueKind::cast:
        return convert(value(*v.args[0]), v.dtype);
      case ValueKind::op:
        break;
    }
    std::vector<Scalar> args;
    for (const ValuePtr& arg : v.args) args.push_back(value(*arg));
    const auto key = std::pair(v.op, args.back().dtype);
    auto at = functions_.find(key);
    if (at == functions_.end()) at = functions_.emplace(key, op_function(v.op, key.second)).first;
    return evaluate(at->second, args);
  }

  const Loop& loop_;
  std::span<const HostArray> buffers_;
  std::span<const std::int64_t> statics_;
  std::map<VarId, std::int64_t> vars_;
  std::map<LocalId, Local> locals_;
  mutable std::map<std::pair<Op, DType>, PrimFunction> functions_;  // as they are met
};

}  // namespace

void interpret(const Loop& loop, std::span<const HostArray> buffers,
               std::span<const std::int64_t> statics) {
  Interpreter(loop, buffers, statics).block(loop.body);
}

bool same_elements(const HostArray& a, const HostArray& b) {
  if (a.type() != b.type()) return false;
  for (std::size_t k = 0; k < static_cast<std::size_t>(a.num_elements()); ++k) {
    const Scalar x = load_element(a.type().dtype, a.data(), k);
    const Scalar y = load_element(b.type().dtype, b.data(), k);
    if (!(x == y) && !(std::isnan(x.f) && std::isnan(y.f))) return false;
  }
  return true;
}

}  // namespace heddle::jit::testing
