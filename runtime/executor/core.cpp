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

namespace {

/// What handles share: the last handle finalises.
std::shared_ptr<rt::ExecutorState> shared(std::shared_ptr<rt::ExecutorState> state) {
  rt::ExecutorState* const executor = state.get();
  return {executor, [state = std::move(state)](rt::ExecutorState*) noexcept {
            try {
              state->finalize();
            } catch (...) {
              state->outlive(state);
            }
          }};
}

}  // namespace

Core::Core(const Device& device, ExecutorOptions options, const std::source_location& where)
    : state_(shared(std::make_shared<rt::ExecutorState>(device, std::move(options), where))) {}

void Core::call(const Arguments& arguments, const Maker& maker, Sink& sink, const Device* device,
                std::optional<ExecutorGraph>* graph) const {
  state_->call(arguments, maker, sink, device, graph);
}

void Core::record(const Recording& recording, const Arguments& arguments, const Maker& maker,
                  Sink& sink, const Device* device) const {
  state_->record(*Inside::of(recording), arguments, maker, sink, device);
}

EntryHandle Core::compile(const Arguments& arguments, const Maker& maker,
                          const Device* device) const {
  return Inside::make<EntryHandle>(state_->compile(arguments, maker, device));
}

PendingEntry Core::compile_async(const Arguments& arguments, std::shared_ptr<const Maker> maker,
                                 const Device* device) const {
  return state_->compile_async(arguments, std::move(maker), device);
}

void Core::call_entry(const EntryHandle& entry, const Arguments& arguments, Sink& sink,
                      bool checked, const Device* device) const {
  state_->call_entry(*Inside::of(entry), arguments, sink, checked, device);
}

void Core::refuse_count(std::size_t wanted, std::size_t given) const {
  throw Error(ErrorCode::invalid_argument,
              fmt::format("executor '{}' takes {} array{}, and is given {}", name(), wanted,
                          wanted == 1 ? "" : "s", given));
}

const std::string& Core::name() const noexcept { return state_->name(); }
const Device& Core::device() const noexcept { return state_->devices.front(); }
ExecutorStatistics Core::statistics() const { return state_->statistics(); }
std::vector<ExecutorGraph> Core::graphs() const { return state_->graphs(); }
void Core::finalize() const { state_->finalize(); }

}  // namespace heddle::executors
