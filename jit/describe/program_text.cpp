// Prints programs, and makes names of programs from their comments.
#include "jit/describe/program_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "files/ascii.hpp"
#include "jit/describe/expr.hpp"
#include "jit/system/inside.hpp"
#include "scheduler/threads/floating.hpp"

namespace heddle::jit {
namespace {

/// Trees of at most this many nodes are printed as trees, without names for shared parts.
constexpr std::uint64_t tree_nodes_max = 500;

/// Text that holds at most `bytes_max` bytes, and drops the rest.
class CutText {
 public:
  explicit CutText(std::size_t bytes_max) : bytes_max_(bytes_max) {}

  void put(std::string_view part) {
    is_cut_ = is_cut_ || part.size() > bytes_max_ - text_.size();
    text_ += part.substr(0, bytes_max_ - text_.size());
  }
  [[nodiscard]] bool is_cut() const noexcept { return is_cut_; }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  std::size_t bytes_max_;
  std::string text_;
  bool is_cut_ = false;
};

class ProgramPrinter {
 public:
  explicit ProgramPrinter(std::size_t bytes_max) : out_(bytes_max) {}

  std::string program(const Program& program) {
    out_.put(fmt::format("program {}\n", program.name().empty() ? "(nameless)" : program.name()));
    const std::vector<Statement>& all = program.statements();
    std::size_t begun = 0;
    for (; begun < all.size() && !out_.is_cut(); ++begun) {
      const StatementNode& node = *Inside::of(all[begun]);
      indices_.clear();
      parts_.clear();
      if (node.target) name_shared_parts(node);
      out_.put("  ");
      statement(node);
      out_.put("\n");
    }
    if (!out_.is_cut()) return out_.take();
    return out_.take() + fmt::format("\n  ... (cut: in statement {} of {})\n", begun, all.size());
  }

  std::string in_message(const StatementNode& node) {
    statement(node);
    return taken();
  }
  std::string in_message(const ExprNode& node) {
    expr(node);
    return taken();
  }
  std::string in_message(const Subscript& s) {
    subscript(s);
    return taken();
  }

 private:
  std::string taken() { return out_.is_cut() ? out_.take() + "..." : out_.take(); }

  void statement(const StatementNode& node) {
    if (!node.target) {
      out_.put("# ");
      return out_.put(node.comment);
    }
    access(*node.target, node.subscripts);
    const std::string_view op = node.accumulate ? op_info(*node.accumulate).name : "";
    if (node.sorts) {
      out_.put(" = sorted(");
    } else if (!node.accumulate) {
      out_.put(" = ");
    } else if (node.initialize_neutral) {
      out_.put(fmt::format(" = reduce.{}(", op));
    } else {
      out_.put(fmt::format(" {}= ", symbol(*node.accumulate, op)));
    }
    expr(*node.value);
    if (node.initialize_neutral || node.sorts) out_.put(")");
  }

  /// In a large tree, each operation with several uses gets a name, and a line before the
  /// statement.
  void name_shared_parts(const StatementNode& statement) {
    const ExprNode& root = *statement.value;
    std::unordered_map<const ExprNode*, std::uint64_t> sizes;  // nodes of each tree
    std::unordered_map<const ExprNode*, std::size_t> uses;
    std::vector<const ExprNode*> in_order;
    walk(root, [&](const ExprNode& node) {
      std::uint64_t& size = sizes[&node];
      size = 1;
      const auto add = [&](const ExprNode& part) {
        size = std::min(size + sizes.at(&part), tree_nodes_max + 1);
        ++uses[&part];
      };
      for (const auto& arg : node.args) add(*arg);
      each_position(node.subscripts, add);
      if (!node.args.empty()) in_order.push_back(&node);
    });
    if (sizes.at(&root) <= tree_nodes_max) return;
    // Numbers the unlabelled indices from the left side on, as in statements without shared parts.
    for (const Subscript& s : statement.subscripts) {
      if (const auto& position = Inside::position_of(s)) {
        walk(*position, [this](const ExprNode& node) { name_indices(node.subscripts); });
      }
      name_indices({s});
    }
    for (const ExprNode* node : in_order) {
      if (out_.is_cut()) return;
      if (uses[node] < 2) continue;
      std::string name = fmt::format("e{}", parts_.size());
      out_.put(fmt::format("  let {} = ", name));
      expr(*node);
      out_.put("\n");
      parts_.emplace(node, std::move(name));
    }
  }

  void name_indices(const std::vector<Subscript>& subscripts) {
    for (const Subscript& s : subscripts) {
      for (const auto& term : s.terms()) {
        if (const auto* index = std::get_if<Index>(&term.index)) index_name(*index);
      }
    }
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
    return indices_.try_emplace(index.id(), fmt::format("i{}", indices_.size())).first->second;
  }

  void subscript(const Subscript& s) {
    const auto& position = Inside::position_of(s);
    if (!position) return affine(s);
    out_.put("at(");
    expr(*position);
    out_.put(")");
    if (s.terms().empty() && s.constant() == 0) return;
    out_.put(" + ");
    affine(s);
  }

  void affine(const Subscript& s) {
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
    if (text.empty()) {
      text = std::to_string(s.constant());
    } else if (s.constant() > 0) {
      text += fmt::format(" + {}", s.constant());
    } else if (s.constant() < 0) {
      text += fmt::format(" - {}", 0u - static_cast<std::uint64_t>(s.constant()));
    }
    out_.put(text);
  }

  void access(const Tensor& tensor, const std::vector<Subscript>& subscripts) {
    out_.put(tensor.label());
    out_.put("(");
    for (std::size_t k = 0; k < subscripts.size(); ++k) {
      if (k > 0) out_.put(", ");
      subscript(subscripts[k]);
    }
    out_.put(")");
  }

  /// Adds ".0" to a literal whose type is still open, to distinguish the literal from an integer:
  /// exp(1.0) is f64, exp(1) is f32.
  static std::string fraction(const ExprNode& node) {
    const sched::DefaultFloating floating;
    std::string text = fmt::format("{}", node.scalar.f);
    if (node.weak && text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
    return text;
  }

  void constant(const ExprNode& node) {
    out_.put(is_floating(node.dtype)      ? fraction(node)
             : node.dtype == DType::bool_ ? (node.scalar.i != 0 ? "true" : "false")
             : node.dtype == DType::u64
                 ? fmt::format("{}", static_cast<std::uint64_t>(node.scalar.i))
                 : fmt::format("{}", node.scalar.i));
  }

  /// Returns early once the text is full: n nodes that share operands may print as a tree of 2^n
  /// parts.
  void expr(const ExprNode& node) {
    if (out_.is_cut()) return;
    if (const auto part = parts_.find(&node); part != parts_.end()) {
      out_.put(part->second);
      return;
    }
    switch (node.kind) {
      case ExprKind::constant:
        return constant(node);
      case ExprKind::read:
        return access(*node.tensor, node.subscripts);
      case ExprKind::merge:
        out_.put("merge(");
        access(*node.tensor, node.subscripts);
        return out_.put(")");
      case ExprKind::embed:
        out_.put("embed(");
        subscript(node.subscripts[0]);
        return out_.put(")");
      case ExprKind::cast:
        return call(name(node.dtype), node);
      case ExprKind::op:
        break;
    }
    const std::string_view op = op_info(node.op).name;
    const std::string_view infix = symbol(node.op, op);
    if (node.args.size() != 2 || infix == op) return call(op, node);
    out_.put("(");
    expr(*node.args[0]);
    out_.put(" ");
    out_.put(infix);
    out_.put(" ");
    expr(*node.args[1]);
    out_.put(")");
  }

  void call(std::string_view function, const ExprNode& node) {
    out_.put(function);
    out_.put("(");
    for (std::size_t k = 0; k < node.args.size(); ++k) {
      if (k > 0) out_.put(", ");
      expr(*node.args[k]);
    }
    out_.put(")");
  }

  CutText out_;
  // State of the current statement: names of unlabelled indices, and of named parts.
  std::unordered_map<std::uint64_t, std::string> indices_;
  std::unordered_map<const ExprNode*, std::string> parts_;
};

std::string identifier(const std::string& comment) {
  std::string text;
  for (const char c : comment) {
    if (files::is_letter_or_digit(c)) {
      text += c;
    } else if (!text.empty() && text.back() != '_') {
      text += '_';
    }
  }
  while (text.ends_with('_')) text.pop_back();
  return text;
}

}  // namespace

std::string print_program(const Program& program, std::size_t bytes_max) {
  return ProgramPrinter(bytes_max).program(program);
}
std::string print_statement(const StatementNode& node) {
  return ProgramPrinter(message_text_max).in_message(node);
}
std::string print_expr(const ExprNode& node) {
  return ProgramPrinter(message_text_max).in_message(node);
}
std::string print_subscript(const Subscript& subscript) {
  return ProgramPrinter(message_text_max).in_message(subscript);
}

std::string name_from_comments(const Program& program) {
  std::vector<std::string> parts;
  for (const Statement& statement : program.statements()) {
    if (Inside::of(statement)->target) continue;
    std::string part = identifier(Inside::of(statement)->comment);
    if (!part.empty() && (parts.empty() || parts.back() != part)) parts.push_back(std::move(part));
  }
  if (parts.empty()) return {};
  std::size_t shared_start = 0;
  std::size_t shared_end = 0;
  const auto all_share = [&](const auto& same) { return std::ranges::all_of(parts, same); };
  const std::string& first = parts.front();
  if (parts.size() > 1) {
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
  }
  constexpr std::size_t name_max = 120;  // the name becomes part of a C symbol
  std::string joined = first.substr(0, first.size() - shared_end);
  for (std::size_t k = 1; k < parts.size() && joined.size() < name_max; ++k) {
    joined += "_then_";
    joined += parts[k].substr(shared_start, parts[k].size() - shared_start - shared_end);
  }
  joined += first.substr(first.size() - shared_end);
  return joined.substr(0, name_max);
}

}  // namespace heddle::jit
