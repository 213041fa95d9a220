// See sorting_network.hpp.
#include "jit/lower/sorting_network.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace heddle::jit {
namespace {

class Network {
 public:
  Network(const RowOfBuffer& row, std::int64_t count, VarId& next_var, LocalId& next_local)
      : row_(row), count_(count), next_var_(next_var), next_local_(next_local) {}

  /// The names are those of algorithm M.
  Block make() {
    if (count_ < 2) return {};
    const auto top =
        static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(count_ - 1)));
    for (std::int64_t p = top; p > 0; p /= 2) {
      std::int64_t q = top, r = 0, d = p;
      while (true) {
        exchange_places(p, r, d);
        if (q == p) break;
        d = q - p;
        q /= 2;
        r = p;
      }
    }
    return std::move(body_);
  }

 private:
  /// Exchanges the elements i and i + d for each i whose bit p is that of r: blocks of p places,
  /// every 2 p places from r on.
  void exchange_places(std::int64_t p, std::int64_t r, std::int64_t d) {
    const std::int64_t places = count_ - d - r;
    const std::int64_t blocks = std::max<std::int64_t>(places + p, 0) / (2 * p);
    exchange_blocks(blocks, 2 * p, r, p, d);
    const std::int64_t rest = places - 2 * p * blocks;
    if (rest > 0) exchange_blocks(1, 0, r + 2 * p * blocks, std::min(rest, p), d);
  }

  void exchange_blocks(std::int64_t blocks, std::int64_t step, std::int64_t first,
                       std::int64_t places, std::int64_t d) {
    if (blocks == 0) return;
    const VarId block = next_var_++, place = next_var_++;
    Affine low = affine_add({first, {}}, affine_var(place));
    if (step != 0) low = affine_add(low, affine_var(block, step));
    const Affine high = affine_add(low, {d, {}});
    body_.push_back(
        make_loop(block, 0, blocks, {make_loop(place, 0, places, exchange(low, high))}));
  }

  Block exchange(const Affine& low, const Affine& high) {
    const LocalId a = next_local_++, b = next_local_++;
    const ValuePtr first = make_local(a, row_.dtype), second = make_local(b, row_.dtype);
    return {make_declare(a, make_load(row_.buffer, row_.dtype, at(low))),
            make_declare(b, make_load(row_.buffer, row_.dtype, at(high))),
            make_store(row_.buffer, at(low), make_op(Op::min, {first, second})),
            make_store(row_.buffer, at(high), make_op(Op::max, {first, second}))};
  }

  std::vector<Affine> at(const Affine& place) const {
    std::vector<Affine> subscripts = row_.subscripts;
    subscripts.back() = place;
    return subscripts;
  }

  const RowOfBuffer& row_;
  const std::int64_t count_;
  VarId& next_var_;
  LocalId& next_local_;
  Block body_;
};

}  // namespace

Block sorting_network(const RowOfBuffer& row, std::int64_t count, VarId& next_var,
                      LocalId& next_local) {
  return Network(row, count, next_var, next_local).make();
}

}  // namespace heddle::jit
