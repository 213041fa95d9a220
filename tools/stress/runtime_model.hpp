// What memory must hold after a run of the tensor runtime: an interpreter of what was asked for, in
// the order in which that was to take effect. Pure; one thread.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "heddle/event.hpp"
#include "tools/stress/runtime_programs.hpp"

namespace heddle::stress {

using Values = std::array<std::uint64_t, num_cells>;

/// Cells of a memory, from one on: `num_cells` of them at most.
struct Slice {
  std::size_t memory = 0, at = 0, cells = num_cells;
  friend bool operator==(const Slice&, const Slice&) = default;
};

/// What was asked for.
struct Request {
  enum class Kind : std::uint8_t {
    values,   ///< `to` is given `numbers`
    copy,     ///< `to` is given what `from` holds
    compute,  ///< `to` is given what `formula` makes of `operands`
    change,   ///< `to` is given thrice itself, what `from` holds, and `numbers`
    read,     ///< `seen` is what was seen of `from`
  };
  Kind kind = Kind::values;
  const char* name = "";
  Slice to{}, from{};
  Values numbers{};
  const Values* seen = nullptr;  ///< outlives the model
  const Formula* formula = nullptr;
  std::array<Slice, num_operands> operands{};
  std::size_t row = 0;
  /// It counts as one that touches all that it may, whichever row that is.
  bool any_row = false;

  /// Its task's event; none: `end` is how it went.
  Event event{};
  /// How it went, where it has no event.
  enum class End : std::uint8_t { took_effect, did_not, anything } end = End::did_not;
  /// Where it did not end well, it may have taken effect, in part or whole.
  bool partly = false;
  /// What has no event was perhaps accepted, and has ended badly.
  bool perhaps_bad = false;
  /// When it ended well, so did this.
  Event needs{};
  /// It was refused, as it would read what a write that ended badly should have left.
  bool not_written = false;
  std::string refusal{};  ///< what it was told then
  /// So many, from this one on, were refused together, as one of them would read what those before
  /// them left so, and none of them writes.
  std::size_t refused_with = 0;
};

class RuntimeModel {
 public:
  /// `automatic`: nothing reads what was not written, whoever waits for what.
  void use(bool automatic) { automatic_ = automatic; }
  /// A memory of so many cells, of which nothing is known. Its number. `buffer`: what was not
  /// written there is refused.
  std::size_t add_memory(std::size_t cells, bool buffer = true);
  /// The request takes effect after those that were added before. Stays where it is.
  Request& add(Request request);

  /// Interprets all of it. Empty, or what does not fit.
  [[nodiscard]] std::string check();
  /// Cells that reads saw and were known, in the last check.
  [[nodiscard]] std::uint64_t compared() const noexcept { return compared_; }

 private:
  enum class Missing : std::uint8_t { no, maybe, yes };
  struct Cell {
    std::uint64_t value = 0;
    bool known = false;
    Missing missing = Missing::no;     ///< what the last write should have left
    const Request* lost_by = nullptr;  ///< that write, where something is missing
  };
  using Cells = std::array<Cell, num_cells>;

  [[nodiscard]] std::string check(const Request& request);
  [[nodiscard]] bool lacks_values(std::size_t first, std::size_t count);
  void take_effect(const Request& request);
  void forget(const Request& request);
  void miss(const Request& request, Missing missing);
  [[nodiscard]] static std::vector<Slice> read_by(const Request& request);
  /// The cell that lacks most, of those that it reads.
  [[nodiscard]] Cell worst_for(const Request& request) const;
  [[nodiscard]] Missing after_change(const Cell& before) const noexcept;
  [[nodiscard]] Cells computed(const Request& request, const Cells& before) const;
  [[nodiscard]] Cells get(const Slice& slice) const;
  void set(const Slice& slice, const Cells& cells);
  [[nodiscard]] std::string compare(const Request& request);
  [[nodiscard]] std::string users_of(const Slice& slice, const Request& before) const;

  std::deque<Request> requests_;
  std::vector<std::vector<Cell>> memories_;
  std::vector<bool> buffers_;  // which of them are
  std::uint64_t compared_ = 0;
  bool automatic_ = false;
};

}  // namespace heddle::stress
