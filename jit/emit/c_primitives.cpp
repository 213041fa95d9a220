// See emit/c_primitives.hpp. Functions are straight-line; the only loop is in integer powers. They
// are always inlined, as a call would keep the surrounding loop from becoming vector code.
#include "jit/emit/c_primitives.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>

#include "jit/emit/emit.hpp"

namespace heddle::jit {
namespace {

/// "0x1.8p+0": fmt 9 prints hexadecimal through the C library, with the host's decimal point.
std::string hexadecimal(double value) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.begin(), digits.end(), value, std::chars_format::hex).ptr;
  return fmt::format("0x{}", std::string_view(digits.begin(), end));
}

std::string float_literal(DType type, double value) {
  const char* suffix = type == DType::f32 ? "f" : "";
  if (std::isnan(value)) return fmt::format("__builtin_nan{}(\"\")", suffix);
  const char* sign = std::signbit(value) ? "-" : "";
  const std::string magnitude = std::isinf(value) ? fmt::format("__builtin_inf{}()", suffix)
                                                  : hexadecimal(std::fabs(value)) + suffix;
  return *sign != 0 ? fmt::format("({}{})", sign, magnitude) : magnitude;
}

std::string integer_literal(DType type, std::int64_t value) {
  if (type == DType::u64) return fmt::format("{}ull", static_cast<std::uint64_t>(value));
  if (type == DType::u32) return fmt::format("{}u", value);
  if (type == DType::i64) {
    if (value == std::numeric_limits<std::int64_t>::min()) return "(-9223372036854775807ll - 1)";
    return value < 0 ? fmt::format("({}ll)", value) : fmt::format("{}ll", value);
  }
  if (type == DType::i32 && value == std::numeric_limits<std::int32_t>::min())
    return "(-2147483647 - 1)";
  if (type == DType::i32) return value < 0 ? fmt::format("({})", value) : fmt::format("{}", value);
  return fmt::format("(({}){})", c_type(type), value);
}

/// The expression of an instruction that has a value.
std::string expression(const Prim& prim, const std::vector<std::string>& args) {
  switch (prim.op) {
    case PrimOp::constant:
      return c_literal(prim.scalar);
    case PrimOp::neg:
      return fmt::format("(-{})", args[0]);
    case PrimOp::larger:
      return fmt::format("({0} < {1} ? {1} : {0})", args[0], args[1]);
    case PrimOp::smaller:
      return fmt::format("({1} < {0} ? {1} : {0})", args[0], args[1]);
    case PrimOp::select:
      return fmt::format("({} ? {} : {})", args[0], args[1], args[2]);
    case PrimOp::cast:
      return fmt::format("(({}){})", c_type(prim.type), args[0]);
    case PrimOp::variable:
      return args[0];
    case PrimOp::call: {
      std::string list;
      for (const std::string& arg : args) list += list.empty() ? arg : ", " + arg;
      return fmt::format("{}({})", prim.function, list);
    }
    default:
      return fmt::format("({} {} {})", args[0], c_infix(prim.op), args[1]);
  }
}

}  // namespace

std::string_view c_infix(PrimOp op) noexcept {
  switch (op) {
    case PrimOp::add:
      return "+";
    case PrimOp::sub:
      return "-";
    case PrimOp::mul:
      return "*";
    case PrimOp::div:
      return "/";
    case PrimOp::rem:
      return "%";
    case PrimOp::bit_and:
      return "&";
    case PrimOp::bit_or:
      return "|";
    case PrimOp::bit_xor:
      return "^";
    case PrimOp::shl:
      return "<<";
    case PrimOp::shr:
      return ">>";
    case PrimOp::lt:
      return "<";
    case PrimOp::le:
      return "<=";
    case PrimOp::eq:
      return "==";
    default:
      return "!=";
  }
}

std::string_view c_type(DType type) noexcept { return name(machine_type(type)); }

std::string_view c_bare(std::string_view expression) noexcept {
  if (!expression.starts_with('(')) return expression;
  int depth = 0;
  for (std::size_t k = 0; k < expression.size(); ++k) {
    if (expression[k] == '(') ++depth;
    if (expression[k] == ')' && --depth == 0) {
      const bool outer = k + 1 == expression.size();
      return outer ? expression.substr(1, k - 1) : expression;
    }
  }
  return expression;
}

std::string c_literal(const Scalar& scalar) {
  switch (scalar.dtype) {
    case DType::f16:
      return integer_literal(DType::u16, Float16(static_cast<float>(scalar.f)).bits);
    case DType::bf16:
      return integer_literal(DType::u16, BFloat16(static_cast<float>(scalar.f)).bits);
    case DType::f32:
    case DType::f64:
      return float_literal(scalar.dtype, scalar.f);
    default:
      return integer_literal(scalar.dtype, scalar.i);
  }
}

std::string c_literals(std::span<const float> entries) {
  std::string text;
  for (const float each : entries)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", float_literal(DType::f32, double{each}));
  return text;
}

std::string CPrimitives::apply(PrimFunction function, const std::vector<std::string>& args) {
  if (function.is_pass_through()) return args[function.value];
  if (function.is_single()) return expression(function.code[0], args);
  const auto [at, is_new] = used_.try_emplace(function.name);
  if (is_new) at->second = define(function);
  std::string list;
  for (const std::string& arg : args) list += list.empty() ? arg : ", " + arg;
  return fmt::format("{}({})", function.name, list);
}

std::string CPrimitives::define(const PrimFunction& function) {
  std::vector<std::string> names;
  std::string text = fmt::format("INLINE {} {}(", c_type(function.result), function.name);
  for (std::size_t k = 0; k < function.params.size(); ++k) {
    names.push_back(fmt::format("{}", "abc"[k]));
    text += fmt::format("{}{} {}", k > 0 ? ", " : "", c_type(function.params[k]), names[k]);
  }
  text += ") {\n";
  std::string indent = "  ";
  const auto line = [&](const std::string& code) { text += indent + code + '\n'; };
  for (const Prim& prim : function.code) {
    std::vector<std::string> args;
    for (std::uint32_t k = 0; k < num_operands(prim); ++k) args.push_back(names[prim.args[k]]);
    std::string result = fmt::format("v{}", names.size());
    switch (prim.op) {
      case PrimOp::constant:
        result = c_literal(prim.scalar);
        break;
      case PrimOp::bits: {
        const DType from = function.type_of(prim.args[0]);
        line(fmt::format("const union {{ {} from; {} to; }} {} = {{{}}};", c_type(from),
                         c_type(prim.type), result, args[0]));
        result += ".to";
        break;
      }
      case PrimOp::table:
        line(fmt::format("static const f32 {}[{}] = {{{}}};", result, prim.entries.size(),
                         c_literals(prim.entries)));
        break;
      case PrimOp::lookup: {
        const std::size_t entries =
            function.code[prim.args[0] - function.params.size()].entries.size();
        line(fmt::format("const f32 {} = {}[{} & {}];", result, args[0], args[1], entries - 1));
        break;
      }
      case PrimOp::assign:
        line(fmt::format("{} = {};", args[0], args[1]));
        break;
      case PrimOp::loop:
        line("for (;;) {");
        indent = "    ";
        break;
      case PrimOp::leave_if:
        line(fmt::format("if ({}) break;", args[0]));
        break;
      case PrimOp::end_loop:
        indent = "  ";
        line("}");
        break;
      default:
        if (prim.op == PrimOp::call && !prim.function.starts_with("__builtin_")) {
          const std::string_view type = c_type(prim.type);
          library_[std::string(prim.function)] =
              fmt::format("{} {}({}{});\n", type, prim.function, type,
                          num_operands(prim) == 2 ? fmt::format(", {}", type) : "");
        }
        line(fmt::format("{}{} {} = {};", prim.op == PrimOp::variable ? "" : "const ",
                         c_type(prim.type), result, c_bare(expression(prim, args))));
    }
    names.push_back(std::move(result));
  }
  text += fmt::format("  return {};\n}}\n", names[function.value]);
  return text;
}

std::string CPrimitives::declarations() const {
  std::string text;
  for (const auto& [name, declaration] : library_) text += declaration;
  return text;
}

std::string CPrimitives::definitions() const {
  std::string text;
  for (const auto& [name, definition] : used_) text += definition;
  return text;
}

}  // namespace heddle::jit
