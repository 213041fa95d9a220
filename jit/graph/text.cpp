// Printing and parsing of graphs.
#include "jit/graph/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>

#include "heddle/status.hpp"
#include "jit/loop/scanner.hpp"
#include "jit/loop/text.hpp"

namespace heddle::jit {
namespace {

/// A string in quotes; bytes that are not printable ASCII, quotes and backslashes become a
/// backslash and two hex digits.
std::string quoted_message(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f || c == '"' || c == '\\') {
      fmt::format_to(std::back_inserter(result), "\\{:02x}", byte);
    } else {
      result += c;
    }
  }
  return result + '"';
}

class GraphPrinter {
 public:
  GraphPrinter(const GraphState& graph, bool names)
      : graph_(graph), names_(names), numbers_(graph.nodes.size()) {}

  std::string print() {
    text_ = "heddle-graph 1\n";
    const std::vector<bool> live = graph_.live();
    for (const NodeId id : graph_.parameters) node(id);
    for (NodeId id = 0; id < live.size(); ++id) {
      if (live[id] && graph_.node(id).kind != NodeKind::parameter) node(id);
    }
    for (const auto& [id, message] : graph_.marks)
      put("mark v{} {}\n", numbers_[id], quoted_message(message));
    for (const NodeId id : graph_.keeps) {
      if (live[id]) put("keep v{}\n", numbers_[id]);
    }
    text_ += "results";
    for (std::size_t k = 0; k < graph_.results.size(); ++k)
      put("{} v{}", k == 0 ? "" : ",", numbers_[graph_.results[k]]);
    return std::move(text_) + '\n';
  }

 private:
  template <class... A>
  void put(fmt::format_string<A...> format, A&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<A>(args)...);
  }

  void node(NodeId id) {
    const GraphNode& node = graph_.node(id);
    numbers_[id] = next_++;
    put("v{} = {}", numbers_[id], kind_info(node.kind).name);
    if (has_op(node.kind)) put(".{}", op_info(node.op).name);
    if (!node.args.empty()) {
      for (std::size_t k = 0; k < node.args.size(); ++k)
        put("{}v{}", k == 0 ? "(" : ", ", numbers_[node.args[k]]);
      text_ += ')';
    }
    for (std::size_t k = 0; k < node.fields.size() && node.kind != NodeKind::parameter; ++k)
      put(" {}=[{}]", kind_info(node.kind).fields[k], fmt::join(node.fields[k], ","));
    if (node.kind == NodeKind::constant) put(" {}", jit::print(node.scalar));
    put(" {}", node.type.to_string());
    comment(id);
    text_ += '\n';
  }

  /// The name of a parameter, or the scope of a node, on one line.
  void comment(NodeId id) {
    if (!names_) return;
    const GraphNode& node = graph_.node(id);
    std::string text = node.kind == NodeKind::parameter
                           ? graph_.parameter_names[static_cast<std::size_t>(node.fields[0][0])]
                           : graph_.scopes[graph_.nodes[id].scope];
    std::ranges::replace_if(text, [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
    if (!text.empty()) put("  # {}", text);
  }

  const GraphState& graph_;
  const bool names_;
  std::vector<NodeId> numbers_;
  NodeId next_ = 0;
  std::string text_;
};

class GraphParser : Scanner {
 public:
  GraphParser(std::string_view text, std::string name)
      : Scanner(text, "graph text"), graph_(std::make_shared<GraphState>(std::move(name))) {}

  std::shared_ptr<GraphState> parse() {
    expect("heddle-graph");
    if (!accept("1")) fail("'1', the version that this heddle reads");
    while (sees_id('v')) node();
    while (accept("mark")) {
      const NodeId id = known("the marked node");
      graph_->marks.emplace_back(id, message());
    }
    while (accept("keep")) graph_->keeps.insert(known("the kept node"));
    expect("results");
    do {
      graph_->results.push_back(known("a result"));
    } while (accept(","));
    skip(true);
    if (at_ != text_.size()) fail("end of text");
    graph_->finished = true;
    return graph_;
  }

 private:
  NodeId known(std::string_view what) {
    skip(true);
    const std::size_t start = at_;
    const std::uint32_t number = id('v', what);
    if (number >= ids_.size()) {
      at_ = start;
      fail(ids_.empty()
               ? fmt::format("{}, and there is no node before here", what)
               : fmt::format("{} from v0 to v{}, those before here", what, ids_.size() - 1));
    }
    return ids_[number];
  }

  NodeKind kind() {
    const std::string_view text = word();
    const auto kinds = all_kinds();
    const auto at = std::ranges::find(kinds, text, &KindInfo::name);
    if (at == kinds.end()) fail("a kind of node such as element");
    at_ += text.size();
    return static_cast<NodeKind>(at - kinds.begin());
  }

  Op op() {
    expect(".");
    const std::string_view text = word();
    const auto found = parse_op(text);
    if (!found) fail("an operation such as add");
    at_ += text.size();
    return *found;
  }

  void node() {
    skip(true);
    const std::size_t first = at_;
    if (id('v', "a node such as v0") != ids_.size()) {
      at_ = first;
      fail(fmt::format("nodes in order, after {} now", ids_.size()));
    }
    expect("=");
    const std::size_t start = at_;
    GraphNode node;
    node.kind = kind();
    if (has_op(node.kind)) node.op = op();
    if (accept("(")) {
      do {
        node.args.push_back(known("an operand"));
      } while (accept(","));
      expect(")");
    }
    fields(node);
    if (node.kind == NodeKind::constant) node.scalar = scalar();
    node.type.dtype = dtype();
    expect("[");
    node.type.dims = extents();
    const std::string name = comment();
    if (node.kind == NodeKind::parameter) {
      graph_->parameter_names.push_back(
          name.empty() ? fmt::format("arg{}", graph_->parameters.size()) : name);
    } else {
      graph_->open_scopes.assign(1, {nullptr, graph_->scope_at(name)});
    }
    add(std::move(node), start);
  }

  /// The name or scope printed behind a node; empty without a comment.
  std::string comment() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    if (!text_.substr(at_).starts_with("# ")) return {};
    const std::size_t from = at_ + 2;
    at_ = std::min(text_.find('\n', from), text_.size());
    return std::string(text_.substr(from, at_ - from));
  }

  void fields(GraphNode& node) {
    if (node.kind == NodeKind::parameter) {
      node.fields = {{static_cast<std::int64_t>(graph_->parameters.size())}};
      return;
    }
    for (const std::string_view name : kind_info(node.kind).fields) {
      expect(name);
      expect("=");
      expect("[");
      Numbers numbers;
      while (!accept("]")) {
        if (!numbers.empty()) expect(",");
        numbers.push_back(number<std::int64_t>("a number"));
      }
      node.fields.push_back(std::move(numbers));
    }
  }

  /// Adds a node with the checks of the builder, and checks that the given type is the node's type.
  void add(GraphNode node, std::size_t start) {
    const ArrayType type = node.type;
    if (node.kind == NodeKind::constant && node.scalar.dtype != type.dtype) {
      at_ = start;
      fail(fmt::format("a constant of {}", name(type.dtype)));
    }
    const bool is_parameter = node.kind == NodeKind::parameter;
    NodeId added = 0;
    try {
      added = graph_->add(std::move(node), std::source_location());
    } catch (const Error& error) {
      at_ = start;
      fail(fmt::format("a node that fits ({})", error.status().message()));
    }
    if (graph_->type(added) != type) {
      at_ = start;
      fail(fmt::format("type {} for this node", graph_->type(added).to_string()));
    }
    if (is_parameter) graph_->parameters.push_back(added);
    ids_.push_back(added);
  }

  std::string message() {
    expect("\"");
    std::string text;
    while (true) {
      if (at_ >= text_.size()) fail("the end of a message, '\"'");
      const char c = text_[at_++];
      if (c == '"') return text;
      if (c != '\\') {
        text += c;
        continue;
      }
      int byte = 0;
      const auto [end, error] = std::from_chars(
          text_.data() + at_, text_.data() + std::min(at_ + 2, text_.size()), byte, 16);
      if (error != std::errc() || end != text_.data() + at_ + 2) fail("two hex digits");
      at_ += 2;
      text += static_cast<char>(byte);
    }
  }

  std::shared_ptr<GraphState> graph_;
  std::vector<NodeId> ids_;  // by number
};

}  // namespace

std::string print_graph(const GraphState& graph, bool names) {
  return GraphPrinter(graph, names).print();
}
std::shared_ptr<GraphState> parse_graph(std::string_view text, std::string name) {
  return GraphParser(text, std::move(name)).parse();
}
std::string hash_graph(const GraphState& graph) { return digest(print_graph(graph, false)); }

}  // namespace heddle::jit
