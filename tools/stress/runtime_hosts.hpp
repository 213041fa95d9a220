// What hosts of a random run of the tensor runtime do: actions drawn from the seed. For who holds
// the stage.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "heddle/replay.hpp"
#include "tools/stress/runtime_world.hpp"

namespace heddle::stress {

/// A context, and what it holds.
struct Place {
  std::shared_ptr<Seat> seat;
  Context context;
  std::array<std::optional<Part>, num_tensors> parts{};
  std::optional<Routine> routine{};  ///< whose link made it
  const Formula* formula = nullptr;
  bool finalized = false;
};

/// A replay, and what each of its calls asks for.
struct Recorded {
  Replay replay;
  std::vector<World::Work> works;
};

class RuntimeHosts {
 public:
  explicit RuntimeHosts(World& world);
  /// So many devices, and a context on each.
  void begin(std::uint64_t devices);
  // In a host:

  /// Something.
  void act();
  /// Links a program in some context.
  void link();
  /// Reads all there is, on devices that were recovered.
  void read_all();
  /// Lets go of everything.
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
  /// One that holds the tensor; null: those that were drawn do not.
  [[nodiscard]] PlacePointer any_place_with(Operand tensor);
  [[nodiscard]] std::optional<Operand> any_tensor(const Place& place);
  void add(PlacePointer place);
  [[nodiscard]] TransferOptions transfer(const Events& after);

  // Computing.
  void note_linked(Place& child, const Formula& formula);
  /// In a task: without waits for room.
  void schedule(const PlacePointer& place, bool in_task);
  bool fill_in(const PlacePointer& place, World::Work& work);
  [[nodiscard]] Event submit(const Place& place, const World::Work& work, const Events& after,
                             bool in_task);
  void merge_into(const PlacePointer& place);
  void load();
  void consume(const PlacePointer& place);
  void note_cleared(Seat& seat, const Event& by);
  // Again and again.
  void replay();
  [[nodiscard]] bool record(Recording& recording, std::vector<World::Work>& works);
  void run(std::shared_ptr<const Recorded> recorded);
  // Moving.
  void copy_tensor();
  void copy_views();
  void read(bool in_task);
  void write();
  void move_host_array();
  void view_to_host();
  void view_from_host();
  // The same memory from several devices, in parts.
  [[nodiscard]] std::optional<Part> any_part();
  [[nodiscard]] Part some_of(Part part, std::size_t cells);
  void share();
  void host_work();
  // Owning.
  void allocate();
  void donate();
  void finalize_context();
  void finalize_device();
  void finalize_backend();
  void note_going(Seat& seat);
  void replace(const std::shared_ptr<Seat>& gone);
  // Going wrong.
  void fail_task();
  void run_in_task();
  void cancel(const Seat& seat);
  void recover(const Seat& seat);
  void wait();

  World& world_;
  const RuntimePrograms& programs_;
  std::shared_ptr<Right> host_;  // to h's storage
  std::vector<std::shared_ptr<Seat>> seats_;
  std::vector<PlacePointer> places_;
  std::vector<Part> arrays_;  // in buffers without a tensor
  std::vector<std::weak_ptr<Right>> rights_;
  std::vector<std::shared_ptr<const Recorded>> recorded_;
  std::optional<sched::TaskDevice> own_;  // the host's, on the same scheduler
};

}  // namespace heddle::stress
