// The methods of executors' handles, passed on to ExecutorState.
#include "heddle/executor_core.hpp"

#include <fmt/format.h>

#include <exception>
#include <new>
#include <utility>

#include "heddle/status.hpp"
#include "jit/system/inside.hpp"
#include "runtime/executor/state.hpp"
#include "scheduler/threads/what.hpp"

namespace heddle::executors {

Status caught() noexcept {
  try {
    throw;
  } catch (const Error& error) {
    return error.status();
  } catch (const std::bad_alloc& error) {
    return Status(ErrorCode::exhausted, [&] { return sched::what_of(error); });
  } catch (const std::exception& error) {
    return Status(ErrorCode::invalid_argument, [&] { return sched::what_of(error); });
  } catch (...) {
    return Status(ErrorCode::invalid_argument, "threw something that is no std::exception");
  }
}

Core::Core(const Device& device, ExecutorOptions options, const std::source_location& where)
    : handle_(std::make_shared<rt::ExecutorHandle>(
          std::make_shared<rt::ExecutorState>(device, std::move(options), where))) {}

void Core::call(const Arguments& arguments, const Maker& maker, Sink& sink, const Device* device,
                std::optional<ExecutorGraph>* graph) const {
  handle_->state->call(arguments, maker, sink, device, graph);
}

void Core::record(const Recording& recording, const Arguments& arguments, const Maker& maker,
                  Sink& sink, const Device* device) const {
  handle_->state->record(*Inside::of(recording), arguments, maker, sink, device);
}

EntryHandle Core::compile(const Arguments& arguments, const Maker& maker,
                          const Device* device) const {
  return Inside::make<EntryHandle>(handle_->state->compile(arguments, maker, device));
}

PendingEntry Core::compile_async(const Arguments& arguments, std::shared_ptr<const Maker> maker,
                                 const Device* device) const {
  return handle_->state->compile_async(arguments, std::move(maker), device);
}

void Core::call_entry(const EntryHandle& entry, const Arguments& arguments, Sink& sink,
                      bool checked, const Device* device) const {
  handle_->state->call_entry(*Inside::of(entry), arguments, sink, checked, device);
}

void Core::refuse_count(std::size_t wanted, std::size_t given) const {
  throw Error(ErrorCode::invalid_argument,
              fmt::format("executor '{}' takes {} array{}, and is given {}", name(), wanted,
                          wanted == 1 ? "" : "s", given));
}

const std::string& Core::name() const noexcept { return handle_->state->name(); }
const Device& Core::device() const noexcept { return handle_->state->devices.front(); }
ExecutorStatistics Core::statistics() const { return handle_->state->statistics(); }
std::vector<ExecutorGraph> Core::graphs() const { return handle_->state->graphs(); }
void Core::finalize() const { handle_->state->finalize(); }

}  // namespace heddle::executors
