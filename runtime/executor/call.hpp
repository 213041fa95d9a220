// One call of an executor with a known entry, as stages, each a value for the next:
//
//   OtherArguments    side parameters, set by the hook (other_arguments.hpp)
//   VariableSnapshot  the variables, read at one moment (other_arguments.hpp)
//   CallArguments     every argument on the device, checked (arguments.hpp)
//   Donation          which results take the memory of donated arguments (donation.hpp)
//   LaunchWay         by the fast path, or through the door
//   CallResults       arrays and memory of the results (results.hpp)
//   Launch            the task, accepted by the device (call.cpp)
//   tell()            the logger has the marked nodes
//
// Each function is called by the thread of a call.
#pragma once

#include "heddle/executor.hpp"
#include "runtime/executor/arguments.hpp"

namespace heddle::rt {

class RecordingState;

/// Launches the call, and gives the results to the sink before. Throws, and then no argument has
/// changed; but the errors of the logger and of nan_check, which run after the launch.
void call(const CallTarget& target, const PassedArguments& passed, executors::Sink& sink);
/// Adds the call to the recording, and gives the results to the sink.
void record(const CallTarget& target, const PassedArguments& passed, RecordingState& recording,
            executors::Sink& sink);

}  // namespace heddle::rt
