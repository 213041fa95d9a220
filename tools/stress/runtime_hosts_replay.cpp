// Recording calls, and running the replays repeatedly.
#include <algorithm>
#include <utility>

#include "jit/system/inside.hpp"
#include "runtime/replay/replay_state.hpp"
#include "tools/stress/runtime_hosts.hpp"

namespace heddle::stress {

void RuntimeHosts::replay() {
  if (!recorded_.empty() && draw(2) == 0) return run(recorded_[draw(recorded_.size())]);
  Recording recording("recorded");
  std::vector<World::Work> works;
  std::optional<Replay> made;
  const std::uint64_t calls = 1 + draw(6);
  const Status status = attempt([&] {
    for (std::uint64_t k = 0; k < calls; ++k) {
      static_cast<void>(record(recording, works));
    }
    if (!works.empty()) made = recording.finish();
  });
  if (!status.ok()) {
    const bool may = status.code() == ErrorCode::failed_precondition &&
                     std::ranges::any_of(works, [](const World::Work& work) {
                       return work.seat->gone || work.finalized() ||
                              std::ranges::any_of(work.touches, [](const Touch& touch) {
                                return touch.right->donated;
                              });
                     });
    if (!may) world_.expect(status, {ErrorCode::exhausted, ErrorCode::device_failed}, "recording");
    return;
  }
  if (!made) return;
  auto recorded = std::make_shared<const Recorded>(Recorded{*made, std::move(works)});
  if (recorded_.size() < 3) {
    recorded_.push_back(recorded);
  } else {
    recorded_[draw(3)] = recorded;
  }
  run(recorded);
}

/// false: the drawn call is impossible.
bool RuntimeHosts::record(Recording& recording, std::vector<World::Work>& works) {
  const PlacePointer place = any_place();
  World::Work work;
  if (draw(3) == 0) {
    const auto tensor = any_tensor(*place);
    const PlacePointer from = tensor ? any_place_with(*tensor) : nullptr;
    if (!from) return false;
    const Part to = *place->parts[static_cast<std::size_t>(*tensor)];
    const Part source = *from->parts[static_cast<std::size_t>(*tensor)];
    if (source.is_place_of(to)) return false;
    work = {place->seat,
            {{to.right, true}, {source.right, false}},
            copy_request("recorded copy", to, source)};
    work.finalized = [place, from] { return place->finalized || from->finalized; };
    works.push_back(work);
    static_cast<void>(recording.copy(programs_.tensors[static_cast<std::size_t>(*tensor)],
                                     from->context, place->context));
    return true;
  }
  if (!fill_in(place, work)) return false;
  work.request.name = "recorded routine";
  work.request.any_row = true;
  if (!place->formula->merges) {
    works.push_back(work);
    Bindings bindings;
    if (place->formula->one_row) bindings = {{programs_.row, work.request.row}};
    recording.schedule(*place->routine, bindings);
    return true;
  }
  const Operand tensor = *place->formula->merges;
  const PlacePointer source = any_place_with(tensor);
  if (!source) return false;
  const Part& from = *source->parts[static_cast<std::size_t>(tensor)];
  work.request.operands[static_cast<std::size_t>(Operand::merged)] = from.slice();
  work.touches.push_back({from.right, false});
  work.finalized = [place, source] { return place->finalized || source->finalized; };
  works.push_back(work);
  recording.merge(*place->routine, source->context,
                  draw(2) == 0 ? MergeMode::copy : MergeMode::stream);
  return true;
}

void RuntimeHosts::run(std::shared_ptr<const Recorded> recorded) {  // other hosts may release it
  const rt::ReplayState& state = *Inside::of(recorded->replay);
  bool partly = false;
  const auto merges = [&](std::size_t call) { return state.calls()[call]->merge != nullptr; };
  const auto call = [&](const Events& after) {
    for (const World::Work& work : recorded->works) {
      for (const Touch& touch : work.touches) touch.right->replayed = true;
    }
    ReplayOptions options;
    options.after = after;
    if (draw(4) == 0) options.full = sched::FullPolicy::fail;
    std::vector<Event> ends, events(recorded->works.size());
    const Status status = attempt([&] {
      ends = world_.have([&] { return state.run({}, options, std::source_location::current()); });
    });
    for (const World::Work& work : recorded->works) {
      for (const Touch& touch : work.touches) touch.right->replayed = false;
    }
    if (!status.ok()) {
      partly = status.message().find("were submitted") != std::string_view::npos;
      for (std::size_t k = 0; k < events.size(); ++k)
        recorded->works[k].seat->slot.unknown |= partly && merges(k);
      throw Error(status);
    }
    for (std::size_t k = 0; k < ends.size(); ++k) {
      for (const std::size_t each : state.tasks()[k].calls) events[each] = ends[k];
    }
    for (std::size_t k = 0; k < events.size(); ++k) {
      if (merges(k)) note_cleared(*recorded->works[k].seat, events[k]);
    }
    return events;
  };
  if (!world_.ask_all(recorded->works, call, partly)) return;
  ++replayed;
  // Cancels tasks of the replay that still wait: other tasks may come after them.
  if (draw(4) == 0) cancel(*recorded->works[draw(recorded->works.size())].seat);
}

}  // namespace heddle::stress
