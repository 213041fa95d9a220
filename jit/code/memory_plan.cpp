// See memory_plan.hpp.
#include "jit/code/memory_plan.hpp"

#include <algorithm>
#include <numeric>
#include <unordered_set>
#include <utility>
#include <variant>

#include "jit/loop/rewrite.hpp"

namespace heddle::jit {
namespace {

constexpr std::size_t alignment = 64;

std::size_t aligned(std::size_t bytes) noexcept {
  return (bytes + alignment - 1) / alignment * alignment;
}

/// The lowest place for `bytes` beside those that are taken, [from, to) each.
std::size_t lowest_gap(std::vector<std::pair<std::size_t, std::size_t>>& taken, std::size_t bytes) {
  std::ranges::sort(taken);
  std::size_t at = 0;
  for (const auto& [from, to] : taken) {
    if (at + bytes <= from) break;
    at = std::max(at, to);
  }
  return at;
}

class Uses {
 public:
  explicit Uses(const Signature& signature)
      : signature_(signature),
        used_(signature.entries.size()),
        lifetimes_(signature.entries.size()) {}

  void add(const KernelStep& kernel) {
    for (const StmtPtr& stmt : kernel.loop->body) {
      const Block alone{stmt};
      walk(alone, [&](const Stmt& s) {
        if (s.kind == StmtKind::store || s.kind == StmtKind::zero) use(kernel.entries[s.buffer]);
        if (s.value) loads(*s.value, kernel);
      });
      met_.clear();
      ++place_;
    }
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
  std::unordered_set<const Value*> met_;  // in this statement
  std::vector<Lifetime> lifetimes_;
  std::size_t place_ = 0;
};

}  // namespace

MemoryPlan pack(std::span<const Lifetime> lifetimes) {
  MemoryPlan plan{std::vector<std::size_t>(lifetimes.size()), 0};
  std::vector<std::size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), 0);
  // Equal ones by place: not by stable_sort, which uses what C++20 has no more.
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
    return lifetimes[a].bytes != lifetimes[b].bytes ? lifetimes[a].bytes > lifetimes[b].bytes
                                                    : a < b;
  });
  for (auto at = order.begin(); at != order.end(); ++at) {
    const Lifetime& mine = lifetimes[*at];
    const std::size_t bytes = aligned(mine.bytes);
    if (bytes == 0) break;
    std::vector<std::pair<std::size_t, std::size_t>> taken;
    for (auto before = order.begin(); before != at; ++before) {
      if (!lifetimes[*before].meets(mine)) continue;
      const std::size_t from = plan.offsets[*before];
      taken.emplace_back(from, from + aligned(lifetimes[*before].bytes));
    }
    plan.offsets[*at] = lowest_gap(taken, bytes);
    plan.bytes = std::max(plan.bytes, plan.offsets[*at] + bytes);
  }
  return plan;
}

std::size_t most_alive(std::span<const Lifetime> lifetimes) {
  std::size_t most = 0;
  for (const Lifetime& at : lifetimes) {  // the most is where one begins
    std::size_t alive = 0;
    for (const Lifetime& other : lifetimes) {
      if (other.first <= at.first && at.first <= other.last) alive += aligned(other.bytes);
    }
    most = std::max(most, alive);
  }
  return most;
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
