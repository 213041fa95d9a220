// See about.hpp.
#include "jit/code/about.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_set>

namespace heddle::jit {

std::vector<std::string> about_kernels(const Loop& unoptimized,
                                       std::span<const KernelPart> kernels) {
  constexpr std::size_t shown_max = 3;
  std::vector<std::string> result(kernels.size());
  if (kernels.size() < 2) return result;
  std::unordered_set<std::string> own;  // excludes the comments of schedules
  for (const StmtPtr& stmt : unoptimized.body) {
    if (stmt->kind == StmtKind::comment) own.insert(stmt->text);
  }
  std::string present;  // stays in effect in the next kernel
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    std::vector<std::string> shown;
    for (const StmtPtr& stmt : kernels[k].loop.body) {
      const bool is_comment = stmt->kind == StmtKind::comment;
      if (is_comment && own.contains(stmt->text)) present = stmt->text;
      if (is_comment || present.empty() || shown.size() > shown_max) continue;
      if (std::ranges::find(shown, present) == shown.end()) shown.push_back(present);
    }
    if (shown.size() > shown_max) shown.back() = "...";
    result[k] = fmt::format("{}", fmt::join(shown, ", "));
  }
  return result;
}

}  // namespace heddle::jit
