// See memory_plan.hpp.
#include "jit/code/memory_plan.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <unordered_set>
#include <utility>
#include <variant>

#include "jit/loop/own_scratch.hpp"
#include "jit/loop/rewrite.hpp"

namespace heddle::jit {
namespace {

constexpr std::size_t alignment = 64;
// of lifetimes, in the search for better plans: some 10 ms
constexpr std::size_t comparisons_max = 1'000'000;

std::size_t aligned(std::size_t bytes) noexcept {
  return (bytes + alignment - 1) / alignment * alignment;
}

using Bytes = std::pair<std::size_t, std::size_t>;  // [from, to)

/// The lowest place where `bytes` fit between the taken ranges (in order).
std::size_t lowest(std::span<const Bytes> taken, std::size_t bytes) {
  std::size_t at = 0;
  for (const auto& [from, to] : taken) {
    if (at + bytes <= from) break;
    at = std::max(at, to);
  }
  return at;
}

/// The lowest or the highest place below `capacity`, whichever is nearer to an end, which keeps the
/// free bytes together. Above all taken ranges where there is no room.
std::size_t nearest_to_an_end(std::span<const Bytes> taken, std::size_t bytes,
                              std::size_t capacity) {
  const std::size_t low = lowest(taken, bytes);
  if (low + bytes > capacity) return low;
  std::size_t high = low, at = 0;
  for (const auto& [from, to] : taken) {
    if (at + bytes <= std::min(from, capacity)) high = std::min(from, capacity) - bytes;
    at = std::max(at, to);
  }
  if (at + bytes <= capacity) high = capacity - bytes;
  return low <= capacity - (high + bytes) ? low : high;
}

/// Places the lifetimes in `order`: within `capacity` while there is room, or as low as possible.
MemoryPlan place(std::span<const Lifetime> lifetimes, std::span<const std::size_t> order,
                 std::optional<std::size_t> capacity) {
  MemoryPlan plan{std::vector<std::size_t>(lifetimes.size()), 0};
  std::vector<Bytes> taken;
  for (auto at = order.begin(); at != order.end(); ++at) {
    const Lifetime& mine = lifetimes[*at];
    const std::size_t bytes = aligned(mine.bytes);
    taken.clear();
    for (auto before = order.begin(); before != at; ++before) {
      if (!lifetimes[*before].meets(mine)) continue;
      const std::size_t from = plan.offsets[*before];
      taken.emplace_back(from, from + aligned(lifetimes[*before].bytes));
    }
    std::ranges::sort(taken);
    plan.offsets[*at] =
        capacity ? nearest_to_an_end(taken, bytes, *capacity) : lowest(taken, bytes);
    plan.bytes = std::max(plan.bytes, plan.offsets[*at] + bytes);
  }
  return plan;
}

/// Places all lifetimes repeatedly, for at most `comparisons` comparisons, each time with the
/// topmost lifetime moved to the front. Keeps the best plan in `best`.
void improve(std::span<const Lifetime> lifetimes, std::vector<std::size_t> order,
             std::optional<std::size_t> capacity, std::size_t least, std::size_t comparisons,
             MemoryPlan& best) {
  const std::size_t each = order.size() * order.size();
  for (; best.bytes > least && comparisons >= each; comparisons -= each) {
    MemoryPlan latest = place(lifetimes, order, capacity);
    const auto at_top = std::ranges::find_if(order, [&](std::size_t k) {
      return latest.offsets[k] + aligned(lifetimes[k].bytes) == latest.bytes;
    });
    std::rotate(order.begin(), at_top, at_top + 1);
    if (latest.bytes < best.bytes) best = std::move(latest);
  }
}

class Uses {
 public:
  explicit Uses(const Signature& signature)
      : signature_(signature),
        used_(signature.entries.size()),
        lifetimes_(signature.entries.size()) {}

  void add(const KernelStep& kernel) {
    const bool at_once = kernel.parts > 1 || kernel.in_groups;  // all statements may run at once
    for (const StmtPtr& stmt : kernel.loop->body) {
      const Block alone{stmt};
      walk(alone, [&](const Stmt& s) {
        if (s.kind == StmtKind::store || s.kind == StmtKind::zero) use(kernel.entries[s.buffer]);
        if (s.value) loads(*s.value, kernel);
      });
      met_.clear();
      if (!at_once) ++place_;
    }
    if (at_once) ++place_;
  }
  void add(const CopyStep& copy) {
    use(copy.to);
    use(copy.from);
    ++place_;
  }
  void add(const ZeroStep& zero) {
    use(zero.entry);
    ++place_;
  }
  void add(const MergeStep& /*merge*/) { ++place_; }
  void add(const CallStep& /*call*/) { ++place_; }

  std::vector<Lifetime> take() { return std::move(lifetimes_); }

 private:
  void loads(const Value& value, const KernelStep& kernel) {
    if (!met_.insert(&value).second) return;
    if (value.kind == ValueKind::load) use(kernel.entries[value.buffer]);
    for (const ValuePtr& arg : value.args) loads(*arg, kernel);
  }
  void use(std::uint32_t entry) {
    Lifetime& lifetime = lifetimes_[entry];
    if (!used_[entry]) {
      used_[entry] = true;
      lifetime.first = place_;
      lifetime.bytes = static_cast<std::size_t>(*signature_.entries[entry].type.num_bytes());
    }
    lifetime.last = place_;
  }

  const Signature& signature_;
  std::vector<bool> used_;
  std::unordered_set<const Value*> met_;  // in the current statement
  std::vector<Lifetime> lifetimes_;
  std::size_t place_ = 0;
};

}  // namespace

MemoryPlan pack(std::span<const Lifetime> lifetimes) {
  std::vector<std::size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), 0);
  std::erase_if(order, [&](std::size_t k) { return lifetimes[k].bytes == 0; });
  // Equal keys are ordered by place. std::stable_sort is avoided: it uses a function that C++20
  // removed.
  const auto descending = [&](const auto& key) {
    std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
      return key(a) != key(b) ? key(a) > key(b) : a < b;
    });
  };
  descending([&](std::size_t k) { return lifetimes[k].bytes; });
  const std::size_t least = most_alive(lifetimes);
  MemoryPlan best = place(lifetimes, order, {});
  improve(lifetimes, order, {}, least, comparisons_max, best);
  descending([&](std::size_t k) {
    return std::pair(lifetimes[k].last - lifetimes[k].first, lifetimes[k].bytes);
  });
  improve(lifetimes, order, least, least, comparisons_max, best);
  descending([&](std::size_t k) {
    return (lifetimes[k].last - lifetimes[k].first + 1) * lifetimes[k].bytes;
  });
  improve(lifetimes, order, {}, least, comparisons_max, best);
  for (const std::size_t capacity : {least, least * 21 / 20, least * 11 / 10})
    improve(lifetimes, order, aligned(capacity), least, comparisons_max, best);
  return best;
}

std::size_t most_alive(std::span<const Lifetime> lifetimes) {
  std::size_t most = 0;
  for (const Lifetime& at : lifetimes) {  // the maximum is reached where a lifetime begins
    std::size_t alive = 0;
    for (const Lifetime& other : lifetimes) {
      if (other.first <= at.first && at.first <= other.last) alive += aligned(other.bytes);
    }
    most = std::max(most, alive);
  }
  return most;
}

void plan_own_scratch(const Loop& kernel, KernelStep& step) {
  for (const BufferId id : own_scratch(kernel)) {
    step.own.push_back({id, step.own_bytes});
    step.own_bytes += aligned(static_cast<std::size_t>(*kernel.buffers[id].type.num_bytes()));
  }
}

std::vector<Lifetime> lifetimes_of(const Signature& signature, std::span<const Step> steps) {
  Uses uses(signature);
  for (const Step& step : steps) std::visit([&](const auto& each) { uses.add(each); }, step);
  return uses.take();
}

MemoryPlan plan_scratch(const Signature& signature, std::span<const Step> steps) {
  std::vector<Lifetime> lifetimes = lifetimes_of(signature, steps);
  for (std::size_t k = 0; k < lifetimes.size(); ++k) {
    if (signature.entries[k].role != Role::scratch) lifetimes[k] = {};
  }
  return pack(lifetimes);
}

}  // namespace heddle::jit
