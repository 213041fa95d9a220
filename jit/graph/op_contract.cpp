// Operations that sum products: dot_general, the operations based on dot_general, and convolutions.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>

#include "heddle/graph_ops.hpp"
#include "jit/graph/called.hpp"
#include "jit/graph/state.hpp"
#include "jit/loop/interval.hpp"

namespace heddle {
namespace {

using jit::GraphNode;
using jit::NodeKind;
using jit::Numbers;

Numbers places_of(const Node& x, const Axes& axes, const jit::Called& call) {
  Numbers found;
  for (const std::int64_t axis : axes) found.push_back(jit::axis_of(x, axis, call));
  return found;
}

/// einsum() step by step: replaces two operands by their sum of products, until a single operand is
/// left.
class Einsum {
 public:
  Einsum(std::string_view spec, const std::vector<Node>& operands, CallSite where)
      : call_(fmt::format("einsum {}", spec), where, operands),
        spec_(spec),
        operands_(operands),
        where_(where),
        type_(jit::common_type(operands, call_)) {
    read();
  }

  Node make() {
    std::vector<Term> terms = terms_;
    while (terms.size() > 1) {
      Term joined = join(terms[0], terms[1], letters_of(terms, 2));
      terms.erase(terms.begin(), terms.begin() + 2);
      terms.insert(terms.begin(), std::move(joined));
    }
    Term last = reduce(terms[0], result_);
    Axes order;
    for (const char letter : result_)
      order.push_back(static_cast<std::int64_t>(last.letters.find(letter)));
    return order.empty() ? last.node : transpose(last.node, order, where_);
  }

 private:
  struct Term {
    Node node;
    std::string letters;
  };

  void read() {
    if (spec_.find("...") != std::string_view::npos)
      call_.refuse("'...' is not known here; give each axis that it stands for a letter");
    std::string text;
    std::ranges::copy_if(spec_, std::back_inserter(text), [](char c) { return c != ' '; });
    const std::size_t odd =
        text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ,->");
    if (odd != std::string::npos) call_.refuse(fmt::format("'{}' is no letter", text[odd]));
    const std::size_t arrow = text.find("->");
    const bool is_apart =
        text.find_first_of("->") == arrow &&
        (arrow == std::string::npos || text.find_first_of("->", arrow + 2) == std::string::npos);
    if (!is_apart) call_.refuse("terms and result stand apart by one '->'");
    const std::string left = text.substr(0, arrow);
    std::size_t from = 0;
    for (const Node& operand : operands_) {
      if (from > left.size()) call_.refuse("it has fewer terms than there are operands");
      const std::size_t comma = std::min(left.find(',', from), left.size());
      add(operand, left.substr(from, comma - from));
      from = comma + 1;
    }
    if (from <= left.size()) call_.refuse("it has more terms than there are operands");
    if (arrow == std::string::npos) {
      std::map<char, int> counts;
      for (const Term& term : terms_)
        for (const char letter : term.letters) ++counts[letter];
      for (const auto& [letter, count] : counts)
        if (count == 1) result_ += letter;
    } else {
      result_ = text.substr(arrow + 2);
      for (const char letter : result_) {
        if (!extents_.contains(letter)) call_.refuse(fmt::format("'{}' is in no operand", letter));
        if (std::ranges::count(result_, letter) > 1)
          call_.refuse(fmt::format("'{}' is in the result twice", letter));
      }
    }
  }

  void add(const Node& operand, std::string letters) {
    if (std::ssize(letters) != operand.rank()) {
      call_.refuse(fmt::format("'{}' names {} axes of an operand that has {}", letters,
                               letters.size(), operand.rank()));
    }
    for (std::size_t k = 0; k < letters.size(); ++k) {
      const char letter = letters[k];
      if (letters.find(letter) != k)
        call_.refuse(
            fmt::format("'{}' is in '{}' twice; diagonals are not taken", letter, letters));
      const std::int64_t extent = operand.dims()[k];
      const auto [place, fresh] = extents_.emplace(letter, extent);
      if (!fresh && place->second != extent) {
        call_.refuse(fmt::format("'{}' has {} elements in one operand and {} in another", letter,
                                 place->second, extent));
      }
    }
    // Sums and products on the way have the common type of all operands, in any order.
    terms_.push_back({cast(Operand(operand, where_), type_), std::move(letters)});
  }

  /// The letters needed later: by the result, or by terms from `first` on.
  std::string letters_of(const std::vector<Term>& terms, std::size_t first) const {
    std::string letters = result_;
    for (std::size_t k = first; k < terms.size(); ++k) letters += terms[k].letters;
    return letters;
  }

  static bool has(const std::string& letters, char letter) {
    return letters.find(letter) != std::string::npos;
  }

  /// Sums over the letters that are not needed.
  Term reduce(const Term& term, const std::string& needed) const {
    Axes gone;
    std::string letters;
    for (std::size_t k = 0; k < term.letters.size(); ++k) {
      if (has(needed, term.letters[k])) {
        letters += term.letters[k];
      } else {
        gone.push_back(static_cast<std::int64_t>(k));
      }
    }
    if (gone.empty()) return term;
    return {sum(term.node, gone, {}, where_), std::move(letters)};
  }

  Term join(const Term& left, const Term& right, const std::string& needed) const {
    const Term a = reduce(left, needed + right.letters);
    const Term b = reduce(right, needed + left.letters);
    DotAxes axes;
    std::string batch;
    std::string rest;
    for (std::size_t k = 0; k < a.letters.size(); ++k) {
      const char letter = a.letters[k];
      const std::size_t other = b.letters.find(letter);
      const auto axis = static_cast<std::int64_t>(k);
      if (other == std::string::npos) {
        rest += letter;
        continue;
      }
      const bool kept = has(needed, letter);
      (kept ? axes.batch_a : axes.contract_a).push_back(axis);
      (kept ? axes.batch_b : axes.contract_b).push_back(static_cast<std::int64_t>(other));
      if (kept) batch += letter;
    }
    for (const char letter : b.letters) {
      if (!has(a.letters, letter)) rest += letter;
    }
    return {dot_general(a.node, b.node, axes, where_), batch + rest};
  }

  const jit::Called call_;
  std::string_view spec_;
  const std::vector<Node>& operands_;
  CallSite where_;
  DType type_;
  std::vector<Term> terms_;
  std::map<char, std::int64_t> extents_;
  std::string result_;
};

std::int64_t conv_option(const std::vector<std::int64_t>& list, std::size_t k) {
  return list.empty() ? 1 : list[k];
}

using jit::Int128;
constexpr Int128 reach_max = std::numeric_limits<std::int32_t>::max();

/// The number of spatial axes of images and filters; refuses operands that do not fit together.
std::size_t space_of(const Node& x, const Node& w, const ConvOptions& options,
                     const jit::Called& call) {
  const std::int64_t axes = x.rank() - 2;
  if (axes < 1 || axes > 3 || w.rank() != x.rank()) {
    call.refuse(
        "images [count, channels, space...] and filters [filters, channels, space...] "
        "have 3 to 5 axes, as many as each other");
  }
  const auto fits = [&](std::size_t count, bool may_be_less) {
    return count == 0 || count == jit::axis_index(axes) ||
           (may_be_less && count < jit::axis_index(axes));
  };
  if (!fits(options.step.size(), false) || !fits(options.dilation.size(), false) ||
      !fits(options.padding.size(), true)) {
    call.refuse(
        fmt::format("there are {} axes of space; say as many steps, dilations and "
                    "paddings, or none",
                    axes));
  }
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  for (std::size_t k = 0; k < jit::axis_index(axes); ++k) {
    const std::int64_t step = conv_option(options.step, k);
    const std::int64_t dilation = conv_option(options.dilation, k);
    const Padding ends = k < options.padding.size() ? options.padding[k] : Padding{};
    const bool small = std::max(step, dilation) <= most && std::max(ends.low, ends.high) <= most &&
                       std::min(ends.low, ends.high) >= -most;
    if (small && std::min(step, dilation) >= 1) continue;
    call.refuse(
        fmt::format("axis {} of space has step {}, dilation {} and padding {} and {} "
                    "(expected 1 up to {}; padding from -{})",
                    k, step, dilation, ends.low, ends.high, most, most));
  }
  return jit::axis_index(axes);
}

/// The convolution [count, groups * filters, space...] of [count, groups, channels, space...] and
/// [groups, filters, channels, space...].
Node grouped(const Node& x, const Node& w, Numbers step, Numbers dilation, CallSite where) {
  GraphNode node;
  node.kind = NodeKind::conv;
  node.args = {jit::id_of(x), jit::id_of(w)};
  node.fields = {std::move(step), std::move(dilation)};
  const Node made = jit::make_node(jit::graph_of(x, "conv"), std::move(node), where);
  std::vector<std::int64_t> dims(made.dims().begin(), made.dims().end());
  dims[1] *= dims[2];
  dims.erase(dims.begin() + 2);
  return reshape(made, dims, where);
}

/// Splits axis `axis` into `count` parts: [.., count, size, ..].
Node cut_axis(const Node& x, std::size_t axis, std::int64_t count, const jit::Called& call) {
  std::vector<std::int64_t> dims(x.dims().begin(), x.dims().end());
  if (count < 1 || dims[axis] % count != 0) {
    call.refuse(fmt::format("axis {} of {} has {} elements, no multiple of the {} groups", axis,
                            x.type().to_string(), dims[axis], count));
  }
  dims[axis] /= count;
  dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis), count);
  return reshape(x, dims, call.where());
}

}  // namespace

Node dot_general(const Node& a, const Node& b, const DotAxes& axes, CallSite where) {
  const jit::Called call("dot_general", where, a, b);
  GraphNode node;
  node.kind = NodeKind::dot;
  node.args = {jit::id_of(a), jit::id_of(b)};
  node.fields = {places_of(a, axes.batch_a, call), places_of(b, axes.batch_b, call),
                 places_of(a, axes.contract_a, call), places_of(b, axes.contract_b, call)};
  return jit::make_node(call.graph(), std::move(node), where);
}

Node matmul(const Node& a, const Node& b, CallSite where) {
  const jit::Called call("matmul", where, a, b);
  if (a.rank() == 0 || b.rank() == 0)
    call.refuse("a scalar has no axis to sum over; multiply with *");
  const std::int64_t depth_b = b.rank() == 1 ? 0 : b.rank() - 2;
  if (a.dims()[jit::axis_index(a.rank() - 1)] != b.dims()[jit::axis_index(depth_b)]) {
    call.refuse(fmt::format(
        "the last axis of the first has {} elements, axis {} of the other "
        "has {} (expected as many)",
        a.dims()[jit::axis_index(a.rank() - 1)], depth_b, b.dims()[jit::axis_index(depth_b)]));
  }
  DotAxes axes;
  axes.contract_a = {a.rank() - 1};
  axes.contract_b = {depth_b};
  if (b.rank() <= 2) return dot_general(a, b, axes, where);  // row vectors of all of a
  const Dims outer_a(std::vector<std::int64_t>(
      a.dims().begin(), a.dims().end() - std::min<std::int64_t>(a.rank(), 2)));
  const Dims outer_b(std::vector<std::int64_t>(b.dims().begin(), b.dims().end() - 2));
  const std::array shapes{outer_a, outer_b};
  const auto outer = jit::broadcast_dims(shapes);
  if (!outer) {
    call.refuse("the axes before the last two do not broadcast: extents are equal or 1");
  }
  const auto widened = [&](const Node& x) {
    Dims dims = *outer;
    dims.insert(dims.end(), x.dims().end() - std::min<std::int64_t>(x.rank(), 2), x.dims().end());
    return jit::broadcast_as(x, dims, where);
  };
  const Node left = widened(a);
  const Node right = widened(b);
  axes.contract_a = {left.rank() - 1};
  axes.contract_b = {right.rank() - 2};
  axes.batch_a = axes.batch_b = jit::first_axes(outer->size());
  return dot_general(left, right, axes, where);
}

Node einsum(std::string_view spec, const std::vector<Node>& operands, CallSite where) {
  if (operands.empty())
    jit::Called("einsum", where).refuse("there are no operands; it takes one at least");
  return Einsum(spec, operands, where).make();
}

Node conv(const Node& x, const Node& w, const ConvOptions& options, CallSite where) {
  const jit::Called call("conv", where, x, w);
  const std::size_t space = space_of(x, w, options, call);
  Numbers step;
  Numbers dilation;
  for (std::size_t k = 0; k < space; ++k) {
    step.push_back(conv_option(options.step, k));
    dilation.push_back(conv_option(options.dilation, k));
  }
  Node images = x;
  if (!options.padding.empty()) {
    std::vector<Padding> padding(2);
    padding.insert(padding.end(), options.padding.begin(), options.padding.end());
    images = pad(x, Operand(0, where), padding, where);
  }
  return grouped(cut_axis(images, 1, options.groups, call), cut_axis(w, 0, options.groups, call),
                 std::move(step), std::move(dilation), where);
}

Node conv_transposed(const Node& x, const Node& w, const ConvOptions& options, CallSite where) {
  const jit::Called call("conv_transposed", where, x, w);
  const std::size_t space = space_of(x, w, options, call);
  if (x.dims()[1] != w.dims()[0]) {
    call.refuse(
        fmt::format("axis 1 of the first has {} elements, one for each filter, of which the "
                    "other has {} along axis 0 (expected as many)",
                    x.dims()[1], w.dims()[0]));
  }
  std::vector<Padding> padding(2);
  Axes turned;
  for (std::size_t k = 0; k < space; ++k) {
    const Int128 far = Int128{conv_option(options.dilation, k)} * (w.dims()[k + 2] - 1);
    const Padding cut = k < options.padding.size() ? options.padding[k] : Padding{};
    if (cut.interior != 0) {
      call.refuse(
          fmt::format("the interior padding of axis {} of space is {} (expected 0: steps "
                      "set images apart)",
                      k, cut.interior));
    }
    const std::int64_t step = conv_option(options.step, k);
    const Int128 spread = x.dims()[k + 2] == 0 ? 0 : Int128{x.dims()[k + 2] - 1} * step + 1;
    const Int128 places = spread + far - cut.low - cut.high;
    if (far > reach_max || places < (far == 0 ? 0 : 1)) {
      call.refuse(fmt::format(
          "axis {} of space has {} elements, spread over {} by step {}, and a filter that reaches "
          "over {}: that leaves {} places after padding {} and {} (expected 1 or more, and a reach "
          "of at most {})",
          k, x.dims()[k + 2], jit::narrow(spread), step, jit::narrow(far + 1), jit::narrow(places),
          cut.low, cut.high, jit::narrow(reach_max)));
    }
    const auto reach = static_cast<std::int64_t>(far);
    padding.push_back({reach - cut.low, reach - cut.high, step - 1});
    turned.push_back(static_cast<std::int64_t>(k + 3));
  }
  const Node images = cut_axis(pad(x, Operand(0, where), padding, where), 1, options.groups, call);
  // [groups, filters, channels, space...] with filters and channels exchanged, and the spatial axes
  // reversed.
  const Node filters = cut_axis(w, 0, options.groups, call);
  Axes order{0, 2, 1};
  for (const std::int64_t axis : turned) order.push_back(axis);
  Numbers dilation;
  for (std::size_t k = 0; k < space; ++k) dilation.push_back(conv_option(options.dilation, k));
  return grouped(images, reverse(transpose(filters, order, where), turned, where),
                 Numbers(space, 1), std::move(dilation), where);
}

}  // namespace heddle
