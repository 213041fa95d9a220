// See runtime_world.hpp.
#include "tools/stress/runtime_world.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace heddle::stress {
namespace {

constexpr const char* backend_name = "played";

void register_played() {
  [[maybe_unused]] static const bool once = [] {
    register_backend({backend_name, "null", sched::Mode::threaded,
                      [] { return World::current()->make_devices(); }});
    return true;
  }();
}

/// Claims of a host, while it asks.
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

}  // namespace

World::World(Simulation& simulation, std::function<void(const std::string&)> tell)
    : simulation_(simulation),
      tell_(std::move(tell)),
      hardware_(simulation),
      automatic_(simulation.random(2) == 0) {
  model_.use(automatic_);
}

World*& World::current() {
  static thread_local World* world = nullptr;
  return world;
}

std::vector<std::shared_ptr<dev::PhysicalDevice>> World::make_devices() {
  kinds_.clear();
  const bool peers = draw(2) == 0;
  const bool all_run_ahead = draw(3) == 0;
  const std::uint64_t count = 1 + draw(2);
  for (std::uint64_t k = 0; k < count; ++k) {
    kinds_.push_back({.own_memory = draw(2) == 0,
                      .runs_ahead = all_run_ahead || draw(2) == 0,
                      .is_peer = peers});
  }
  return hardware_.make(kinds_);
}

void World::open_backend() {
  register_played();
  BackendOptions options;
  options.name = backend_name;
  options.scheduler = simulation_.scheduler();
  options.cache = false;
  options.sync = automatic_ ? Sync::automatic : Sync::manual;
  options.scheduling.device.queue_size = std::uint32_t{1} << draw(6);
  options.scheduling.device.full =
      draw(2) == 0 ? sched::FullPolicy::block : sched::FullPolicy::fail;
  current() = this;
  Backend backend = Backend::open(options);
  backends_.push_back({std::move(backend), kinds_, spaces_ + 1});
  spaces_ += kinds_.size();
}

std::shared_ptr<Seat> World::open_seat(std::size_t backend) {
  const Opened& opened = backends_[backend];
  const std::uint64_t ordinal = draw(opened.kinds.size());
  const PlayedKind kind = opened.kinds[ordinal];
  const std::uint64_t space = kind.own_memory ? opened.first_space + ordinal : 0;
  for (int k = 0; k < 1000; ++k) {
    try {
      Device device =
          opened.backend.physical_device(static_cast<int>(ordinal)).new_virtual_device();
      return std::make_shared<Seat>(
          Seat{std::move(device), backend, space, kind.runs_ahead, opened.gone});
    } catch (const Error& e) {
      if (e.code() == ErrorCode::failed_precondition) return nullptr;  // finalised meanwhile
      expect(e.status(), {ErrorCode::unavailable, ErrorCode::exhausted}, "opening a device");
    }
  }
  simulation_.fail("no device can be opened");
  return nullptr;
}

void World::close() {
  events_.clear();
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

std::vector<Event> World::comes_after(const Work& work) const {
  std::vector<Event> events_before;
  if (automatic_) return events_before;  // heddle sees to it
  const std::uint64_t here = work.seat->device.timeline().id();
  for (const Touch& touch : work.touches) {
    for (const Right::Use& use : touch.right->uses) {
      const bool matters = (touch.writes || use.writes) && use.event.device_id() != here;
      if (matters && !use.event.done()) events_before.push_back(use.event);
    }
  }
  return events_before;
}

void World::note(const Work& work, const Event& event) {
  for (const Touch& touch : work.touches) {
    auto& uses = touch.right->uses;
    std::erase_if(uses, [](const Right::Use& use) { return use.event.done(); });
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
  const auto lacks_something = [&] {
    return work.seat->gone || (work.finalized && work.finalized()) ||
           std::ranges::any_of(work.touches,
                               [](const Touch& touch) { return touch.right->donated; });
  };
  const bool must_be_refused = work.must_be_refused || lacks_something();
  // Where a queue runs ahead, what comes after a failure may have taken effect when that is told.
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
    if (status.code() == ErrorCode::failed_precondition && request.not_written) return false;
    const bool may = must_be_refused || work.may_be_refused || lacks_something();
    if (status.code() == ErrorCode::failed_precondition && may) return false;
    expect(
        status,
        {ErrorCode::exhausted, ErrorCode::device_failed, ErrorCode::deadline, ErrorCode::cancelled},
        request.name);
    return false;
  }
  ++accepted;
  if (must_be_refused) {
    simulation_.fail(
        fmt::format("{} ({}) was accepted, and uses what was donated or finalised, or "
                    "what the merge buffer does not hold",
                    request.name, event.to_string()));
  }
  if (work.waits) {
    request.end = Request::End::took_effect;
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
  const auto lacks_something = [&] {
    return std::ranges::any_of(works, [](const Work& work) {
      return work.seat->gone || work.finalized() ||
             std::ranges::any_of(work.touches,
                                 [](const Touch& touch) { return touch.right->donated; });
    });
  };
  const bool must_be_refused = lacks_something();
  std::vector<Request*> requests;
  Events after;
  for (const Work& work : works) {
    requests.push_back(&model_.add(work.request));
    requests.back()->partly = true;  // a task does several
    const Events some = comes_after(work);
    after.insert(after.end(), some.begin(), some.end());
  }
  Events events;
  const Status status = attempt([&] { events = call(after); });
  for (std::size_t k = 0; k < works.size(); ++k)
    tell(*requests[k], *works[k].seat, status.ok() ? events[k] : Event(), status);
  if (!status.ok()) {
    ++refused;
    for (Request* const request : requests) {
      if (partly) request->end = Request::End::anything;
      request->perhaps_bad = partly;
    }
    const bool not_written = status.message().find("not written") != std::string_view::npos;
    if (status.code() == ErrorCode::failed_precondition &&
        (not_written || partly || must_be_refused || lacks_something()))
      return false;
    expect(
        status,
        {ErrorCode::exhausted, ErrorCode::device_failed, ErrorCode::deadline, ErrorCode::cancelled},
        "a replay");
    return false;
  }
  ++accepted;
  if (must_be_refused)
    simulation_.fail("a replay was accepted, and uses what was donated or finalised");
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
    text += fmt::format(", {} memory {} from {}", what, part.memory, part.at);
  };
  if (request.kind != Request::Kind::read) slice("to", request.to);
  if (request.kind == Request::Kind::read || request.kind == Request::Kind::copy)
    slice("from", request.from);
  if (request.kind == Request::Kind::compute) {
    for (std::size_t k = 0; k < num_operands; ++k) {
      if (request.formula->factors[k] != 0) slice("reads", request.operands[k]);
    }
  }
  tell_(text);
}

bool World::expect(const Status& status, std::initializer_list<ErrorCode> codes, const char* what) {
  if (std::ranges::find(codes, status.code()) != codes.end()) return true;
  simulation_.fail(fmt::format("{}: {}", what, status.to_string()));
  return false;
}

}  // namespace heddle::stress
