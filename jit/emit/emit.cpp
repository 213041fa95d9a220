// See emit/emit.hpp. Pure functions; any thread.
#include "jit/emit/emit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_set>

#include "jit/loop/address.hpp"
#include "jit/loop/rewrite.hpp"
#include "jit/vector/lanes.hpp"

namespace heddle::jit {
namespace {

/// Long names are legal but useless; symbol tables and file names have limits.
constexpr std::size_t kernel_name_max = 1024;
/// A user's name may have any length; a comment only has to identify it.
constexpr std::size_t comment_bytes_max = 200;

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

[[noreturn]] void refuse(const CompileUnit& unit, const std::string& text) {
  throw Error(ErrorCode::invalid_argument,
              fmt::format("unit '{:.200}' cannot be compiled: {}", unit.name, text));
}

std::int64_t wrapping_sub(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
}

/// Returns false where the statement contains anything but prefetches.
bool collect(const Loop& loop, const Stmt& stmt, std::vector<PrefetchGroup>& to) {
  if (stmt.kind == StmtKind::loop && stmt.mark == LoopMark::unroll) {
    for (std::int64_t k = stmt.from; k < stmt.to; ++k) {
      for (const StmtPtr& inner : unrolled(stmt, k)) {
        if (!collect(loop, *inner, to)) return false;
      }
    }
    return true;
  }
  if (stmt.kind != StmtKind::prefetch) return false;
  const Affine at = flatten(loop.buffers[stmt.buffer].type, stmt.subscripts);
  auto group = std::ranges::find_if(to, [&](const PrefetchGroup& each) {
    return each.buffer == stmt.buffer && each.next == stmt.next && each.first.terms == at.terms;
  });
  if (group == to.end()) group = to.insert(group, {stmt.buffer, stmt.next, at, {}});
  group->distances.push_back(wrapping_sub(at.constant, group->first.constant));
  return true;
}

class FirstUses {
 public:
  explicit FirstUses(const Loop& loop) : used_(loop.buffers.size()) {}

  std::vector<BufferId> of(const StmtPtr& stmt) {
    std::vector<BufferId> first;
    const auto use = [&](BufferId buffer) {
      if (!used_[buffer]) first.push_back(buffer);
      used_[buffer] = true;
    };
    walk(Block{stmt}, [&](const Stmt& inner) {
      if (inner.kind == StmtKind::store || inner.kind == StmtKind::zero ||
          inner.kind == StmtKind::prefetch)
        use(inner.buffer);
      if (inner.value) value(*inner.value, use);
    });
    std::ranges::sort(first);
    return first;
  }

 private:
  template <class Use>
  void value(const Value& v, const Use& use) {
    if (!met_.insert(&v).second) return;
    if (v.kind == ValueKind::load) use(v.buffer);
    for (const ValuePtr& arg : v.args) value(*arg, use);
  }

  std::vector<bool> used_;
  std::unordered_set<const Value*> met_;
};

}  // namespace

std::vector<std::vector<BufferId>> first_uses(const Loop& loop) {
  FirstUses uses(loop);
  std::vector<std::vector<BufferId>> first;
  for (const StmtPtr& stmt : loop.body) first.push_back(uses.of(stmt));
  return first;
}

std::vector<PrefetchGroup> prefetch_groups(const Loop& loop, const Stmt& stmt) {
  std::vector<PrefetchGroup> result;
  if (!collect(loop, stmt, result)) result.clear();
  return result;
}

std::string kernel_symbol(std::string_view kernel_name) {
  return "heddle_run_" + std::string(kernel_name);
}

std::string heading(const KernelSource& kernel, std::string_view mark) {
  if (kernel.label.empty()) return fmt::format("{} kernel {}\n", mark, kernel.name);
  return fmt::format("{0} kernel {1}\n{0} {2}\n", mark, comment_text(kernel.label),
                     kernel_symbol(kernel.name));
}

void check_unit(const CompileUnit& unit) {
  std::set<std::string_view> names;
  for (const KernelSource& kernel : unit.kernels) {
    if (kernel.name.empty() || kernel.name.size() > kernel_name_max ||
        !std::ranges::all_of(kernel.name, is_name_char)) {
      refuse(unit, fmt::format("kernel name '{:.80}' (expected 1 to {} of A-Z a-z 0-9 _)",
                               kernel.name, kernel_name_max));
    }
    if (!names.insert(kernel.name).second)
      refuse(unit, fmt::format("two kernels are named '{}'", kernel.name));
    if (!kernel.loop) refuse(unit, fmt::format("kernel '{}' has no loops", kernel.name));
    if (kernel.addresses.size() > kernel.loop->buffers.size()) {
      refuse(unit, fmt::format("kernel '{}' embeds {} addresses for {} buffers", kernel.name,
                               kernel.addresses.size(), kernel.loop->buffers.size()));
    }
  }
}

std::string comment_text(std::string_view text) {
  std::string safe;
  for (const char c : text.substr(0, comment_bytes_max)) {
    const bool plain = c >= 0x20 && c < 0x7f && c != '\\' && c != '*' && c != '?';
    safe += plain ? c : (c == '*' ? '+' : '_');
  }
  return safe;
}

bool has_parallel_loops(const Loop& loop) noexcept {
  return std::ranges::any_of(loop.body, [](const StmtPtr& stmt) {
    return stmt->kind == StmtKind::loop && stmt->mark == LoopMark::parallel;
  });
}

std::shared_ptr<const LanePlan> lane_plan_of(const KernelSource& kernel, const Target& target) {
  if (kernel.lanes) return kernel.lanes;
  return std::make_shared<const LanePlan>(plan_lanes(kernel.loop, target));
}

std::optional<std::uint64_t> embedded_address(const KernelSource& kernel, std::size_t k) noexcept {
  return k < kernel.addresses.size() ? kernel.addresses[k] : std::nullopt;
}

}  // namespace heddle::jit
