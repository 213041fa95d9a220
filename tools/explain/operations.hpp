// The operations that program files may call, by their names in those files.
#pragma once

#include <map>
#include <span>
#include <string_view>

#include "heddle/program.hpp"

namespace heddle::tools {

using Unary = Expr (*)(const Expr&);
using Binary = Expr (*)(const Expr&, const Expr&);
using Ternary = Expr (*)(const Expr&, const Expr&, const Expr&);

[[nodiscard]] const std::map<std::string_view, Unary>& unary_calls();
[[nodiscard]] const std::map<std::string_view, Binary>& binary_calls();
[[nodiscard]] const std::map<std::string_view, Ternary>& ternary_calls();
/// Reductions of a whole right side.
[[nodiscard]] const std::map<std::string_view, Reduction (*)(Expr)>& reductions();

struct Operator {
  std::string_view symbol;
  int precedence;  ///< higher binds tighter
  Binary make;
};
[[nodiscard]] std::span<const Operator> operators();

}  // namespace heddle::tools
