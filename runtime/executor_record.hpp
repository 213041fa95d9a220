// A launch of what an executor compiled, as the queue of its device holds it.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "runtime/executor_entry.hpp"
#include "runtime/steps.hpp"
#include "runtime/submit.hpp"

namespace heddle::rt {

/// Once it has ended it is left to others of its site, empty.
class CallRecord final : public Operation {
 public:
  /// One that is spare, or a new one.
  [[nodiscard]] static std::unique_ptr<CallRecord> make(Site& site, Execution& execution);

  /// To be filled in.
  Tables tables;
  Accesses accesses;
  std::shared_ptr<const Memory> scratch;

  Status run(Execution& execution) override;
  Status ended(Execution& execution, Status status) noexcept override;
  void accepted() noexcept override;

 private:
  explicit CallRecord(Site& site) : site_(site) {}
  void retire(std::shared_ptr<Execution> execution) noexcept override;

  Site& site_;  // has its spares
  Run::Room room_;
  std::optional<Run> run_;  // goes first
};

}  // namespace heddle::rt
