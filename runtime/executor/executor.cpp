// Executors: from a call to the cache entry for its types, made where missing.
#include "heddle/executor.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <span>

#include "heddle/status.hpp"
#include "jit/code/code.hpp"
#include "jit/graph/state.hpp"
#include "jit/schedule/scalar_part.hpp"
#include "jit/system/inside.hpp"
#include "runtime/device/backend_state.hpp"
#include "runtime/device/device_state.hpp"
#include "runtime/executor/call.hpp"
#include "runtime/executor/key.hpp"
#include "runtime/executor/state.hpp"
#include "runtime/memory/array_state.hpp"
#include "scheduler/observe/log.hpp"

namespace heddle {
namespace rt {
namespace {

using Clock = std::chrono::steady_clock;

ExecutorGraph graph_of(const Entry& entry) {
  return {entry.graph->traced, entry.graph->code, entry.trace_time, entry.compile_time};
}

/// Tells whether the location is in the user's code: std::make_unique() and similar functions
/// report a line of the standard library.
bool is_users(const std::source_location& where) {
  return std::string_view(where.file_name()).find("/include/c++/") == std::string_view::npos;
}

ExecutorOptions with_name(ExecutorOptions options, const std::source_location& where) {
  if (!options.name.empty()) return options;
  const std::string_view file = where.file_name();
  if (!is_users(where)) {
    options.name = "executor";
    return options;
  }
  options.name = fmt::format("{}:{}", file.substr(file.rfind('/') + 1), where.line());
  return options;
}

}  // namespace

ExecutorState::ExecutorState(const Device& device, ExecutorOptions wanted,
                             const std::source_location& made_at)
    : devices{device},
      options(with_name(std::move(wanted), made_at)),
      where(made_at),
      always_tells(options.logger && !is_default(options.logger)),
      cache_(options.cache_max, options.cache_full) {
  const auto refuse = [&](std::string_view what) {
    const std::string place =
        is_users(where) ? fmt::format(", at {}:{}", where.file_name(), where.line()) : "";
    throw Error(ErrorCode::invalid_argument,
                fmt::format("executor '{}'{}: {}", options.name, place, what));
  };
  if (options.cache_max == 0)
    refuse("cache_max is 0 (expected 1 or more, or std::nullopt for no limit)");
  if (!options.compile.name.empty())
    refuse(
        "options.compile has a name (expected none: graphs have the executor's, see "
        "ExecutorOptions::name)");
  if (options.compile.trace_values)
    refuse("options.compile asks for trace_values; mark nodes with Node::log()");
}

void ExecutorState::require_open(const ExecutorCache::Visit& visit) const {
  if (!visit.closed()) return;
  if (cache_.is_inherited()) {
    throw Error(ErrorCode::unavailable,
                fmt::format("executor '{}': forked: this process is a child of the one that made "
                            "it; make another here, on a backend that was opened here",
                            name()));
  }
  throw Error(ErrorCode::failed_precondition,
              fmt::format("executor '{}' was finalised; make another", name()));
}

/// Without memory the scope stays unregistered, as the call may already be accepted.
ExecutorState::UserCode::UserCode(const ExecutorState& executor) noexcept : executor_(executor) {
  const std::lock_guard lock(executor_.in_user_code_mutex_);
  try {
    executor_.in_user_code_.push_back(me_);
    is_known_ = true;
  } catch (const std::bad_alloc&) {
  }
}

ExecutorState::UserCode::~UserCode() {
  if (!is_known_) return;
  const std::lock_guard lock(executor_.in_user_code_mutex_);
  executor_.in_user_code_.erase(std::ranges::find(executor_.in_user_code_, me_));
}

void ExecutorState::call(const executors::Arguments& arguments, const executors::Maker& maker,
                         executors::Sink& sink, const Device* on,
                         std::optional<ExecutorGraph>* graph) {
  const CallEnd end(*this);
  const Device& device = own_or(on);
  bool changed = false;
  {
    const ExecutorCache::Visit visit(cache_);
    require_open(visit);
    Entry* entry = find(arguments, *Inside::of(device)->backend);
    if (entry == nullptr) {
      changed = true;
      cache_.misses.add();
      const DeviceState& state = *Inside::of(device);
      rt::require_open(state);
      entry =
          &find_or_make(wanted_for(arguments, state), maker, limits_of(options.compile.timeout));
    }
    // before the launch, as the copy may throw
    if (graph != nullptr) graph->emplace(graph_of(*entry));
    changed |= launch(*entry, arguments, sink, device);
  }
  if (changed) cache_.sweep();
}

Entry* ExecutorState::find(const executors::Arguments& arguments,
                           const BackendState& backend) const {
  const bool donates = !options.donate.empty();
  Entry* const one_of_few = cache_.find_among_few(
      [&](std::string_view key) { return ExecutorKey::is(key, arguments, &backend, donates); });
  if (one_of_few != nullptr) return one_of_few;
  require_defined(arguments);
  ExecutorKey key(arguments, &backend, donates);
  Entry* const entry = cache_.find(key.hash(), key.bytes());
  if (entry != nullptr || !key.is_in_place()) return entry;
  key.be_plain();
  Entry* const plain = cache_.find(key.hash(), key.bytes());
  // relaxed: a call concurrent with the first compile() need not find the entry.
  return plain != nullptr && plain->is_ahead.load(std::memory_order_relaxed) ? plain : nullptr;
}

Entry& ExecutorState::make_ahead(const Wanted& wanted, const executors::Maker& maker,
                                 const jit::CompileLimits& limits) {
  Entry& entry = find_or_make(wanted, maker, limits);
  // relaxed: as in find().
  if (!wanted.is_in_place) entry.is_ahead.store(true, std::memory_order_relaxed);
  return entry;
}

/// Returns whether the call is the first call of the entry on the device.
bool ExecutorState::launch(Entry& entry, const executors::Arguments& arguments,
                           executors::Sink& sink, const Device& device) {
  Site* site = entry.find_site(Inside::of(device)->timeline->id());
  const bool is_first = site == nullptr;
  if (is_first) [[unlikely]]
    site = &add_site(entry, device);
  rt::call({*this, device, *site}, {arguments.leaves(), arguments.firsts()}, sink);
  return is_first;
}

Site& ExecutorState::add_site(Entry& entry, const Device& device) {
  return entry.add_site(Inside::of(device),
                        [&](SiteOwner gone) { cache_.retire(std::move(gone)); });
}

ExecutorState::Wanted ExecutorState::wanted_for(const executors::Arguments& arguments,
                                                const DeviceState& device) const {
  require_defined(arguments);
  const ExecutorKey key(arguments, device.backend.get(), !options.donate.empty());
  Wanted wanted{key.hash(), std::string(key.bytes()), {}, device.backend, key.is_in_place()};
  for (const executors::Leaf& leaf : arguments.leaves()) wanted.types.push_back(type_of(leaf));
  return wanted;
}

Entry& ExecutorState::find_or_make(const Wanted& wanted, const executors::Maker& maker,
                                   const jit::CompileLimits& limits) {
  return cache_.find_or_make(
      wanted.hash, wanted.key,
      [&](std::size_t number) { return make_entry(wanted, number, maker, limits); },
      [&](const auto& entries) { return full(wanted, entries); });
}

void ExecutorState::record(RecordingState& recording, const executors::Arguments& arguments,
                           const executors::Maker& maker, executors::Sink& sink, const Device* on) {
  const std::shared_ptr<Entry> entry = compile(arguments, maker, on);
  const Device& device = own_or(on);
  rt::record({*this, device, add_site(*entry, device)}, {arguments.leaves(), arguments.firsts()},
             recording, sink);
}

std::shared_ptr<Entry> ExecutorState::compile(const executors::Arguments& arguments,
                                              const executors::Maker& maker, const Device* on) {
  const CallEnd end(*this);
  std::shared_ptr<Entry> entry;
  {
    const ExecutorCache::Visit visit(cache_);
    no_calls.add();
    require_open(visit);
    const DeviceState& device = *Inside::of(own_or(on));
    rt::require_open(device);
    entry = make_ahead(wanted_for(arguments, device), maker, limits_of(options.compile.timeout))
                .shared_from_this();
  }
  cache_.sweep();
  return entry;
}

executors::PendingEntry ExecutorState::compile_async(const executors::Arguments& arguments,
                                                     std::shared_ptr<const executors::Maker> maker,
                                                     const Device* on) {
  // From here on finalize() waits for the compile.
  auto visit = std::make_shared<const ExecutorCache::Visit>(cache_);
  no_calls.add();
  require_open(*visit);
  const DeviceState& device = *Inside::of(own_or(on));
  rt::require_open(device);
  Wanted wanted = wanted_for(arguments, device);
  return start_compile<executors::EntryHandle>(
      device.backend->compiles, limits_of(options.compile.timeout),
      [self = shared_from_this(), visit = std::move(visit), wanted = std::move(wanted),
       maker = std::move(maker)](const jit::CompileLimits& limits) {
        return Inside::make<executors::EntryHandle>(
            self->make_ahead(wanted, *maker, limits).shared_from_this());
      });
}

void ExecutorState::call_entry(Entry& entry, const executors::Arguments& arguments,
                               executors::Sink& sink, bool checked, const Device* on) {
  const CallEnd end(*this);
  const ExecutorCache::Visit visit(cache_);
  require_open(visit);
  if (checked) check_types(entry, arguments);
  static_cast<void>(launch(entry, arguments, sink, own_or(on)));
}

std::shared_ptr<const CompiledGraph> ExecutorState::compile_graph(
    const TracedGraph& traced, const Wanted& wanted, const jit::CompileLimits& limits) const {
  try {
    CompileOptions compile = options.compile;
    const auto& variables = Inside::of(traced.graph())->variables;
    if (wanted.is_in_place ||
        std::ranges::any_of(variables, &jit::GraphState::VariableUse::updated))
      compile.schedule_without.push_back(ScheduleStep::stream);
    return std::make_shared<const CompiledGraph>(traced, wanted.backend, compile, limits);
  } catch (const Error& error) {
    std::vector<std::string> types;
    for (const ArrayType& type : wanted.types) types.push_back(type.to_string());
    throw Error(error.code(),
                fmt::format("executor '{}': graph '{}' of ({}) could not be compiled", name(),
                            traced.name(), first_few(types, ", ")),
                error.status());
  }
}

std::shared_ptr<Entry> ExecutorState::make_entry(const Wanted& wanted, std::size_t number,
                                                 const executors::Maker& maker,
                                                 const jit::CompileLimits& limits) {
  const auto begin = Clock::now();
  tracing::Tracer tracer(fmt::format("{}#{}", name(), number), options.argument_names, where);
  traces.add();
  const TracedGraph traced = [&] {
    const UserCode inside(*this);
    return maker.trace(tracer, wanted.types);
  }();
  if (options.nan_check) mark_floats(traced);
  const auto was_traced = Clock::now();
  auto compiled = compile_graph(traced, wanted, limits);
  auto entry =
      std::make_shared<Entry>(wanted.key, wanted.hash, number, std::move(compiled), name());
  entry->trace_time = was_traced - begin;
  entry->compile_time = Clock::now() - was_traced;
  compiles.add();
  sched::log_made(LogLevel::info, [&] {
    using Milliseconds = std::chrono::duration<double, std::milli>;
    return fmt::format("executor '{}': graph '{}' traced in {:.1f} ms, compiled in {:.1f} ms",
                       name(), traced.name(), Milliseconds(entry->trace_time).count(),
                       Milliseconds(entry->compile_time).count());
  });
  const jit::CodeData& code = *Inside::of(entry->graph->code);
  if (const auto& part = code.core->scalar_part) {
    sched::log_made(LogLevel::info, [&] {
      const auto label = [&](jit::BufferId buffer) { return code.label(buffer); };
      return fmt::format("executor '{}': in graph '{}', {}", name(), traced.name(),
                         jit::text_of(*part, label));
    });
  }
  return entry;
}

ExecutorStatistics ExecutorState::statistics() const {
  ExecutorStatistics statistics;
  const std::uint64_t no_call = no_calls.get();  // read first, as both counts grow
  statistics.calls = cache_.num_visits() - no_call;
  statistics.misses = cache_.misses.get();
  statistics.traces = traces.get();
  statistics.compiles = compiles.get();
  statistics.dropped = cache_.dropped.get();
  statistics.copies = copies.get();
  statistics.entries = cache_.entries().size();
  return statistics;
}

std::vector<ExecutorGraph> ExecutorState::graphs() const {
  std::vector<ExecutorGraph> graphs;
  for (const auto& entry : cache_.entries()) graphs.push_back(graph_of(*entry));
  return graphs;
}

void ExecutorState::finalize() {
  if (cache_.is_inherited()) return;  // locks may be held by threads of the parent
  const bool inside = [&] {
    const std::lock_guard lock(in_user_code_mutex_);
    return std::ranges::find(in_user_code_, Runner::here()) != in_user_code_.end();
  }();
  if (inside) {
    throw Error(ErrorCode::failed_precondition,
                fmt::format("executor '{}' is finalised inside of one of its own calls, which it "
                            "would wait for; do it after that",
                            name()));
  }
  cache_.close();
}

void ExecutorState::outlive(std::shared_ptr<ExecutorState> self) noexcept {
  const std::lock_guard lock(in_user_code_mutex_);
  self_ = std::move(self);
  // relaxed: the call that must see the flag runs this code.
  is_outlived_.store(true, std::memory_order_relaxed);
}

void ExecutorState::settle() noexcept {
  if (cache_.is_inherited()) return;
  std::shared_ptr<ExecutorState> self;  // may hold the last reference
  {
    const std::lock_guard lock(in_user_code_mutex_);
    if (!in_user_code_.empty()) return;  // the enclosing call settles
    self.swap(self_);
  }
  if (!self) return;
  try {
    cache_.close();
  } catch (const std::bad_alloc&) {  // the state is destroyed all the same
  }
}

/// Checks that every array has a value.
void ExecutorState::require_defined(const executors::Arguments& arguments) const {
  const std::span<const executors::Leaf> leaves = arguments.leaves();
  for (std::size_t k = 0; k < leaves.size(); ++k) {
    if (leaves[k].array == nullptr || leaves[k].array->defined()) continue;
    throw Error(ErrorCode::failed_precondition,
                fmt::format("executor '{}': array {} of the arguments' {} is an Array without a "
                            "value: Array() made it, and nothing was assigned to it",
                            name(), k, leaves.size()));
  }
}

/// Checks that the arguments have the types for which the entry was compiled.
void ExecutorState::check_types(const Entry& entry, const executors::Arguments& arguments) const {
  require_defined(arguments);
  const ExecutorKey key(arguments, entry.graph->backend.get(), false);
  if (ExecutorKey::types_in(key.bytes()) == ExecutorKey::types_in(entry.key)) return;
  const CompiledGraph& graph = *entry.graph;
  const std::size_t given = arguments.leaves().size();
  const std::string what = fmt::format("executor '{}', graph '{}'", name(), graph.traced.name());
  if (given != graph.num_arguments) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: compiled for {} arrays, but called with {}", what,
                            graph.num_arguments, given));
  }
  std::vector<std::string> wrong;
  for (std::size_t k = 0; k < given; ++k) {
    const ArrayType type = type_of(arguments.leaves()[k]);
    if (type == graph.parameters[k].type) continue;
    wrong.push_back(fmt::format("argument {} of {}, '{}': compiled for {}, called with {}", k,
                                given, graph.parameters[k].name,
                                graph.parameters[k].type.to_string(), type.to_string()));
  }
  if (wrong.empty()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: called with another structure than {}, which it was compiled for",
                            what, graph.traced.arguments().to_string()));
  }
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{}: {} argument{} from what it was compiled for: {}", what, wrong.size(),
                          wrong.size() == 1 ? " differs" : "s differ", first_few(wrong, "; ")));
}

Error ExecutorState::full(const Wanted& wanted,
                          const std::vector<std::shared_ptr<Entry>>& entries) const {
  // The closest entry: as many leaves, and the fewest different types; otherwise the last entry.
  const Entry* closest = entries.back().get();
  std::vector<std::string> types;
  bool found = false;
  for (const auto& entry : entries) {
    const CompiledGraph& graph = *entry->graph;
    if (graph.num_arguments != wanted.types.size()) continue;
    std::vector<std::string> differ;
    for (std::size_t k = 0; k < wanted.types.size(); ++k) {
      const CompiledGraph::Parameter& parameter = graph.parameters[k];
      if (parameter.type == wanted.types[k]) continue;
      differ.push_back(fmt::format("argument {} '{}': {}, compiled for {}", k, parameter.name,
                                   wanted.types[k].to_string(), parameter.type.to_string()));
    }
    if (found && differ.size() >= types.size()) continue;
    found = true;
    closest = entry.get();
    types = std::move(differ);
  }
  const CompiledGraph& graph = *closest->graph;
  std::string how;
  if (found && !types.empty()) {
    how = "with arguments of other types: " + first_few(types, ", ") +
          "; pad arguments to a few sizes (padded())";
  } else if (found && ExecutorKey::types_in(closest->key) == ExecutorKey::types_in(wanted.key)) {
    how = wanted.is_in_place ? "with large arguments that are donated; compile() it ahead, for both"
                             : "with large arguments that are not donated, as they were before; "
                               "compile() it ahead, for both";
  } else if (graph.backend != wanted.backend) {
    how = fmt::format("on a device of backend '{}', after one of '{}'; make an executor for each",
                      wanted.backend->spec.name, graph.backend->spec.name);
  } else {
    how = fmt::format("with another structure than {}; give it one structure",
                      graph.traced.arguments().to_string());
  }
  return Error(ErrorCode::exhausted,
               fmt::format("executor '{}' has as many graphs as its cache_max, {}, and is called "
                           "{}, raise ExecutorOptions::cache_max, or have what was called least "
                           "recently dropped (CacheFull::drop_least_recent)",
                           name(), *options.cache_max, how));
}

std::string first_few(const std::vector<std::string>& texts, const char* between) {
  constexpr std::size_t shown = 5;
  std::string text =
      fmt::format("{}", fmt::join(std::span(texts).first(std::min(shown, texts.size())), between));
  if (texts.size() > shown) text += fmt::format("{}and {} more", between, texts.size() - shown);
  return text;
}

}  // namespace rt

}  // namespace heddle
