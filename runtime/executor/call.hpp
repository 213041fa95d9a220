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
// Any thread; the stages of one call run on its thread.
#pragma once

#include "heddle/executor.hpp"
#include "runtime/executor/arguments.hpp"

namespace heddle::rt {

class RecordingState;

/// Gives the results to the sink, and launches the call. If it throws, no argument has changed,
/// unless the error is the logger's or nan_check's: these run after the launch.
void call(const CallTarget& target, const PassedArguments& passed, executors::Sink& sink);
/// Adds the call to the recording, and gives the results to the sink.
void record(const CallTarget& target, const PassedArguments& passed, RecordingState& recording,
            executors::Sink& sink);

}  // namespace heddle::rt
