// The actions of hosts in a random run of the tensor runtime, drawn from the seed. Callers hold the
// stage.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "heddle/replay.hpp"
#include "tools/stress/runtime_world.hpp"

namespace heddle::stress {

/// A context, and its contents.
struct Place {
  std::shared_ptr<Seat> seat;
  Context context;
  std::array<std::optional<Part>, num_tensors> parts{};
  std::optional<Routine> routine{};  ///< the routine whose link made the context
  const Formula* formula = nullptr;
  bool finalized = false;
};

/// A replay, and the requests of its calls.
struct Recorded {
  Replay replay;
  std::vector<World::Work> works;
};

class RuntimeHosts {
 public:
  explicit RuntimeHosts(World& world);
  /// Opens the given number of devices, with a context on each.
  void begin(std::uint64_t devices);
  // Called in a host:

  /// Performs a random action.
  void act();
  /// Links a program in a random context.
  void link();
  /// Reads all memory, on recovered devices.
  void read_all();
  /// Releases all handles.
  void end();

  std::uint64_t cancelled = 0, donated = 0, finalized = 0, merged = 0, replayed = 0, shared = 0;

 private:
  using Time = std::chrono::nanoseconds;
  using PlacePointer = std::shared_ptr<Place>;
  using Events = std::vector<Event>;

  [[nodiscard]] std::uint64_t draw(std::uint64_t bound) { return world_.draw(bound); }
  [[nodiscard]] Time draw_time() { return Time(1000 << draw(14)); }
  [[nodiscard]] std::shared_ptr<Seat> any_seat() { return seats_[draw(seats_.size())]; }
  [[nodiscard]] PlacePointer any_place() { return places_[draw(places_.size())]; }
  /// A place whose context holds the tensor; null: the drawn places do not.
  [[nodiscard]] PlacePointer any_place_with(Operand tensor);
  [[nodiscard]] std::optional<Operand> any_tensor(const Place& place);
  void add(PlacePointer place);
  [[nodiscard]] TransferOptions transfer(const Events& after);

  // Computing.
  void note_linked(Place& child, const Formula& formula);
  /// Called in a task: without waits for queue space.
  void schedule(const PlacePointer& place, bool in_task);
  bool fill_in(const PlacePointer& place, World::Work& work);
  [[nodiscard]] Event submit(const Place& place, const World::Work& work, const Events& after,
                             bool in_task);
  void merge_into(const PlacePointer& place);
  void load();
  void consume(const PlacePointer& place);
  void note_cleared(Seat& seat, const Event& by);
  // Replays.
  void replay();
  [[nodiscard]] bool record(Recording& recording, std::vector<World::Work>& works);
  void run(std::shared_ptr<const Recorded> recorded);
  // Transfers.
  void copy_tensor();
  void copy_views();
  void read(bool in_task);
  void write();
  void move_host_array();
  void view_to_host();
  void view_from_host();
  // Memory shared by several devices, in parts.
  [[nodiscard]] std::optional<Part> any_part();
  [[nodiscard]] Part some_of(Part part, std::size_t cells);
  void share();
  void host_work();
  // Ownership.
  void allocate();
  void donate();
  void finalize_context();
  void finalize_device();
  void finalize_backend();
  void note_going(Seat& seat);
  void replace(const std::shared_ptr<Seat>& gone);
  // Failures.
  void fail_task();
  void run_in_task();
  void cancel(const Seat& seat);
  void recover(const Seat& seat);
  void wait();

  World& world_;
  const RuntimePrograms& programs_;
  std::shared_ptr<Right> host_;  // the right to h's storage
  std::vector<std::shared_ptr<Seat>> seats_;
  std::vector<PlacePointer> places_;
  std::vector<Part> arrays_;  // in buffers without a tensor
  std::vector<std::weak_ptr<Right>> rights_;
  std::vector<std::shared_ptr<const Recorded>> recorded_;
  std::optional<sched::TaskDevice> own_;  // the host's, on the same scheduler
};

}  // namespace heddle::stress
