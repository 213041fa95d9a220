// See graph/order_statements.hpp.
#include "jit/graph/order_statements.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

namespace heddle::jit {
namespace {

/// The longest row sorted by comparing every pair; the compiler vectorises these loops.
constexpr std::int64_t compared_max = 128;
/// From this length on, fewer passes are worth more counters per pass.
constexpr std::int64_t wide_digits_from = 4096;
/// Packs a 32-bit key and a 32-bit place into one u64.
constexpr std::uint64_t pair_factor = std::uint64_t{1} << 32U;

int bits_of(DType dtype) {
  return dtype == DType::bool_ ? 1 : 8 * static_cast<int>(size_of(dtype));
}

class OrderStatements {
 public:
  OrderStatements(const Tensor& result, std::size_t axis, std::span<const Tensor> keys)
      : result_(result), axis_(axis), keys_(keys), count_(result.dims()[axis]), place_(count_) {
    for (std::size_t k = 0; k + 1 < keys[0].dims().size(); ++k)
      rows_.emplace_back(keys[0].dims()[k]);
  }

  std::vector<Statement> make() {
    if (count_ <= compared_max) {
      compare();
    } else {
      for (std::size_t k = keys_.size(); k-- > 0;) digits_of(k);
    }
    return std::move(statements_);
  }

 private:
  /// The elements sorted so far: the key and the place at a position, as u64.
  struct Ordered {
    std::function<Expr(const Subscript&)> key, place;
  };

  Tensor tensor(std::string_view what, DType dtype, std::int64_t extent) const {
    Dims dims(keys_[0].dims());
    dims.back() = extent;
    return {fmt::format("{}_{}", result_.label(), what), dtype, dims};
  }
  Access in_row(const Tensor& tensor, const Subscript& place) const {
    std::vector<Subscript> subscripts(rows_.begin(), rows_.end());
    subscripts.push_back(place);
    return tensor.at(std::move(subscripts));
  }
  Access in_result(const Subscript& place) const {
    std::vector<Subscript> subscripts(rows_.begin(), rows_.end());
    subscripts.insert(subscripts.begin() + static_cast<std::ptrdiff_t>(axis_), place);
    return result_.at(std::move(subscripts));
  }
  /// A tensor of zeros. A tensor that is written at computed positions must be written whole first,
  /// or the tensor would need a value from before.
  Tensor zeros(std::string_view what, DType dtype, std::int64_t extent) {
    Tensor zero = tensor(what, dtype, extent);
    statements_.push_back(in_row(zero, Index(extent)) = Expr(0));
    return zero;
  }
  void clear_result() { statements_.push_back(in_result(Index(count_)) = Expr(0)); }
  static Expr wide(const Expr& value) { return cast(value, DType::u64); }
  /// The smallest type that holds places up to `last`.
  static DType place_type(std::int64_t last) {
    return last <= std::numeric_limits<std::uint32_t>::max() ? DType::u32 : DType::u64;
  }

  /// Puts each element at the position given by the number of lower elements.
  void compare() {
    const Index other(count_);
    Expr before = embed(other) < embed(place_);
    for (std::size_t k = keys_.size(); k-- > 0;) {
      const Expr here = in_row(keys_[k], place_);
      const Expr there = in_row(keys_[k], other);
      before = there < here || (there == here && before);
    }
    const Tensor ranks = tensor("ranks", DType::u32, count_);
    statements_.push_back(in_row(ranks, place_) = sum(cast(before, DType::u32)));
    clear_result();
    statements_.push_back(in_result(at(in_row(ranks, place_))) =
                              cast(embed(place_), result_.dtype()));
  }

  /// Sorts by key k; the elements are already sorted by the keys after k.
  void digits_of(std::size_t k) {
    Ordered now = start(k);
    bits_ = bits_of(keys_[k].dtype());
    const int at_most = count_ < wide_digits_from ? 8 : 11;
    const int passes = (bits_ + at_most - 1) / at_most;
    const int width = (bits_ + passes - 1) / passes;
    for (int pass = 0; pass < passes; ++pass) {
      const int low = pass * width;
      const bool is_last = pass + 1 == passes;
      now = pass_over(now, low, std::min(width, bits_ - low), is_last, is_last && k == 0);
    }
    ordered_ = now.place;
  }

  Ordered start(std::size_t k) {
    const Tensor& keys = keys_[k];
    if (!ordered_) {
      return {[&keys, this](const Subscript& at) { return wide(in_row(keys, at)); },
              [](const Subscript& at) { return wide(embed(at)); }};
    }
    const Tensor moved = tensor("moved", keys.dtype(), count_);
    statements_.push_back(in_row(moved, place_) = in_row(keys, at(ordered_(place_))));
    return {[moved, this](const Subscript& at) { return wide(in_row(moved, at)); }, ordered_};
  }

  /// Sorts stably by `width` bits of the keys from bit `low` on.
  Ordered pass_over(const Ordered& now, int low, int width, bool is_last, bool is_result) {
    const std::int64_t values = std::int64_t{1} << width;
    const Expr digit = now.key(place_) / (std::uint64_t{1} << low) % (std::uint64_t{1} << width);
    // ranks[place] becomes the element's rank among the elements of the same digit; the counters of
    // the digits lie behind the ranks. Each element takes the counter of its digit, then adds 1 to
    // the counter: two steps of one statement.
    const DType type = place_type(count_ + values);
    const Tensor ranks = zeros("ranks", type, count_ + values);
    const Index step(2);
    const Expr counter = wide(Expr(count_)) + digit;
    const Expr to = wide(embed(place_)) + wide(embed(step)) * (counter - wide(embed(place_)));
    statements_.push_back(in_row(ranks, at(to)) =
                              in_row(ranks, at(counter)) + cast(embed(step), type));
    const Tensor starts = zeros("starts", type, values);
    const Index later(values - 1);
    statements_.push_back(in_row(starts, later + 1) =
                              in_row(starts, later) + in_row(ranks, later + count_));
    const Expr target = wide(in_row(starts, at(digit)) + in_row(ranks, place_));
    if (is_result) {
      clear_result();
      statements_.push_back(in_result(at(target)) = cast(now.place(place_), result_.dtype()));
      return {};
    }
    return move(now, target, !is_last);
  }

  /// Moves places, and keys where digits of the same key remain, to `target`.
  Ordered move(const Ordered& now, const Expr& target, bool with_keys) {
    const DType type = place_type(count_);
    const bool pairs = with_keys && type == DType::u32 && bits_ <= 32;
    const Tensor places = zeros(pairs ? "pairs" : "places", pairs ? DType::u64 : type, count_);
    const Expr place = now.place(place_);
    const Expr value = pairs ? now.key(place_) * pair_factor + place : place;
    statements_.push_back(in_row(places, at(target)) = cast(value, places.dtype()));
    if (pairs) {
      return {[places, this](const Subscript& at) { return in_row(places, at) / pair_factor; },
              [places, this](const Subscript& at) { return in_row(places, at) % pair_factor; }};
    }
    Ordered moved;
    moved.place = [places, this](const Subscript& at) { return wide(in_row(places, at)); };
    if (!with_keys) return moved;
    const Tensor keys = zeros("keys", DType::u64, count_);
    statements_.push_back(in_row(keys, at(target)) = now.key(place_));
    moved.key = [keys, this](const Subscript& at) { return Expr(in_row(keys, at)); };
    return moved;
  }

  const Tensor& result_;
  const std::size_t axis_;
  const std::span<const Tensor> keys_;
  const std::int64_t count_;
  std::vector<Index> rows_;
  const Index place_;
  int bits_ = 0;  // of the current key
  // the order by the keys so far; empty before the first key
  std::function<Expr(const Subscript&)> ordered_;
  std::vector<Statement> statements_;
};

}  // namespace

DType key_type(DType dtype, std::int64_t count) {
  return count <= compared_max && size_of(dtype) < size_of(DType::u32) ? DType::u32 : dtype;
}

std::vector<Statement> order_statements(const Tensor& result, std::size_t axis,
                                        std::span<const Tensor> keys) {
  return OrderStatements(result, axis, keys).make();
}

}  // namespace heddle::jit
