// What the runtime knows of the host storage of tensors: the uses that tasks of all devices make of
// it, and who reads it in place. Any thread.
#pragma once

#include <cstddef>
#include <memory>
#include <source_location>
#include <string>
#include <vector>

#include "heddle/host_array.hpp"
#include "heddle/status.hpp"
#include "runtime/memory/buffer_state.hpp"
#include "runtime/memory/hazards.hpp"
#include "runtime/memory/ledger.hpp"

namespace heddle {
class Tensor;
}

namespace heddle::rt {

struct Execution;

struct Access;

struct HostUses {
  /// A constant that devices read in place, and the memory that they have for it.
  struct Constant {
    std::string text;
    std::weak_ptr<const Memory> memory;
  };

  Ledger ledger;  ///< guards what follows
  Hazards hazards;
  std::vector<Constant> constants;
};

/// Of an array and its copies, whichever device asks.
[[nodiscard]] std::shared_ptr<HostUses> uses_of(const HostArray& host);

/// The values that are there now are to be linked: returns once what writes them has ended, unless
/// that is the caller's to ensure. Throws failed_precondition where it ended badly, naming the
/// tensor, and what ends the wait. Linked at `where`.
void await_values(const Execution& execution, const HostArray& host, const Tensor& tensor,
                  const std::source_location& where);

/// Devices read it in place while the buffer has its memory: it is not written. Then
/// await_values().
void note_constant(const Execution& execution, const HostArray& host, const BufferState& buffer,
                   const Tensor& tensor, const std::source_location& where);
/// failed_precondition, naming the memory and the constant that is read in place; else ok. Under
/// the ledger.
[[nodiscard]] Status host_writable(const HostUses& uses, const Access& access);

}  // namespace heddle::rt
