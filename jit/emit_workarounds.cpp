// See emit_workarounds.hpp.
#include "jit/emit_workarounds.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <vector>

#include "jit/primitives.hpp"
#include "jit/rewrite.hpp"

namespace heddle::jit {
namespace {

/// As far as GCC sees it (tree_expr_maybe_real_minus_zero_p).
bool is_never_minus_zero(const Value& v) noexcept {
  switch (v.kind) {
    case ValueKind::constant:
      return !(v.scalar.f == 0 && std::signbit(v.scalar.f));
    case ValueKind::cast:
      return !is_floating(v.args[0]->dtype);
    case ValueKind::op:
      return v.op == Op::abs || (v.op == Op::where && is_never_minus_zero(*v.args[1]) &&
                                 is_never_minus_zero(*v.args[2]));
    default:
      return false;
  }
}

/// Whether `function` may return a constant, by one way through its selects, where those of its
/// arguments may be constants that `args` says.
bool may_return_constant(const PrimFunction& function, std::vector<bool> args) {
  for (const Prim& prim : function.code) {
    const std::span<const std::uint32_t> operands(prim.args.data(), num_operands(prim));
    const auto may_be = [&](std::uint32_t operand) { return args[operand]; };
    switch (prim.op) {
      case PrimOp::select:
        args.push_back(may_be(operands[1]) || may_be(operands[2]));
        break;
      case PrimOp::larger:
      case PrimOp::smaller:
        args.push_back(std::ranges::any_of(operands, may_be));
        break;
      case PrimOp::variable:  // whatever its assignments say
        args.push_back(true);
        break;
      default:
        args.push_back(std::ranges::all_of(operands, may_be));
    }
  }
  return args[function.value];
}

class SumFinder {
 public:
  ScalarSums found;

  void block(const Block& body) {
    for (const StmtPtr& stmt : body) {
      switch (stmt->kind) {
        case StmtKind::declare:
          declared_[stmt->local] = {loops_.size(), may_be_constant(*stmt->value)};
          break;
        case StmtKind::assign:
          assign(*stmt);
          break;
        case StmtKind::store:
          store(*stmt);
          break;
        case StmtKind::loop:
          loops_.push_back(stmt.get());
          block(stmt->body);
          loops_.pop_back();
          break;
        default:
          break;
      }
    }
  }

 private:
  struct Declaration {
    std::size_t depth = 0;
    bool may_be_constant = false;
  };

  void assign(const Stmt& stmt) {
    Declaration& declaration = declared_[stmt.local];
    declaration.may_be_constant = false;
    const std::size_t loops = loops_.size() - declaration.depth;
    if (loops == 0 || !is_floating(stmt.value->dtype)) return;
    bool is_sum = false;
    walk(*stmt.value,
         [&](const Value& v) { is_sum |= v.kind == ValueKind::local && v.local == stmt.local; });
    if (is_sum && (loops >= 2 || adds_conditionally(*stmt.value))) found.locals.insert(stmt.local);
  }

  void store(const Stmt& stmt) {
    const auto inner = std::ranges::find_if(loops_.rbegin(), loops_.rend(), [](const Stmt* loop) {
      return loop->mark != LoopMark::unroll;
    });
    if (inner == loops_.rend() || !is_floating(stmt.value->dtype)) return;
    const bool moves = std::ranges::any_of(stmt.subscripts, [&](const Affine& index) {
      return std::ranges::any_of(index.terms, [&](const AffineTerm& term) {
        return term.kind == AffineTerm::Kind::loop && term.id == (*inner)->var;
      });
    });
    bool is_sum = false;
    walk(*stmt.value, [&](const Value& v) {
      is_sum |=
          v.kind == ValueKind::load && v.buffer == stmt.buffer && v.subscripts == stmt.subscripts;
    });
    if (!moves && is_sum && adds_conditionally(*stmt.value)) found.buffers.insert(stmt.buffer);
  }

  bool adds_conditionally(const Value& value) {
    bool found_one = false;
    walk(value, [&](const Value& v) {
      if (v.kind != ValueKind::op || (v.op != Op::add && v.op != Op::sub)) return;
      found_one |= std::ranges::any_of(v.args, [&](const ValuePtr& arg) {
        return arg->kind != ValueKind::constant && may_be_constant(*arg);
      });
    });
    return found_one;
  }

  bool may_be_constant(const Value& v) {
    switch (v.kind) {
      case ValueKind::constant:
        return true;
      case ValueKind::local:
        return declared_[v.local].may_be_constant;
      case ValueKind::load:
      case ValueKind::embed:
        return false;
      case ValueKind::op:
      case ValueKind::cast:
        break;
    }
    std::vector<bool> args;
    for (const ValuePtr& arg : v.args) args.push_back(may_be_constant(*arg));
    return may_return_constant(v.kind == ValueKind::op ? op_function(v.op, v.args.back()->dtype)
                                                       : cast_function(v.args[0]->dtype, v.dtype),
                               std::move(args));
  }

  std::vector<const Stmt*> loops_;  // around, outermost first
  std::map<LocalId, Declaration> declared_;
};

}  // namespace

bool subtracts_unsigned_zero(const Value& value) noexcept {
  return value.kind == ValueKind::op && value.op == Op::sub && is_floating(value.dtype) &&
         is_never_minus_zero(*value.args[1]);
}

ScalarSums scalar_sums(const Block& body) {
  SumFinder finder;
  finder.block(body);
  return std::move(finder.found);
}

}  // namespace heddle::jit
