// See describe/form.hpp.
#include "jit/describe/form.hpp"

#include <algorithm>
#include <bit>
#include <unordered_map>

#include "jit/describe/expr.hpp"
#include "jit/system/inside.hpp"

namespace heddle::jit {
namespace {

void add_type(FormWriter& out, const ArrayType& type) {
  out.add(static_cast<std::uint64_t>(type.dtype)).add(type.dims.size());
  for (const std::int64_t extent : type.dims) out.add_signed(extent);
}

class StatementWriter {
 public:
  explicit StatementWriter(const StatementNode& node) : node_(node) {}

  StatementForm write() {
    out_.add(node_.target ? 1 : 0);
    if (node_.target) {
      assignment();
    } else {
      out_.add_bytes(node_.comment);
    }
    form_.bytes = out_.take();
    return std::move(form_);
  }

 private:
  void assignment() {
    out_.add(node_.space.size());
    for (const SpaceAxis& axis : node_.space) out_.add_signed(axis.extent).add(axis.reduced);
    walk(node_, [this](const ExprNode& node) { expr(node); });
    out_.add(end_of_expr).add(numbers_.at(node_.value.get())).add(tensor(*node_.target));
    subscripts(node_.subscripts);
    out_.add(node_.accumulate ? static_cast<std::uint64_t>(*node_.accumulate) + 1 : 0);
    out_.add(node_.initialize_neutral).add(node_.sorts);
  }

  void expr(const ExprNode& node) {
    out_.add(static_cast<std::uint64_t>(node.kind)).add(static_cast<std::uint64_t>(node.dtype));
    switch (node.kind) {
      case ExprKind::constant:
        out_.add(static_cast<std::uint64_t>(node.scalar.dtype)).add_signed(node.scalar.i);
        out_.add(std::bit_cast<std::uint64_t>(node.scalar.f));
        break;
      case ExprKind::read:
        out_.add(tensor(*node.tensor));
        break;
      case ExprKind::merge:
      case ExprKind::embed:
      case ExprKind::cast:
        break;
      case ExprKind::op:
        out_.add(static_cast<std::uint64_t>(node.op));
        break;
    }
    subscripts(node.subscripts);
    out_.add(node.args.size());
    for (const auto& arg : node.args) out_.add(numbers_.at(arg.get()));
    numbers_.emplace(&node, numbers_.size());
  }

  void subscripts(const std::vector<Subscript>& subscripts) {
    out_.add(subscripts.size());
    for (const Subscript& subscript : subscripts) {
      out_.add_signed(subscript.constant()).add(subscript.terms().size());
      for (const auto& term : subscript.terms()) {
        if (const auto* const index = std::get_if<Index>(&term.index)) {
          out_.add(0).add(axis(*index));
        } else {
          out_.add(1).add(number(form_.statics, std::get<StaticIndex>(term.index)));
        }
        out_.add_signed(term.coefficient);
      }
      const auto& position = Inside::position_of(subscript);
      out_.add(position ? numbers_.at(position.get()) + 1 : 0);
    }
  }

  std::uint64_t axis(const Index& index) const {
    const auto at = std::ranges::find(node_.space, index.id(),
                                      [](const SpaceAxis& axis) { return axis.index.id(); });
    return static_cast<std::uint64_t>(at - node_.space.begin());
  }

  std::uint64_t tensor(const Tensor& tensor) {
    const auto [at, fresh] = tensors_.try_emplace(tensor.id(), form_.tensors.size());
    if (fresh) form_.tensors.push_back(tensor);
    return at->second;
  }

  /// A linear search, as there are few static indices.
  static std::uint64_t number(std::vector<StaticIndex>& known, const StaticIndex& index) {
    const auto at = std::ranges::find(known, index);
    const auto position = static_cast<std::uint64_t>(at - known.begin());
    if (at == known.end()) known.push_back(index);
    return position;
  }

  static constexpr std::uint64_t end_of_expr = 255;  // not an ExprKind

  const StatementNode& node_;
  FormWriter out_;
  StatementForm form_;
  std::unordered_map<const ExprNode*, std::uint64_t> numbers_;
  std::unordered_map<std::uint64_t, std::uint64_t> tensors_;  // by Tensor::id()
};

/// Numbers objects by first appearance.
template <class T>
class Numbers {
 public:
  std::uint64_t operator[](const T& thing) {
    const auto [at, fresh] = numbers_.try_emplace(thing.id(), things_.size());
    if (fresh) things_.push_back(thing);
    return at->second;
  }
  [[nodiscard]] std::vector<T> take() noexcept { return std::move(things_); }

 private:
  std::unordered_map<std::uint64_t, std::uint64_t> numbers_;  // by id()
  std::vector<T> things_;
};

}  // namespace

FormWriter& FormWriter::add(std::uint64_t field) {
  for (; field >= 0x80; field >>= 7) bytes_ += static_cast<char>(field | 0x80);
  bytes_ += static_cast<char>(field);
  return *this;
}

FormWriter& FormWriter::add_signed(std::int64_t field) {
  const auto bits = static_cast<std::uint64_t>(field);
  return add(field < 0 ? ~(bits << 1) : bits << 1);
}

FormWriter& FormWriter::add_bytes(std::string_view field) {
  add(field.size());
  bytes_ += field;
  return *this;
}

StatementForm form_of(const StatementNode& node) { return StatementWriter(node).write(); }

ProgramForm form_of(const Program& program) {
  Numbers<Tensor> tensors;
  Numbers<StaticIndex> statics;
  FormWriter out;
  out.add(program.statements().size());
  for (const Statement& statement : program.statements()) {
    const StatementForm& form = Inside::of(statement)->form;
    out.add_bytes(form.bytes);
    for (const Tensor& tensor : form.tensors) out.add(tensors[tensor]);
    for (const StaticIndex& index : form.statics) out.add(statics[index]);
  }
  ProgramForm result{{}, tensors.take(), statics.take()};
  for (const Tensor& tensor : result.tensors) add_type(out, tensor.type());
  for (const StaticIndex& index : result.statics)
    out.add(index.range().has_value()).add_signed(index.range().value_or(0));
  const auto merged = program.merge_tensor();
  out.add(merged.has_value());
  if (merged) add_type(out, merged->type());
  result.bytes = out.take();
  return result;
}

}  // namespace heddle::jit
