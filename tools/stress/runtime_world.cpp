// See runtime_world.hpp.
#include "tools/stress/runtime_world.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "jit/system/inside.hpp"
#include "runtime/device/device_state.hpp"
#include "runtime/device/execution.hpp"

namespace heddle::stress {
namespace {

/// Claims of a host during a request.
class Claims {
 public:
  explicit Claims(const std::vector<Touch>& touches) : touches_(touches) {
    for (const Touch& touch : touches_) touch.right->claimed = true;
  }
  ~Claims() {
    for (const Touch& touch : touches_) touch.right->claimed = false;
  }
  Claims(const Claims&) = delete;
  Claims& operator=(const Claims&) = delete;

 private:
  const std::vector<Touch>& touches_;
};

/// Shared by all hosts: an end observed in a task orders only work after that task.
bool seen_to_end(const Event& event) { return !this_task::running() && event.done(); }

/// Automatic order in half of all runs.
Sync drawn_sync(std::uint64_t drawn, Planted planted) {
  if (drawn < 2 && planted != Planted::one_wait_less) return Sync::automatic;
  return drawn % 2 == 0 ? Sync::manual : Sync::check;
}

}  // namespace

World::World(Stage& stage, std::function<void(const std::string&)> tell, Planted planted)
    : stage_(stage),
      tell_(std::move(tell)),
      planted_(planted),
      sync_(drawn_sync(stage.draw(4), planted)) {
  model_.use(automatic());
  if (tell_) {
    tell_(automatic() ? "order: heddle's"
          : checked() ? "order: the hosts', checked"
                      : "order: the hosts'");
  }
}

void World::open_backend() {
  BackendOptions options;
  options.name = stage_.backend();
  options.scheduler = stage_.scheduler();
  options.cache = false;
  options.sync = planted_ == Planted::no_waits ? Sync::manual : sync_;
  options.on_missing_order = [missing = missing_](const MissingOrder& order) {
    const std::lock_guard lock(missing->mutex);
    if (missing->first.empty()) missing->first = order.to_string();
  };
  options.scheduling.device.queue_size = std::uint32_t{1} << draw(6);
  options.scheduling.device.full =
      draw(2) == 0 ? sched::FullPolicy::block : sched::FullPolicy::fail;
  backends_.push_back({Backend::open(options)});
}

std::shared_ptr<Seat> World::open_seat(std::size_t backend) {
  const Opened& opened = backends_[backend];  // other hosts may open more
  const auto devices = static_cast<std::uint64_t>(opened.backend.num_physical_devices());
  const auto ordinal = static_cast<int>(draw(devices));
  for (int k = 0; k < 1000; ++k) {
    try {
      const Device device =
          have([&] { return opened.backend.physical_device(ordinal).new_virtual_device(); });
      const auto& execution = *Inside::of(device)->execution;
      auto seat = std::make_shared<Seat>(Seat{device, backend,
                                              execution.physical->properties().memory_space,
                                              execution.queue->runs_ahead(), opened.gone});
      if (stage_.has_threads()) seats_.push_back(seat);
      return seat;
    } catch (const Error& e) {
      if (e.code() == ErrorCode::failed_precondition) return nullptr;  // finalised meanwhile
      expect(e.status(), {ErrorCode::unavailable, ErrorCode::exhausted}, "opening a device");
    }
  }
  stage_.fail("no device can be opened");
  return nullptr;
}

std::string World::check() {
  {
    const std::lock_guard lock(missing_->mutex);
    if (!missing_->first.empty()) return missing_->first;
  }
  return model_.check();
}

void World::close() {
  events_.clear();
  seats_.clear();
  backends_.clear();
}

std::shared_ptr<Right> World::new_right(const Seat& seat, BufferView view, std::size_t cells) {
  auto right = std::make_shared<Right>();
  right->memory = model_.add_memory(cells);
  right->space = seat.space;
  right->runs_ahead = seat.runs_ahead;
  right->view = std::move(view);
  return right;
}

BufferView Part::view() const {
  const ArrayType type{i64, {static_cast<std::int64_t>(cells)}};
  return {right->view->buffer(), type, at * sizeof(std::uint64_t)};
}

Request read_request(const char* name, const Part& from, const Values& seen) {
  Request request{.kind = Request::Kind::read, .name = name};
  request.from = from.slice();
  request.seen = &seen;
  return request;
}

Request copy_request(const char* name, const Part& to, const Part& from) {
  Request request{.kind = Request::Kind::copy, .name = name};
  request.to = to.slice();
  request.from = from.slice();
  return request;
}

Request values_request(const char* name, const Part& to, const Values& values) {
  Request request{.kind = Request::Kind::values, .name = name};
  request.to = to.slice();
  request.numbers = values;
  return request;
}

void World::zero(const Part& part) {
  Request request = values_request("zero", part, {});
  request.end = Request::End::took_effect;
  model_.add(request);
}

std::vector<Event> World::comes_after(const Work& work) {
  std::vector<Event> events_before;
  if (automatic() || planted_ == Planted::no_waits) return events_before;  // heddle's, or nobody's
  const std::uint64_t here = work.seat->device.timeline().id();
  for (const Touch& touch : work.touches) {
    for (const Right::Use& use : touch.right->uses) {
      const bool matters = (touch.writes || use.writes) && use.event.device_id() != here;
      if (matters && !seen_to_end(use.event)) events_before.push_back(use.event);
    }
  }
  const bool leaves_out = planted_ == Planted::one_wait_less && !left_out_;
  if (leaves_out && !events_before.empty() && draw(3) == 0) leave_out_one(events_before, work);
  return events_before;
}

/// Keeps one event per device: a later event implies the earlier ones.
void World::leave_out_one(std::vector<Event>& events_before, const Work& work) {
  left_out_ = true;
  const Event left_out = events_before[draw(events_before.size())];
  std::erase_if(events_before,
                [&](const Event& each) { return each.device_id() == left_out.device_id(); });
  if (tell_)
    tell_(fmt::format("left out: what {} is asked for next does not wait for {}",
                      work.seat->device.name(), left_out.to_string()));
}

void World::note(const Work& work, const Event& event) {
  for (const Touch& touch : work.touches) {
    auto& uses = touch.right->uses;
    std::erase_if(uses, [](const Right::Use& use) { return seen_to_end(use.event); });
    uses.push_back({event, touch.writes});
  }
  publish(event);
}

void World::publish(const Event& event) {
  if (events_.size() < 16) {
    events_.push_back(event);
  } else {
    events_[draw(16)] = event;
  }
}

Event World::any_event() { return events_.empty() ? Event() : events_[draw(events_.size())]; }

bool World::ask(Work work, const std::function<Event(const std::vector<Event>&)>& call) {
  for (const Touch& touch : work.touches) {
    if (touch.right->claimed) return false;
  }
  const Claims claims(work.touches);
  const auto lacks_something = [&](bool device) {
    return device || (work.finalized && work.finalized()) ||
           std::ranges::any_of(work.touches,
                               [](const Touch& touch) { return touch.right->donated; });
  };
  const bool must_be_refused = work.must_be_refused || lacks_something(work.seat->closed);
  // Where a queue runs ahead, work behind a failure may have taken effect before the failure is
  // reported.
  const bool ahead =
      work.seat->runs_ahead ||
      std::ranges::any_of(work.touches, [](const Touch& touch) { return touch.right->runs_ahead; });
  Request& request = model_.add(std::move(work.request));
  request.partly = request.partly || ahead;
  Event event;
  const Status status = attempt([&] { event = call(comes_after(work)); });
  tell(request, *work.seat, event, status);
  if (!status.ok()) {
    ++refused;
    if (work.waits && ahead) request.end = Request::End::anything;
    request.perhaps_bad = work.waits;
    request.not_written = status.message().find("not written") != std::string_view::npos;
    request.refusal = status.message();
    // The wait of a task may fail before the awaited work has ended.
    if (work.waits && this_task::running()) note(work, work.seat->device.record());
    if (status.code() == ErrorCode::failed_precondition && request.not_written) return false;
    const bool may = must_be_refused || work.may_be_refused || lacks_something(work.seat->gone);
    if (status.code() == ErrorCode::failed_precondition && may) return false;
    expect(
        status,
        {ErrorCode::exhausted, ErrorCode::device_failed, ErrorCode::deadline, ErrorCode::cancelled},
        request.name);
    return false;
  }
  ++accepted;
  if (must_be_refused) {
    stage_.fail(
        fmt::format("{} ({}) was accepted, and uses what was donated or finalised, or "
                    "what the merge buffer does not hold",
                    request.name, event.to_string()));
  }
  if (work.waits) {
    request.end = Request::End::took_effect;
    // no other host has seen the event
    if (this_task::running()) note(work, work.seat->device.record());
  } else {
    request.event = event;
    note(work, event);
  }
  return true;
}

bool World::ask_all(const std::vector<Work>& works,
                    const std::function<Events(const Events&)>& call, const bool& partly) {
  std::vector<Touch> touches;
  for (const Work& work : works)
    touches.insert(touches.end(), work.touches.begin(), work.touches.end());
  if (std::ranges::any_of(touches, [](const Touch& touch) { return touch.right->claimed; }))
    return false;
  const Claims claims(touches);
  const auto lacks_something = [&](bool Seat::* device) {
    return std::ranges::any_of(works, [&](const Work& work) {
      return (*work.seat).*device || work.finalized() ||
             std::ranges::any_of(work.touches,
                                 [](const Touch& touch) { return touch.right->donated; });
    });
  };
  const bool must_be_refused = lacks_something(&Seat::closed);
  std::vector<Request*> requests;
  Events after;
  for (const Work& work : works) {
    requests.push_back(&model_.add(work.request));
    requests.back()->partly = true;  // one task has several requests
    const Events some = comes_after(work);
    after.insert(after.end(), some.begin(), some.end());
  }
  Events events;
  const Status status = attempt([&] { events = call(after); });
  for (std::size_t k = 0; k < works.size(); ++k)
    tell(*requests[k], *works[k].seat, status.ok() ? events[k] : Event(), status);
  if (!status.ok()) {
    ++refused;
    for (std::size_t k = 0; partly && k < works.size(); ++k) {
      requests[k]->end = Request::End::anything;
      requests[k]->perhaps_bad = true;
      note(works[k], works[k].seat->device.record());  // covers this work's task, and others
    }
    const bool not_written = status.message().find("not written") != std::string_view::npos;
    if (not_written && !partly) {
      requests.front()->refused_with = requests.size();
      requests.front()->refusal = status.message();
    }
    if (status.code() == ErrorCode::failed_precondition &&
        (not_written || partly || must_be_refused || lacks_something(&Seat::gone)))
      return false;
    expect(
        status,
        {ErrorCode::exhausted, ErrorCode::device_failed, ErrorCode::deadline, ErrorCode::cancelled},
        "a replay");
    return false;
  }
  ++accepted;
  if (must_be_refused) stage_.fail("a replay was accepted, and uses what was donated or finalised");
  for (std::size_t k = 0; k < works.size(); ++k) {
    requests[k]->event = events[k];
    note(works[k], events[k]);
  }
  return true;
}

void World::tell(const Request& request, const Seat& seat, const Event& event,
                 const Status& refusal) {
  if (!tell_) return;
  std::string text =
      fmt::format("{} on {}: {}", request.name, seat.device.name(),
                  refusal.ok() ? event.to_string() : "refused: " + refusal.to_string());
  const auto slice = [&](const char* what, const Slice& part) {
    text += fmt::format(", {} memory {}, cells {} to {}", what, part.memory, part.at,
                        part.at + part.cells);
  };
  if (request.kind != Request::Kind::read) slice("to", request.to);
  if (request.kind != Request::Kind::values && request.kind != Request::Kind::compute)
    slice("from", request.from);
  if (request.kind == Request::Kind::compute) {
    for (std::size_t k = 0; k < num_operands; ++k) {
      if (request.formula->factors[k] != 0) slice("reads", request.operands[k]);
    }
  }
  tell_(text);
}

void World::tell_of(const char* what, const Part& part) {
  if (tell_) tell_(fmt::format("{}: memory {}", what, part.right->memory));
}

bool World::expect(const Status& status, std::initializer_list<ErrorCode> codes, const char* what) {
  if (std::ranges::find(codes, status.code()) != codes.end()) return true;
  stage_.fail(fmt::format("{}: {}", what, status.to_string()));
  return false;
}

}  // namespace heddle::stress
