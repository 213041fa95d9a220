// Printing of programs and names made from their comments.
#include "jit/program_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "jit/expr.hpp"

namespace heddle::jit {
namespace {

class ProgramPrinter {
 public:
  std::string print(const Program& program) {
    std::string text =
        fmt::format("program {}\n", program.name().empty() ? "(nameless)" : program.name());
    for (const Statement& statement : program.statements())
      text += "  " + line(statement.node()) + "\n";
    return text;
  }

 private:
  std::string line(const StatementNode& node) {
    if (!node.target) return "# " + node.comment;
    names_.clear();
    const std::string target = access(*node.target, node.subscripts);
    const std::string value = expr(*node.value);
    if (!node.accumulate) return fmt::format("{} = {}", target, value);
    const std::string_view op = op_info(*node.accumulate).name;
    if (node.initialize_neutral) return fmt::format("{} = reduce.{}({})", target, op, value);
    return fmt::format("{} {}= {}", target, symbol(*node.accumulate, op), value);
  }

  static std::string_view symbol(Op op, std::string_view name) {
    switch (op) {
      case Op::add:
        return "+";
      case Op::sub:
        return "-";
      case Op::mul:
        return "*";
      case Op::div:
        return "/";
      case Op::and_:
        return "&";
      case Op::or_:
        return "|";
      case Op::lt:
        return "<";
      case Op::le:
        return "<=";
      case Op::eq:
        return "==";
      case Op::ne:
        return "!=";
      case Op::mod:
        return "%";
      default:
        return name;
    }
  }

  std::string index_name(const Index& index) {
    if (!index.label().empty()) return index.label();
    const auto at = names_.try_emplace(index.id(), fmt::format("i{}", names_.size())).first;
    return at->second;
  }

  std::string subscript(const Subscript& s) {
    std::string text;
    for (const auto& term : s.terms()) {
      const std::string id = std::holds_alternative<Index>(term.index)
                                 ? index_name(std::get<Index>(term.index))
                                 : std::get<StaticIndex>(term.index).label();
      const bool minus = term.coefficient < 0;
      if (!text.empty() || minus) text += minus ? (text.empty() ? "-" : " - ") : " + ";
      const auto size = minus ? 0u - static_cast<std::uint64_t>(term.coefficient)
                              : static_cast<std::uint64_t>(term.coefficient);
      text += size == 1 ? id : fmt::format("{}*{}", size, id);
    }
    if (text.empty()) return std::to_string(s.constant());
    if (s.constant() > 0) return fmt::format("{} + {}", text, s.constant());
    if (s.constant() < 0)
      return fmt::format("{} - {}", text, 0u - static_cast<std::uint64_t>(s.constant()));
    return text;
  }

  std::string access(const Tensor& tensor, const std::vector<Subscript>& subscripts) {
    std::string inside;
    for (const Subscript& s : subscripts) inside += (inside.empty() ? "" : ", ") + subscript(s);
    return fmt::format("{}({})", tensor.label(), inside);
  }

  std::string expr(const ExprNode& node) {
    switch (node.kind) {
      case ExprKind::constant:
        return is_floating(node.dtype)      ? fmt::format("{}", node.scalar.f)
               : node.dtype == DType::bool_ ? (node.scalar.i != 0 ? "true" : "false")
               : node.dtype == DType::u64
                   ? fmt::format("{}", static_cast<std::uint64_t>(node.scalar.i))
                   : fmt::format("{}", node.scalar.i);
      case ExprKind::read:
        return access(*node.tensor, node.subscripts);
      case ExprKind::merge:
        return fmt::format("merge({})", access(*node.tensor, node.subscripts));
      case ExprKind::embed:
        return fmt::format("embed({})", subscript(node.subscripts[0]));
      case ExprKind::cast:
        return fmt::format("{}({})", name(node.dtype), expr(*node.args[0]));
      case ExprKind::op:
        break;
    }
    const std::string_view op = op_info(node.op).name;
    const std::string_view infix = symbol(node.op, op);
    if (node.args.size() == 2 && infix != op) {
      return fmt::format("({} {} {})", expr(*node.args[0]), infix, expr(*node.args[1]));
    }
    std::string inside;
    for (const auto& arg : node.args) inside += (inside.empty() ? "" : ", ") + expr(*arg);
    return fmt::format("{}({})", op, inside);
  }

  std::map<std::uint64_t, std::string> names_;  // of indices without a label, per statement
};

std::string identifier(const std::string& comment) {
  std::string text;
  for (const char c : comment) {
    const bool keep = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (keep) {
      text += c;
    } else if (!text.empty() && text.back() != '_') {
      text += '_';
    }
  }
  while (text.ends_with('_')) text.pop_back();
  return text;
}

}  // namespace

std::string print_program(const Program& program) { return ProgramPrinter().print(program); }

std::string name_from_comments(const Program& program) {
  std::vector<std::string> parts;
  for (const Statement& statement : program.statements()) {
    if (statement.node().target) continue;
    std::string part = identifier(statement.node().comment);
    if (!part.empty() && (parts.empty() || parts.back() != part)) parts.push_back(std::move(part));
  }
  if (parts.empty()) return {};
  std::string joined = parts.front();
  std::size_t shared_start = 0;
  std::size_t shared_end = 0;
  const auto all_share = [&](const auto& same) { return std::ranges::all_of(parts, same); };
  if (parts.size() > 1) {
    const std::string& first = parts.front();
    const std::size_t shortest = std::ranges::min(parts, {}, &std::string::size).size();
    while (shared_start < shortest && all_share([&](const std::string& p) {
             return p[shared_start] == first[shared_start];
           })) {
      ++shared_start;
    }
    while (shared_start + shared_end < shortest && all_share([&](const std::string& p) {
             return p[p.size() - 1 - shared_end] == first[first.size() - 1 - shared_end];
           })) {
      ++shared_end;
    }
    for (std::size_t k = 1; k < parts.size(); ++k) {
      const std::string rest =
          parts[k].substr(shared_start, parts[k].size() - shared_start - shared_end);
      joined = joined.substr(0, joined.size() - (k == 1 ? shared_end : 0)) + "_then_" + rest;
    }
    joined += first.substr(first.size() - shared_end);
  }
  // A C symbol is made of it: bounded.
  return joined.substr(0, 120);
}

}  // namespace heddle::jit
