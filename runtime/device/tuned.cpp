// See runtime/device/tuned.hpp.
#include "runtime/device/tuned.hpp"

#include <fmt/format.h>

#include <utility>

#include "heddle/observe.hpp"
#include "heddle/status.hpp"
#include "jit/schedule/choices.hpp"

namespace heddle::rt {

jit::TunedFor Tuned::whose(const jit::CompileKey& program, bool reassociate) const {
  if (!reassociate) return {program, machine_};
  return {jit::KeyHasher().add(program).add("reassociate").finish(), machine_};
}

std::shared_ptr<const TunedSchedule> Tuned::find(const jit::CompileKey& program, bool reassociate) {
  const jit::TunedFor asked = whose(program, reassociate);
  {
    const std::scoped_lock lock(mutex_);
    if (const auto at = known_.find(asked.program); at != known_.end()) return at->second;
  }
  jit::KnownTuned kept = jit::known_tuned(folder_, asked);
  if (kept.report) {
    try {
      jit::check_choices(kept.report->choices(), target_);
    } catch (const Error& error) {
      kept.problem = fmt::format("it holds what cannot be used: {}", error.status().message());
    }
  }
  std::shared_ptr<const TunedSchedule> found;
  if (kept.report && kept.problem.empty())
    found = std::make_shared<const TunedSchedule>(*std::move(kept.report));
  std::unique_lock lock(mutex_);
  // Bounds the memory of a host that compiles new programs for ever.
  if (known_.size() >= known_max) std::erase_if(known_, [](const auto& at) { return !at.second; });
  const auto [at, is_new] = known_.try_emplace(asked.program, std::move(found));
  found = at->second;
  lock.unlock();
  if (is_new && !kept.problem.empty() && !kept.folder_refused) {
    log(LogLevel::warn,
        fmt::format("tuning file '{}' is not used: {}; the cost model chooses (heddle tune FILE "
                    "measures anew)",
                    kept.file.string(), kept.problem));
  }
  return found;
}

std::shared_ptr<const TunedSchedule> Tuned::keep(const jit::CompileKey& program, bool reassociate,
                                                 TunedSchedule report) {
  const jit::TunedFor asked = whose(program, reassociate);
  if (folder_.empty()) {
    report.problem = "there is no folder to keep it in, as there is no kernel cache";
  } else {
    try {
      report.file = jit::keep_tuned(folder_, report, asked).string();
    } catch (const Error& error) {
      report.problem = std::string(error.status().message());
    }
  }
  report.measured = false;  // readers of the stored report did not measure
  auto kept = std::make_shared<const TunedSchedule>(std::move(report));
  const std::scoped_lock lock(mutex_);
  known_.insert_or_assign(asked.program, kept);
  return kept;
}

}  // namespace heddle::rt
