// See executor_record.hpp.
#include "runtime/executor_record.hpp"

#include <functional>
#include <mutex>

#include "runtime/execution.hpp"
#include "scheduler/threads/never_destroyed.hpp"

namespace heddle::rt {
namespace {

RunInputs no_inputs() noexcept {
  static sched::NeverDestroyed<const std::function<void(const TracedValue&)>> no_trace;
  return {{}, nullptr, *no_trace};
}

}  // namespace

std::unique_ptr<CallRecord> CallRecord::make(Site& site, Execution& execution) {
  {
    const std::lock_guard lock(*execution.ledger);
    // No other operation is kept there.
    if (auto* const spare = static_cast<CallRecord*>(site.spares.take())) {
      spare->accesses.clear();
      return std::unique_ptr<CallRecord>(spare);
    }
  }
  return std::unique_ptr<CallRecord>(new CallRecord(site));
}

void CallRecord::accepted() noexcept { site_.launches.begin(); }

Status CallRecord::run(Execution& execution) {
  execution.count_launches(1);
  if (const auto plain = plain_kernel(execution, site_.loaded, tables))
    return run_plain(execution, site_.loaded.code, *plain, {});
  return run_.emplace(execution, site_.loaded, tables, no_inputs(), room_).all();
}

Status CallRecord::ended(Execution& /*execution*/, Status status) noexcept {
  return run_ ? run_->ended(std::move(status)) : status;
}

void CallRecord::retire(std::shared_ptr<Execution> /*execution*/) noexcept {
  run_.reset();
  scratch.reset();
  Site& site = site_;
  site.spares.give(*this);  // and may go with the site
  if (site.launches.end()) delete &site;
}

}  // namespace heddle::rt
