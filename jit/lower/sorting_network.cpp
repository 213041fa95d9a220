// See sorting_network.hpp.
#include "jit/lower/sorting_network.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace heddle::jit {
namespace {

/// Places of a row that are loaded, exchanged and stored together, at distances that are the same
/// for each of `count` groups: place k of group i is first[k] + step[k] * i in its block.
struct Groups {
  std::int64_t block = 0;
  std::int64_t count = 0;
  std::vector<std::int64_t> first, step;
  std::vector<std::pair<std::size_t, std::size_t>> exchanges;  ///< the lower place first
};

/// Sorts 8 places: Batcher's merge exchange.
Groups sorted_eights() {
  return {8,
          1,
          {0, 1, 2, 3, 4, 5, 6, 7},
          std::vector<std::int64_t>(8, 0),
          {{0, 1},
           {2, 3},
           {4, 5},
           {6, 7},
           {0, 2},
           {1, 3},
           {4, 6},
           {5, 7},
           {1, 2},
           {5, 6},
           {0, 4},
           {1, 5},
           {2, 6},
           {3, 7},
           {2, 4},
           {3, 5},
           {1, 2},
           {3, 4},
           {5, 6}}};
}

/// Exchanges places at distance `far`, then at each half of the distance, in `steps` steps.
Groups halved(std::int64_t far, int steps) {
  const std::size_t places = std::size_t{1} << steps;
  Groups made;
  made.block = 2 * far;
  made.count = 2 * far >> steps;
  made.step.assign(places, 1);
  for (std::size_t k = 0; k < places; ++k)
    made.first.push_back(static_cast<std::int64_t>(k) * made.count);
  for (std::size_t distance = places / 2; distance > 0; distance /= 2) {
    for (std::size_t k = 0; k < places; ++k)
      if ((k & distance) == 0) made.exchanges.emplace_back(k, k + distance);
  }
  return made;
}

/// Exchanges the places of sorted halves of a block, the first with the last and so on, and then at
/// a quarter and an eighth of the block.
Groups merged(std::int64_t block) {
  Groups made = halved(block / 2, 3);
  for (std::size_t k = 4; k < 8; ++k) {
    made.first[k] = block - 1 - static_cast<std::int64_t>(7 - k) * made.count;
    made.step[k] = -1;
  }
  for (std::size_t k = 0; k < 4; ++k) made.exchanges[k] = {k, 7 - k};
  return made;
}

class Network {
 public:
  Network(const RowOfBuffer& row, std::int64_t count, VarId& next_var, LocalId& next_local)
      : row_(row), count_(count), next_var_(next_var), next_local_(next_local) {}

  Block make() {
    exchange(sorted_eights());
    for (std::int64_t block = 16; block / 2 < count_; block *= 2) {
      exchange(merged(block));
      for (std::int64_t far = block / 16; far > 0;) {
        const int steps = far >= 4 ? 3 : far == 2 ? 2 : 1;
        exchange(halved(far, steps));
        far >>= steps;
      }
    }
    return std::move(body_);
  }

 private:
  /// Places from `count_` on do not exist: greater elements would stay there.
  void exchange(const Groups& groups) {
    const std::int64_t whole = count_ / groups.block, rest = count_ % groups.block;
    if (whole > 0) {
      const VarId block = next_var_++;
      const StmtPtr loop = loop_over(groups, affine_var(block, groups.block), 0, groups.count,
                                     std::vector<bool>(groups.first.size(), true));
      body_.push_back(make_loop(block, 0, whole, {loop}));
    }
    const auto exist = [&](std::int64_t group) {
      std::vector<bool> places;
      for (std::size_t k = 0; k < groups.first.size(); ++k)
        places.push_back(groups.first[k] + groups.step[k] * group < rest);
      return places;
    };
    for (std::int64_t from = 0, to = 0; from < groups.count; from = to) {
      const std::vector<bool> places = exist(from);
      while (to < groups.count && exist(to) == places) ++to;
      const bool exchanges = std::ranges::any_of(groups.exchanges, [&](const auto& pair) {
        return places[pair.first] && places[pair.second];
      });
      if (exchanges)
        body_.push_back(loop_over(groups, Affine{whole * groups.block, {}}, from, to, places));
    }
  }

  /// for i in from..to { loads, exchanges, stores of the places that exist }
  StmtPtr loop_over(const Groups& groups, const Affine& block, std::int64_t from, std::int64_t to,
                    const std::vector<bool>& exist) {
    const VarId group = next_var_++;
    const auto at = [&](std::size_t k) {
      std::vector<Affine> subscripts = row_.subscripts;
      subscripts.back() =
          affine_add(affine_add(block, {groups.first[k] + groups.step[k] * from, {}}),
                     affine_var(group, groups.step[k]));
      return subscripts;
    };
    Block body;
    const auto named = [&](ValuePtr value) {
      const LocalId local = next_local_++;
      body.push_back(make_declare(local, std::move(value)));
      return make_local(local, row_.dtype);
    };
    std::vector<ValuePtr> values(exist.size());
    for (const auto& [low, high] : groups.exchanges) {
      if (!exist[low] || !exist[high]) continue;
      for (const std::size_t k : {low, high})
        if (!values[k]) values[k] = named(make_load(row_.buffer, row_.dtype, at(k)));
      const std::vector<ValuePtr> both{values[low], values[high]};
      values[low] = named(make_op(Op::min, both));
      values[high] = named(make_op(Op::max, both));
    }
    for (std::size_t k = 0; k < values.size(); ++k)
      if (values[k]) body.push_back(make_store(row_.buffer, at(k), values[k]));
    return make_loop(group, 0, to - from, std::move(body));
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
