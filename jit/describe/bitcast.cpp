// bitcast() of expressions.
#include "jit/describe/bitcast.hpp"

#include "heddle/expr.hpp"
#include "heddle/status.hpp"
#include "jit/describe/expr.hpp"
#include "jit/describe/program_text.hpp"
#include "jit/system/inside.hpp"
#include "jit/value/element.hpp"

namespace heddle {
namespace {

struct ExprMaker {
  static const Expr& at(const Expr& x) { return x; }
  static Expr apply(jit::Op op, const Expr& x) { return jit::apply_op(op, {x}); }
};

}  // namespace

Expr bitcast(const Expr& x, DType to) {
  jit::require_dtype("bitcast", to);
  const jit::ExprNode& node = *Inside::of(x);
  if (!jit::can_bitcast(node.dtype, to)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("'bitcast' of {} ({}) to {}: {}", jit::print_expr(node),
                            node.weak ? "literal" : name(node.dtype), name(to),
                            jit::bitcast_cure(node.dtype, to)));
  }
  // The cast fixes the type of a literal: a literal is no longer weak.
  return jit::Bitcast<Expr, ExprMaker>({}).make(cast(x, node.dtype), node.dtype, to);
}

}  // namespace heddle
